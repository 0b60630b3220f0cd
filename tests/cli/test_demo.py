"""`agent-envs demo`."""

from typing import Any

from agent_envs.cli import demo


def test_the_tour_and_its_figures(cli: Any) -> None:
    ran = cli("demo", "--json")
    assert ran.code == 0
    told, text = ran.json, ran.err
    assert list(told) == list(demo.PARTS)

    for episode in told["episodes"]:
        assert episode["passed"] and episode["faults"] > 0
        assert episode["task"] in text

    branches = told["branches"]
    assert branches["same_again"] and branches["only_noise_changed"]
    assert branches["passed"] == {"believed": False, "asked_twice": True, "reseeded": True}

    players = told["players"]
    assert players.pop("oracle") == {"reliable": 1.0, "lying": 1.0}
    believes = players.pop("believes its tool")
    assert believes["reliable"] == 1.0 and 0.5 < believes["lying"] < 0.9
    assert all(rates == {"reliable": 0.0, "lying": 0.0} for rates in players.values())
    assert f"{believes['lying']:.1%}" in text

    assert "\x1b" not in text, "no colours where there is no terminal"
    assert "NO" not in text.split(), "a promise was broken before the reader's eyes"
    assert max(map(len, text.splitlines())) <= 100


def test_what_is_shown_really_happens(capsys: Any) -> None:
    said: list[str] = []
    demo.branches(said.append)
    assert capsys.readouterr().out == ""
    calls = [line for line in said if "calculate(" in line]
    spoiled, again, *_ = [line for line in calls if "<- injected: wrong" in line]
    assert spoiled == again
    assert sum("passed, reward 1" in line for line in said) == 2
    assert sum("failed, reward 0" in line for line in said) == 1
    assert sum("-- rollback" in line for line in said) == 2
