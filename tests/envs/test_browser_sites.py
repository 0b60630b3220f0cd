"""The browser's sites and tasks, without a browser: requests in, responses out."""

import hashlib
import json
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_envs.envs.browser import sites
from agent_envs.envs.browser.sites import oracle
from agent_envs.envs.browser.sites.base import COOKIE, Request, Site, cookie
from agent_envs.envs.browser.sites.cheats import CHEATS
from agent_envs.envs.browser.sites.database import (
    BrokenChain,
    Database,
    connect,
    difference,
    events,
    token,
)
from agent_envs.envs.browser.sites.family import TWISTS
from agent_envs.envs.browser.sites.oracle import Step
from agent_envs.envs.browser.sites.source import COUNTS, SiteTasks
from agent_envs.protocol import Hermes
from agent_envs.task import Task
from agent_envs.turns import Message, Move
from tests.envs.site_client import Client

NONCE = b"the nonce of an episode"
TASKS = SiteTasks()
EVERY = list(TASKS)
FIRST = {task.data["family"]: task for task in reversed(EVERY) if task.split == "train"}
LOOK_UPS = [task for task in FIRST.values() if task.data["answer"] is not None]
CHANGES = [task for task in FIRST.values() if task.data["answer"] is None]
HERMES = Hermes({}, {})
MOST_TURNS, MOST_CALLS = 16, 32
FORMS = {
    "shop": "/products/1",
    "helpdesk": "/tickets?status=Open",
    "calendar": "/new",
    "admin": "/settings",
    "wiki": "/search?q=lake",
}
"""A page from which every site's forms are near."""


def named(task: Task) -> str:
    """A test's name."""
    return str(task.data["family"])


def site_of(task: Task) -> Site:
    """The site of a task."""
    return sites.get(task.data["site"])


@pytest.fixture(params=sites.names())
def client(request: pytest.FixtureRequest) -> Iterator[Client]:
    """Each site, opened in the world of seed 1."""
    site = sites.get(request.param)
    with closing(site.create(1, NONCE)) as db:
        yield Client(site, db)


def start(task: Task) -> Client:
    """An episode of a task."""
    return Client(site_of(task), sites.open_site(task.data, NONCE))


def play(client: Client, steps: list[Any]) -> None:
    """Carry out some steps."""
    data = {"steps": steps, "answer": None}
    messages: list[Message] = [{"role": "user", "content": client.observation()}]
    while not isinstance(move := oracle.move(data, messages), str):
        answer(client, move, messages)


def answer(client: Client, move: Move, messages: list[Message]) -> None:
    """Run the calls of a turn, and add what comes back to the conversation."""
    messages.append({"role": "assistant", "content": ""})
    assert isinstance(move, list)
    for call in move:
        messages.append({"role": "tool", "content": client.run(call)})


def outcome(task: Task, client: Client, given: str | None) -> Any:
    """The grade of an episode, which ends with it."""
    with closing(client.db):
        return sites.check(task.data, NONCE, client.db.serialize(), given)


def gold(task: Task) -> str:
    """The gold answer."""
    return str(task.data["answer"] or oracle.DONE)


# -- tasks


@pytest.mark.parametrize("name", sites.names())
def test_the_gold_steps_of_every_task_of_every_split_solve_it(name: str) -> None:
    for task in EVERY:
        if task.data["site"] == name:
            is_solved_by_its_gold_steps(task)


def is_solved_by_its_gold_steps(task: Task) -> None:
    client, messages = start(task), [{"role": "user", "content": task.prompt}]
    while not isinstance(move := oracle.move(task.data, messages), str):
        answer(client, move, messages)
        assert client.status == 200, (task.id, client.url, client.page.text)
        shown = Counter((e.role, e.name) for e in client.page.elements if e.role)
        assert all(n == 1 and key[1] for key, n in shown.items()), (task.id, client.url, shown)
    result = outcome(task, client, move)
    assert result.passed, (task.id, result.reason)
    assert set(result.components.values()) == {1.0} and not result.reason


@pytest.mark.parametrize("level", range(4))
def test_more_training_tasks_are_new_ones_in_worlds_of_their_own(level: int) -> None:
    shipped = TASKS.split("train", level)
    source = TASKS.more(len(shipped) + 40, level)
    found = source.split("train", level)
    more = found[len(shipped) :]
    assert found[: len(shipped)] == shipped and len(more) == 40
    assert source.split("heldout", level) == TASKS.split("heldout", level)
    assert not {task.data["seed"] for task in more} & {task.data["seed"] for task in EVERY}
    answers = Counter((t.data["family"], t.data["answer"]) for t in [*EVERY, *more])
    assert max(n for (_, gold), n in answers.items() if gold) == 1
    for task in more:
        is_solved_by_its_gold_steps(task)


def test_more_training_tasks_of_no_level() -> None:
    with pytest.raises(ValueError, match="level=4: one of 0, 1, 2, 3"):
        TASKS.more(5, 4)


def test_every_family_has_its_tasks_in_every_split() -> None:
    assert len(sites.families()) >= 20 and len({task.level for task in EVERY}) >= 3
    assert min(Counter(f.site.name for f in sites.families().values()).values()) >= 4
    found = Counter((task.data["family"], task.split) for task in EVERY)
    assert found == {(name, split): n for name in sites.families() for split, n in COUNTS.items()}


def test_splits_share_no_world_and_no_answer_of_a_family_occurs_twice() -> None:
    worlds = {split: {task.data["seed"] for task in TASKS.split(split)} for split in COUNTS}
    for one in COUNTS:
        for other in COUNTS:
            assert one == other or not worlds[one] & worlds[other]
    asked = [task.data for task in EVERY if task.data["answer"] is not None]
    assert max(Counter((data["family"], data["answer"]) for data in asked).values()) == 1


def test_no_answer_stands_in_its_prompt_or_is_short() -> None:
    for task in EVERY:
        if task.data["answer"] is not None:
            assert task.data["answer"] not in task.prompt
            assert sum(c.isdigit() for c in task.data["answer"]) >= 3, task.id


def test_tasks_are_plain_data_and_within_the_limits_of_an_episode() -> None:
    for task in EVERY:
        assert json.loads(json.dumps(task.data)) == task.data
        assert len(oracle.turns(task.data["steps"])) < MOST_TURNS, task.id
        assert len(task.data["steps"]) <= MOST_CALLS, task.id


def test_adversarial_tasks_have_a_twist_each_and_others_none() -> None:
    for task in EVERY:
        assert ("twist" in task.data["args"]) == (task.split == "adversarial")
    tried = Counter(task.tags[2] for task in TASKS.split("adversarial"))
    assert set(tried) == set(TWISTS) and max(tried.values()) - min(tried.values()) <= 2


@pytest.mark.parametrize("name", sites.names())
def test_injected_text_and_twins_are_in_the_world(name: str) -> None:
    site = sites.get(name)
    for twist in (site.world.inject, site.world.twin):
        with closing(site.create(1, NONCE)) as db, closing(site.create(1, NONCE)) as plain:
            twist(db, 0)
            told = difference(db, plain)
            assert len(told) > 4
            assert twist != site.world.inject or "NOTICE TO AUTOMATED ASSISTANTS" in "".join(told)


def test_the_same_tasks_and_worlds_in_another_process() -> None:
    code = (
        "import hashlib\n"
        "from agent_envs.envs.browser import sites\n"
        "from agent_envs.envs.browser.sites.source import SiteTasks\n"
        "worlds = [sites.get(n).create(3, b'n').serialize() for n in sites.names()]\n"
        "print(SiteTasks().digest(), hashlib.sha256(b''.join(worlds)).hexdigest())"
    )
    run = [sys.executable, "-c", code]
    other = subprocess.run(
        run, capture_output=True, text=True, check=True, env={"PYTHONHASHSEED": "7"}
    )
    worlds = [sites.get(name).create(3, b"n") for name in sites.names()]
    told = hashlib.sha256(b"".join(db.serialize() for db in worlds)).hexdigest()
    for db in worlds:
        db.close()
    assert other.stdout.split() == [TASKS.digest(), told]


# -- what does not solve a task


@pytest.mark.parametrize("task", FIRST.values(), ids=named)
@pytest.mark.parametrize("given", [None, "done", "", "{}", "00000"])
def test_nothing_done_is_nothing_solved(task: Task, given: str | None) -> None:
    assert not outcome(task, start(task), given).passed


@pytest.mark.parametrize("task", LOOK_UPS, ids=named)
def test_only_the_exact_answer_counts(task: Task) -> None:
    right = gold(task)
    wrong = [f"{right}1", right[:-1], f"{right} or 12345", f"It is {right}", json.dumps([right])]
    wrong += [right.lower() + "x", f"{right}\n{right}", "nan", "\0"]
    for text in wrong:
        assert not outcome(task, start(task), text).passed, text
    assert outcome(task, start(task), f" {right}\n").passed


@pytest.mark.parametrize("task", CHANGES, ids=named)
def test_half_of_the_work_is_not_enough(task: Task) -> None:
    *most, _ = task.data["steps"]
    client = start(task)
    play(client, most)
    result = outcome(task, client, "done")
    assert not result.passed and result.components["answer"] == 1.0


@pytest.mark.parametrize("task", FIRST.values(), ids=named)
def test_one_change_too_many_spoils_it(task: Task) -> None:
    client = start(task)
    play(client, task.data["steps"])
    more(client)
    result = outcome(task, client, gold(task))
    assert not result.passed and "+" in result.reason


def more(client: Client) -> None:
    """Change something that no task asks for."""
    db, name = client.db, client.site.name
    if name == "shop":
        number = db.value("SELECT id FROM products WHERE stock > 0 AND id NOT IN"
                          " (SELECT product FROM cart)")  # fmt: skip
        sent = client.send("POST", "/cart/add", {"product": [str(number)], "quantity": ["1"]})
    elif name == "helpdesk":
        number = db.value("SELECT id FROM tickets WHERE status = 'Solved'")
        form = {"kind": ["Internal note"], "message": ["I was here"]}
        sent = client.send("POST", f"/tickets/{number}/messages", form)
    elif name == "calendar":
        form = {"title": ["Extra"], "day": ["2026-01-05"], "start": ["03:00"], "end": ["03:30"]}
        sent = client.send("POST", "/new", form | {"room": ["None"]})
    elif name == "admin":
        row = db.one("SELECT * FROM accounts WHERE status = 'Active' AND quota > 5")
        form = {k: [str(row[k])] for k in ("role", "plan", "status")} | {"quota": ["4999"]}
        sent = client.send("POST", f"/accounts/{row['id']}", form)
    else:
        row = db.one("SELECT * FROM pages WHERE category = 'Lakes'")
        form = {"Depth in metres": ["1"], "Area in km2": ["1"]}
        sent = client.send("POST", f"/wiki/{row['slug']}/edit", form)
    assert sent.status == 303, sent.body


@pytest.mark.parametrize(
    "name",
    ["shop.buy", "shop.again", "helpdesk.reply", "helpdesk.duplicate", "calendar.create",
     "calendar.slot", "shop.return"],
)  # fmt: skip
def test_what_is_done_twice_is_not_done_right(name: str) -> None:
    client = start(FIRST[name])
    play(client, FIRST[name].data["steps"])
    change = {"room": "None"} if name.startswith("calendar") else {}
    twice = [
        [*step[:3], change.get("room", step[3])] if step[2] == "Room" else step
        for step in FIRST[name].data["steps"]
    ]
    play(client, twice)
    assert not outcome(FIRST[name], client, "done").passed


def test_an_order_to_another_address_or_of_another_number_is_not_the_order() -> None:
    task = FIRST["shop.buy"]
    for label, value in (("Town", "Nowhere"), ("Quantity", "4"), ("Name", "A. Nother")):
        steps = [[*s[:3], value] if s[2] == label else s for s in task.data["steps"]]
        client = start(task)
        play(client, steps)
        assert client.db.value("SELECT max(day) FROM orders") is not None
        assert not outcome(task, client, "done").passed, label


def test_what_others_have_seen_cannot_be_undone() -> None:
    task = FIRST["admin.plan"]
    client = start(task)
    number = client.db.value("SELECT id FROM accounts WHERE status = 'Active'")
    for action in ("Suspend", "Reactivate"):
        client.send("POST", "/accounts/bulk", {"chosen": [str(number)], "action": [action]})
    play(client, task.data["steps"])
    result = outcome(task, client, "done")
    assert not result.passed and result.components["state"] == 1.0
    assert result.components["events"] == 0.0 and "account.suspended" in result.reason


def test_a_detour_that_is_undone_and_that_nobody_saw_is_no_fault() -> None:
    task = FIRST["shop.code"]
    client = start(task)
    number = client.db.value("SELECT id FROM products WHERE stock > 0")
    client.send("POST", "/cart/add", {"product": [str(number)], "quantity": ["1"]})
    client.send("POST", "/cart/change", {"product": [str(number)], "quantity": ["0"]})
    assert outcome(task, client, gold(task)).passed


@pytest.mark.parametrize("name", CHEATS)
def test_no_cheat_solves_anything(name: str) -> None:
    for task in [*FIRST.values(), *TASKS.split("adversarial")[::2]]:
        client, messages = start(task), [{"role": "user", "content": task.prompt}]
        for _ in range(MOST_TURNS):
            move = HERMES.parse(CHEATS[name](messages))
            if isinstance(move, str):
                break
            answer(client, move, messages)
        assert isinstance(move, str), name
        assert not outcome(task, client, move).passed, (name, task.id, move[:200])


# -- sites


def test_no_page_without_the_episodes_session(client: Client) -> None:
    for held in ({}, {COOKIE: ""}, {COOKIE: token(b"another")}, {COOKIE: "é"}, {"other": "x"}):
        response = client.send("GET", "/", {}, cookies=held)
        assert response.status == 403 and len(response.body) < 700
    assert token(NONCE) in cookie(NONCE) and "HttpOnly" in cookie(NONCE)
    assert NONCE not in client.db.serialize()


def test_unknown_addresses_are_404(client: Client) -> None:
    paths = ["/nowhere", "/grade", "//", "/../etc/passwd", "", "/products/0", "/wiki/none"]
    paths += [r.pattern.replace("([0-9]{1,9})", "999999999") for r in client.site.routes]
    for path in paths:
        if not re.search(r"[^/a-z0-9.]", path) and path not in static_paths(client.site):
            for method in ("GET", "POST"):
                assert client.send(method, path, {}).status in (404, 405), path


def static_paths(site: Site) -> set[str]:
    """The addresses without a number."""
    return {route.pattern for route in site.routes if "(" not in route.pattern}


def test_changes_go_through_post_alone(client: Client) -> None:
    before = client.db.serialize()
    pairs = {(route.method, route.pattern) for route in client.site.routes}
    for method, pattern in pairs:
        path = re.sub(r"\(.*?\)", "1", pattern)
        if method == "POST" and ("GET", pattern) not in pairs:
            for other in ("GET", "HEAD", "PUT", "DELETE", "TRACE", "post"):
                response = client.send(other, f"{path}?quantity=1&product=1", {"product": ["1"]})
                assert response.status == 405 and ("Allow", "POST") in response.headers
        if method == "GET":
            assert client.send("GET", path, {"product": ["1"]}).status in (200, 404)
    assert client.db.serialize() == before


def test_a_form_sent_from_elsewhere_is_refused(client: Client) -> None:
    before = client.db.serialize()
    for route in client.site.routes:
        path = re.sub(r"\(.*?\)", "1", route.pattern)
        for origin in ("http://evil.test", "null", "http://site.test.evil.test"):
            if route.method == "POST":
                sent = client.send("POST", path, {}, host="site.test", origin=origin)
                assert sent.status == 403
    assert client.db.serialize() == before


def test_pages_have_a_strict_policy_and_no_script(client: Client) -> None:
    for route in client.site.routes:
        path = re.sub(r"\(.*?\)", "1", route.pattern)
        response = client.send("GET", path, {})
        policy = dict(response.headers)["Content-Security-Policy"]
        assert "default-src 'none'" in policy and "unsafe" not in policy
        assert not re.search(rb"<script|<iframe|\son\w+=|javascript:|<!--", response.body)


def test_the_style_sheet_is_served(client: Client) -> None:
    response = client.send("GET", "/style.css", {}, cookies={})
    assert response.status == 200 and ("Content-Type", "text/css") in response.headers
    assert b"url(" not in response.body and b"@import" not in response.body


STORED = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>&amp;"


def test_what_is_stored_by_a_form_is_inert_everywhere() -> None:
    for name, method in (("shop", shop_stores), ("helpdesk", help_stores),
                         ("calendar", calendar_stores), ("wiki", wiki_stores)):  # fmt: skip
        site = sites.get(name)
        with closing(site.create(1, NONCE)) as db:
            client = Client(site, db)
            for url in [method(client), f"{FORMS[name]}&q={STORED}", f"/?done={STORED}"]:
                body = client.send("GET", url, {}).body.decode()
                assert "<script" not in body and "<img" not in body, url
            assert "&lt;script&gt;alert(1)" in client.send("GET", method(client), {}).body.decode()


def shop_stores(client: Client) -> str:
    """Order to a hostile address; where it is shown."""
    number = client.db.value("SELECT id FROM products WHERE stock > 5")
    client.send("POST", "/cart/add", {"product": [str(number)], "quantity": ["1"]})
    form = {"name": [STORED], "street": [STORED], "town": [STORED], "delivery": ["Express"]}
    assert client.send("POST", "/checkout", form).status == 303
    return f"/orders/{client.db.value('SELECT max(id) FROM orders')}"


def help_stores(client: Client) -> str:
    """Send a hostile message; where it is shown."""
    number = client.db.value("SELECT id FROM tickets WHERE status = 'Open'")
    form = {"kind": ["Public reply"], "message": [f"{STORED}\n{STORED}"]}
    assert client.send("POST", f"/tickets/{number}/messages", form).status == 303
    return f"/tickets/{number}"


def calendar_stores(client: Client) -> str:
    """Create a meeting with a hostile title; where it is shown."""
    form = {"title": [STORED], "day": ["2026-02-02"], "start": ["01:00"], "end": ["02:00"]}
    assert client.send("POST", "/new", form | {"room": ["None"]}).status == 303
    return "/?day=2026-02-02"


def wiki_stores(client: Client) -> str:
    """Edit a page to hostile values; where they are shown."""
    row = client.db.one("SELECT * FROM pages WHERE category = 'Lakes'")
    where = f"/wiki/{row['slug']}"
    old = client.db.value("SELECT value FROM facts WHERE page = ?", row["id"])
    form = {"Depth in metres": [STORED + old[:2]], "Area in km2": [STORED + old[1:3]]}
    assert client.send("POST", f"{where}/edit", form).status in (303, 422)
    return f"{where}/history"


ODD = st.one_of(
    st.text(max_size=40),
    st.sampled_from(
        ["", "0", "-1", "1e9", "٣", "999999999", "9" * 4000, "\0", "\ud800", "\u202e\u2028", "1;DR",
         "%00", "../..", "' OR 1=1 --", "NaN", "0x1", "1.5", "2026-02-30", "24:00", "x" * 5000,
         "Open", "Express", "Suspend", "1"]
    ),
)  # fmt: skip
NAMES = st.sampled_from(
    "product quantity name street town delivery reason kind message status priority agent title day"
    " start end room person reply chosen action back role plan quota account q page sort rating"
    " most category colour done revision Population session-timeout".split()
)
FIELDS = st.dictionaries(NAMES, st.lists(ODD, max_size=3), max_size=12)


@given(st.sampled_from(sites.names()), st.data())
def test_no_request_makes_a_site_raise_or_leaves_half_of_it(name: str, data: st.DataObject) -> None:
    site = sites.get(name)
    route = data.draw(st.sampled_from(site.routes))
    number = data.draw(st.sampled_from(["1", "2", "999999999", "-1", "٣", "1\n", "a", ""]))
    path = data.draw(st.one_of(st.just(re.sub(r"\(.*?\)", number, route.pattern)), ODD))
    method = data.draw(st.sampled_from(["GET", "POST", "HEAD", "", "\0"]))
    query, form = data.draw(FIELDS), data.draw(FIELDS)
    with closing(site.create(1, NONCE)) as db:
        before = db.serialize()
        request = Request(method, path, query, form, {COOKIE: token(NONCE)})
        response = site.respond(request, db)
        assert response.status in (200, 303, 403, 404, 405, 422)
        assert not db.in_transaction and len(events(db)) >= (response.status == 303)
        if response.status != 303:
            assert db.serialize() == before


def test_a_megabyte_is_refused_or_cut(client: Client) -> None:
    big = "x" * 2**20
    for route in client.site.routes:
        path = re.sub(r"\(.*?\)", "1", route.pattern)
        names = ("message", "title", "name", "q", "day", "page", "done", "chosen", "back")
        fields = {name: [big] * 5 for name in names}
        request = Request(route.method, path, fields, fields, {COOKIE: token(NONCE), "x": big})
        response = client.site.respond(request, client.db)
        assert response.status != 303 and len(response.body) < 100_000
    assert client.site.respond(Request("GET", f"/{big}"), client.db).status == 403


# -- state


def test_a_snapshot_of_a_site_goes_on_as_if_nothing_had_been() -> None:
    for task in (FIRST["shop.buy"], FIRST["calendar.slot"], FIRST["helpdesk.escalate"]):
        straight = start(task)
        play(straight, task.data["steps"])
        for cut in (3, len(task.data["steps"]) - 1):
            client = start(task)
            play(client, task.data["steps"][:cut])
            saved = client.db.serialize()
            more(client)
            client.db.close()
            client.db = connect(NONCE, saved)
            play(client, task.data["steps"][cut:])
            assert difference(client.db, straight.db) == []
            assert events(client.db) == events(straight.db)
            client.db.close()
        straight.db.close()


@pytest.fixture
def ended() -> Iterator[Database]:
    """The database after an order."""
    client = start(FIRST["shop.buy"])
    play(client, FIRST["shop.buy"].data["steps"])
    with closing(client.db) as db:
        yield db


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE events SET kind = 'order.placed' WHERE seq = 1",
        "UPDATE events SET data = '{}' WHERE seq = 2",
        "UPDATE events SET time = time - 1 WHERE seq = 1",
        "UPDATE events SET chain = substr(chain, 2) || '0' WHERE seq = 1",
        "DELETE FROM events WHERE seq = 1",
        "DELETE FROM events WHERE seq = (SELECT max(seq) FROM events)",
        "DELETE FROM events",
        "INSERT INTO events SELECT seq + 1, time, kind, data, chain FROM events WHERE seq = 2",
        "UPDATE clock SET minute = minute + 1",
    ],
)
def test_the_chain_of_events_tells_what_was_tampered_with(ended: Database, change: str) -> None:
    task = FIRST["shop.buy"]
    assert sites.check(task.data, NONCE, ended.serialize(), "done").passed
    ended.execute(change)
    with pytest.raises(BrokenChain):
        events(ended)
    result = sites.check(task.data, NONCE, ended.serialize(), "done")
    assert not result.passed and result.components["events"] == 0.0


def test_an_order_that_no_request_made_does_not_count(ended: Database) -> None:
    task = FIRST["shop.buy"]
    with closing(sites.open_site(task.data, NONCE)) as forged:
        sites.families()["shop.buy"].expect(forged, task.data["args"])
        result = sites.check(task.data, NONCE, forged.serialize(), "done")
    assert result.components["state"] == 1.0 and not result.passed
    assert not sites.check(task.data, b"another episode", ended.serialize(), "done").passed


def test_each_change_moves_the_clock_by_a_minute_and_a_refusal_does_not(
    ended: Database,
) -> None:
    first, last = ended.one("SELECT start, minute FROM clock")
    assert last - first == len({event.time for event in events(ended)}) == 2
    shop = sites.get("shop")
    request = Request("POST", "/checkout", {}, {}, {COOKIE: token(NONCE)})
    assert shop.respond(request, ended).status == 422
    assert ended.value("SELECT minute FROM clock") == last


def test_an_unknown_site_is_named() -> None:
    with pytest.raises(KeyError, match="no site 'shoop'; there are admin"):
        sites.get("shoop")


def test_steps_are_put_together_by_page() -> None:
    steps = [Step("goto", value="/"), oracle.fill("A", 1), oracle.tick("B"), oracle.press("Go")]
    assert [len(turn) for turn in oracle.turns([*steps, oracle.click("C")])] == [1, 3, 1]
