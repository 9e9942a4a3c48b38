"""The sessions of a z3 process, one for each axiom set and logic, and their `Watchdog`.

The watchdog is a thread that interrupts a computation which outlives its time. z3's own time-out
starts a thread for every check, which costs as much as a proof does (60 µs); one that looks around
every few milliseconds while there is work costs nothing.
"""

from __future__ import annotations

import contextlib
import threading
import time
from typing import TYPE_CHECKING

from .protocol import SolverReply, SolverRequest
from .session import (
    ParseError,
    Z3Error,
    Z3Session,
    leaves_traces,
    limit_memory,
    memory_used,
    message_of,
    normalise,
)
from .verdict import Reason, Status, Verdict

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

COARSEST = 0.05


class Watchdog:
    """Calls the `interrupt` of whatever is being watched once its `seconds` are over."""

    def __init__(self, seconds: float) -> None:
        self.fired = False
        """Whether the latest watch was interrupted."""
        self._seconds = seconds
        self._period = min(COARSEST, seconds / 4)
        self._lock = threading.Lock()
        self._busy = threading.Event()
        self._interrupt: Callable[[], object] | None = None
        self._end = 0.0
        threading.Thread(target=self._run, daemon=True).start()

    @contextlib.contextmanager
    def awake(self) -> Iterator[None]:
        """Must surround the watches; outside it, the thread sleeps."""
        self._busy.set()
        try:
            yield
        finally:
            self._busy.clear()

    @contextlib.contextmanager
    def watch(self, interrupt: Callable[[], object]) -> Iterator[None]:
        """Interrupts its body, never what comes after it, when the time is over; `fired`
        says so."""
        self.fired = False
        # Before `_interrupt`, which the thread looks at first
        self._end = time.monotonic() + self._seconds
        self._interrupt = interrupt
        try:
            yield
        finally:
            with self._lock:
                self._interrupt = None

    def _run(self) -> None:
        while True:
            self._busy.wait()
            time.sleep(self._period)
            with self._lock:
                if self._interrupt is not None and time.monotonic() >= self._end:
                    self.fired = True
                    self._interrupt()


MAX_SESSIONS = 8
"""Sessions held at once; the one unused for the longest time goes."""
CHECKS_PER_SESSION = 2000
"""Checks after which a session is built anew: z3 keeps some 5 KB for every new symbol."""
CHECKS_PER_MEMORY_LOOK = 256
"""Checks between two looks at the memory."""


class SessionCache:
    """Answers the questions of one process, one after the other, from at most `MAX_SESSIONS`
    sessions."""

    def __init__(self, seconds: float, memory_mb: int) -> None:
        limit_memory(memory_mb)
        self._memory = memory_mb << 20
        self._texts = {0: ""}
        self._sessions: dict[tuple[int, str], Z3Session] = {}
        self._checks = 0
        self.watchdog = Watchdog(seconds)

    def learn(self, number: int, text: str) -> None:
        """Takes an axiom set; it is parsed when the first question needs it."""
        self._texts[number] = text

    def answer(self, ask: SolverRequest) -> SolverReply:
        """Gives the verdict, whatever the query is: a query that cannot be parsed is
        `unknown`, `Reason.ERROR`."""
        start = time.thread_time()
        status, reason = self._check(ask)
        unknown = status is Status.UNKNOWN
        seconds = time.thread_time() - start
        verdict = Verdict(status, reason, ask.rlimit if unknown else 0, seconds)
        return SolverReply(verdict, reason == Reason.MEMORY_LIMIT or self._overweight())

    def _check(self, ask: SolverRequest) -> tuple[Status, str]:
        key = (ask.axioms, ask.logic)
        self.watchdog.fired = False
        try:
            if "\0" in ask.query:  # it would end the text for z3, which is written in C
                raise ParseError("the query holds a NUL character")
            status, why = self._session(key, ask.query).check(ask.query, ask.rlimit, self.watchdog)
        except ParseError as error:
            return Status.UNKNOWN, f"{Reason.ERROR}: {error}"
        except Z3Error as error:
            self._sessions.pop(key, None)
            status, why = Status.UNKNOWN, message_of(error)
        if status is not Status.UNKNOWN:
            return status, ""
        if self.watchdog.fired:
            self._sessions.pop(key, None)
            return status, Reason.TIME_LIMIT
        return status, normalise(why)

    def _session(self, key: tuple[int, str], query: str) -> Z3Session:
        axioms = self._texts[key[0]]
        if leaves_traces(query) or leaves_traces(axioms):
            return Z3Session(axioms, key[1], lasts=False)
        # Out and in again: the dictionary's order is then the order of use
        session = self._sessions.pop(key, None)
        if session is None or session.checks >= CHECKS_PER_SESSION:
            session = Z3Session(axioms, key[1])
        self._sessions[key] = session
        if len(self._sessions) > MAX_SESSIONS:
            del self._sessions[next(iter(self._sessions))]
        return session

    def _overweight(self) -> bool:
        self._checks += 1
        return self._checks % CHECKS_PER_MEMORY_LOOK == 0 and memory_used() > self._memory // 2
