"""`docs/adapters.md` names what there is, at the versions that are tested."""

import importlib.util
import re

from tests.adapters.matrix import FRAMEWORKS, ROOT

TEXT = (ROOT / "docs" / "adapters.md").read_text()


def test_versions_are_those_of_the_matrix() -> None:
    pins = {r for f in FRAMEWORKS.values() for r in f.wants if "==" in r}
    written = set(re.findall(r"[\w\[\]-]+==[\d.]+", TEXT))
    assert written <= pins
    assert {f.wants[0] for f in FRAMEWORKS.values()} <= written


def test_modules_and_scripts_are_there() -> None:
    names = set(re.findall(r"agent_envs\.adapters\.(\w+)", TEXT))
    names |= set(re.findall(r"`adapters\.(\w+)`", TEXT))
    folder = ROOT / "agent_envs" / "adapters"
    assert names == {path.stem for path in folder.glob("[!_]*.py")} - {"hosted", "sessions"}
    for script in re.findall(r"docs/adapters/\w+\.py", TEXT):
        assert (ROOT / script).exists()
    assert importlib.util.find_spec("agent_envs.adapters.hosted")


def test_the_wrapper_is_used_as_written() -> None:
    [code] = [
        block for block in re.findall(r"```python\n(.*?)```", TEXT, re.S) if "Letters" in block
    ]
    names: dict[str, object] = {}
    exec(code, names)
    env: object = names["env"]
    observation, _ = env.reset(seed=1)  # type: ignore[attr-defined]
    assert observation.dtype == "float32"
