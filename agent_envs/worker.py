"""A thread that runs one job after the other and never keeps the interpreter from exiting."""

import logging
import queue
import threading
from collections.abc import Callable
from typing import Any, TypeAlias

Job: TypeAlias = Callable[[], Any]
Done: TypeAlias = Callable[[Any, BaseException | None], None]

logger = logging.getLogger("agent_envs")


class Worker:
    """A daemon thread: a job that hangs holds up only its own worker, and no exit.

    (The threads of `concurrent.futures` are joined at exit, so one stuck step would hang it.)
    """

    def __init__(self) -> None:
        self._jobs: queue.SimpleQueue[tuple[Job, Done] | None] = queue.SimpleQueue()
        threading.Thread(target=self._work, daemon=True).start()

    def submit(self, job: Job, done: Done) -> None:
        """Run `job` when the earlier ones are through; `done(result, error)` is called there."""
        self._jobs.put((job, done))

    def close(self) -> None:
        """End the thread after the jobs that were submitted."""
        self._jobs.put(None)

    def _work(self) -> None:
        while (given := self._jobs.get()) is not None:
            _run(*given)
            del given  # an idle thread keeps no environment alive


def _run(job: Job, done: Done) -> None:
    """Do a job and say so, whatever either raises: the thread lives on."""
    result, failed = None, None
    try:
        result = job()
    except BaseException as error:
        failed = error
    try:
        done(result, failed)
    except Exception:
        logger.exception("nobody could be told how a job ended")
    finally:
        failed = None  # its traceback holds this frame
