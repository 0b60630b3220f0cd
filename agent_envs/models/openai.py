"""A policy behind a server that speaks OpenAI's chat completions API, as most do."""

import json
import logging
import queue
import random
import threading
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

from agent_envs.errors import BackendUnavailable
from agent_envs.models.connection import Connection, checked_url
from agent_envs.models.reply import Reply, Usage, read_reply
from agent_envs.models.trouble import (
    LONGEST_WAIT,
    ModelError,
    TooLong,
    Unreachable,
    pause,
    refusal,
)
from agent_envs.models.wire import encode
from agent_envs.plain import to_plain
from agent_envs.policy import Answer, Messages, Policy
from agent_envs.streams import derive
from agent_envs.turns import Action

_OURS = frozenset({"messages", "model", "n", "stream", "tools"})
_FAILURES_IN_A_ROW = 20
_A_DAY = 86400.0
_FIRST_TRIES = 2
"""How often a server that never answered is tried again."""

logger = logging.getLogger("agent_envs")


@dataclass(eq=False)
class _Job:
    """One turn that was asked for."""

    key: Hashable
    messages: Messages
    over: threading.Event = field(default_factory=threading.Event)
    """Set where nobody waits for it any more."""
    connection: Connection | None = None
    """What it is running on."""


class OpenAIPolicy(Policy):
    """Asks a server for each turn, up to `concurrency` at the same time.

    What may pass (429, 5xx, a broken connection, no answer in time) is tried again, with a back-off
    that honours `Retry-After`. A conversation that outgrew the model's context ends its episode as
    at a token limit. Any other failure is an error of that episode alone, which does not count. A
    server that refuses every request (a wrong key, no such model), that never answered, or that
    went away, makes `collect` raise BackendUnavailable. The key is sent and never told.
    """

    def __init__(
        self,
        model: str,
        base_url: str,
        *,
        api_key: str | None = None,
        tools: Sequence[Mapping[str, Any]] | None = None,
        protocol: str = "hermes",
        body: Mapping[str, Any] | None = None,
        timeout: float = 300.0,
        retries: int = 8,
        concurrency: int = 16,
        seed: int | None = None,
    ) -> None:
        """`tools`: an env's `tool_schemas`, for native tool calls (make the env with
        `tool_docs=False`); without them calls are text in the env's `protocol`. `body`: more fields
        of the request, `temperature` say. `timeout`: of one request, in seconds. `seed`: sends each
        request one of its own, a function of this, the key and the turn.

        Raises ValueError for arguments that are none.
        """
        if not 0 < timeout <= _A_DAY or retries < 0 or concurrency < 1:
            raise ValueError("timeout over 0 (up to a day), retries from 0, concurrency from 1 up")
        if not _OURS.isdisjoint(body or {}):
            raise ValueError(f"body: {sorted(_OURS & set(body or {}))} are not yours to set")
        self.model, self.base_url, self.protocol = model, base_url, protocol
        self.usage = Usage()
        """Of all turns so far."""
        self._url = checked_url(base_url)
        self._key = _checked_key(api_key)
        self._tools = to_plain(list(tools)) if tools else None
        self._body: dict[str, Any] = to_plain(dict(body or {}))
        self._timeout, self._retries, self._seed = timeout, retries, seed
        self._concurrency = concurrency
        self._todo: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._ready: queue.SimpleQueue[tuple[_Job, Action | Exception] | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._jobs: dict[Hashable, _Job] = {}
        self._spent: dict[Hashable, Usage] = {}
        self._threads: list[threading.Thread] = []
        self._served: dict[str, str] = {}
        self._answered = False
        self._failures = 0
        """How many turns failed one after the other."""
        self._down = ""
        """Why no request can succeed."""

    # -- Policy ------------------------------------------------------------------------------------

    def submit(self, key: Hashable, messages: Messages) -> None:
        """See `Policy`."""
        self.cancel(key)
        job = _Job(key, messages)
        with self._lock:
            self._jobs[key] = job
            if len(self._threads) < min(self._concurrency, len(self._jobs)):
                self._threads.append(threading.Thread(target=self._work, daemon=True))
                self._threads[-1].start()
        self._todo.put(job)

    def collect(self, timeout: float) -> list[Answer]:
        """See `Policy`. Raises BackendUnavailable where no request can succeed."""
        answers = self._take(timeout)
        while not self._ready.empty():
            answers += self._take(0.0)
        if self._down:
            raise BackendUnavailable(self._down)
        return answers

    def cancel(self, key: Hashable) -> None:
        """See `Policy`: a running request is broken off."""
        with self._lock:
            job = self._jobs.pop(key, None)
            if job is not None:
                job.over.set()
                if job.connection is not None:
                    job.connection.abort()

    def close(self) -> None:
        """Break off what runs, and end the threads."""
        for key in list(self._jobs):
            self.cancel(key)
        for _ in self._threads:
            self._todo.put(None)
        self._threads = []

    # -- what it was and what it cost --------------------------------------------------------------

    def describe(self) -> dict[str, Any]:
        """What plays, for provenance: plain JSON, without the key."""
        return {
            "name": f"openai:{self.model}",
            "base_url": self.base_url,
            "tools": "native" if self._tools else "text",
            "body": dict(self._body),
            "served": dict(self._served),
        }

    def spent(self, key: Hashable) -> Usage:
        """What the conversation called `key` has cost since this was last asked."""
        with self._lock:
            return self._spent.pop(key, None) or Usage()

    # -- inside ------------------------------------------------------------------------------------

    def _take(self, timeout: float) -> list[Answer]:
        try:
            taken = self._ready.get(block=timeout > 0, timeout=timeout)
        except queue.Empty:
            return []
        if taken is None:
            return []
        job, answer = taken
        with self._lock:
            if self._jobs.get(job.key) is not job:
                return []
            del self._jobs[job.key]
        return [(job.key, answer)]

    def _work(self) -> None:
        connection = Connection(self._url)
        while (job := self._todo.get()) is not None:
            if not job.over.is_set() and not self._down:
                self._ready.put((job, self._tried(job, connection)))
        connection.close()

    def _tried(self, job: _Job, connection: Connection) -> Action | Exception:
        """A turn, or why there is none; nothing that a server does ends the thread."""
        try:
            return self._asked(job, connection)
        except TooLong:
            return Action("", cut=True)
        except ModelError as error:
            return error
        except Exception as error:
            logger.exception("a bug in OpenAIPolicy")
            return ModelError(f"a bug: {type(error).__name__}")

    def _asked(self, job: _Job, connection: Connection) -> Action:
        """Ask until there is an answer, or until it makes no sense to ask again."""
        body = json.dumps(self._request(job)).encode()
        rng = random.Random()
        for attempt in range(self._retries + 1):
            try:
                reply = self._once(job, connection, body)
            except ModelError as error:
                if not self._worth_another_try(job, error, attempt):
                    raise self._final(job, error) from None
                self._count(job, Usage(retries=1))
                if job.over.wait(pause(attempt, error.after, rng)):
                    raise
            else:
                self._count(job, reply.usage)
                self._served, self._failures = reply.served, 0
                return reply.action
        raise AssertionError("the last attempt is never worth another")

    def _request(self, job: _Job) -> dict[str, Any]:
        messages = encode(job.messages, self.protocol)
        request: dict[str, Any] = {"model": self.model, "messages": messages}
        if self._tools:
            request["tools"] = self._tools
        if self._seed is not None:
            turn = len(job.messages)
            request["seed"] = derive(self._seed, str(job.key), turn) % (1 << 31)
        return {**request, **self._body}

    def _once(self, job: _Job, connection: Connection, body: bytes) -> Reply:
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        if self._key:
            headers["Authorization"] = f"Bearer {self._key}"
        with self._lock:
            if job.over.is_set():
                raise ModelError("cancelled")
            job.connection = connection
        try:
            answer = connection.post("/chat/completions", body, headers, self._timeout)
        finally:
            with self._lock:
                job.connection = None
        self._answered = True
        if answer.status != 200:
            raise refusal(answer.status, answer.headers, answer.body)
        return read_reply(answer.body)

    def _worth_another_try(self, job: _Job, error: ModelError, attempt: int) -> bool:
        new = isinstance(error, Unreachable) and not self._answered
        tries = min(self._retries, _FIRST_TRIES) if new else self._retries
        soon = (error.after or 0.0) <= LONGEST_WAIT
        return error.passing and attempt < tries and soon and not job.over.is_set()

    def _final(self, job: _Job, error: ModelError) -> ModelError:
        """The error as it is told; where it concerns every request, `collect` tells it too."""
        told = type(error)(self._without_key(str(error)))
        with self._lock:
            self._failures += not job.over.is_set()
            never = error.passing and not self.usage.requests and not job.over.is_set()
            if error.hopeless or never or self._failures >= _FAILURES_IN_A_ROW:
                self._down = f"{self.model} at {self.base_url}: {told}"
        if self._down:
            self._ready.put(None)
        return told

    def _without_key(self, text: str) -> str:
        return text.replace(self._key, "[key]") if self._key else text

    def _count(self, job: _Job, usage: Usage) -> None:
        with self._lock:
            self.usage.add(usage)
            self._spent.setdefault(job.key, Usage()).add(usage)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _checked_key(key: str | None) -> str:
    """A key as it is sent. Raises ValueError, without telling it, for what no header can hold."""
    sent = (key or "").strip()
    if key is not None and not sent:
        raise ValueError("the API key is empty")
    if any(not " " < x < "\x7f" for x in sent):
        raise ValueError("the API key holds a space, a line break or a character beyond ASCII")
    return sent
