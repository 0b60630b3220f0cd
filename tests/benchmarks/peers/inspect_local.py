"""Inspect's local sandbox running one small program; it has no session to keep warm."""

import asyncio
import sys

from inspect_ai.util._sandbox.local import (
    LocalSandboxEnvironment,
)

COMMAND = [sys.executable, "-c", "print(6*7)"]
LOOP = asyncio.new_event_loop()
SANDBOX = LocalSandboxEnvironment()


async def run(count: int) -> None:
    """So many calls, one after another."""
    for _ in range(count):
        if (await SANDBOX.exec(COMMAND)).stdout.strip() != "42":
            raise RuntimeError("the sandbox does not answer as it did: adapt this file")


def calls(count: int) -> int:
    """One call of the sandbox; a unit is one."""
    LOOP.run_until_complete(run(count))
    return count


calls(1)

MEASURES = {"calls": calls}
