"""A thread that runs one job after the other and never keeps the interpreter from exiting."""

import queue
import threading
from collections.abc import Callable
from typing import Any

Done = Callable[[Any, BaseException | None], None]


class Worker:
    """A daemon thread: a job that hangs holds up only its own worker, and no exit.

    (The threads of `concurrent.futures` are joined at exit, so one stuck step would hang it.)
    """

    def __init__(self) -> None:
        self._jobs: queue.SimpleQueue[tuple[Callable[[], Any], Done] | None] = queue.SimpleQueue()
        threading.Thread(target=self._work, daemon=True).start()

    def submit(self, job: Callable[[], Any], done: Done) -> None:
        """Run `job` when the earlier ones are through; `done(result, error)` is called there."""
        self._jobs.put((job, done))

    def close(self) -> None:
        """End the thread after the jobs that were submitted."""
        self._jobs.put(None)

    def _work(self) -> None:
        while (next_one := self._jobs.get()) is not None:
            job, done = next_one
            try:
                result = job()
            except BaseException as error:
                done(None, error)
            else:
                done(result, None)
