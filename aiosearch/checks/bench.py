"""Where a z3 process keeps its sessions: one for each axiom set and logic in use."""

from __future__ import annotations

import time

from .protocol import Answer, Ask
from .session import (
    ParseError,
    Session,
    Z3Error,
    leaves_traces,
    limit_memory,
    memory_used,
    message_of,
    normalise,
)
from .verdict import Reason, Status, Verdict
from .watchdog import Watchdog

KEPT = 8
"""Sessions held at once; the one unused for the longest time goes."""
RENEWED = 2000
"""Checks after which a session is built anew: z3 keeps some 5 KB for every new symbol."""
WEIGHED = 256
"""Checks between two looks at the memory."""


class Bench:
    """Answers the questions of one process, one after the other."""

    def __init__(self, seconds: float, memory_mb: int) -> None:
        limit_memory(memory_mb)
        self._memory = memory_mb << 20
        self._texts = {0: ""}
        self._sessions: dict[tuple[int, str], Session] = {}
        self._checks = 0
        self.watchdog = Watchdog(seconds)

    def learn(self, number: int, text: str) -> None:
        """Takes an axiom set; it is parsed when the first question needs it."""
        self._texts[number] = text

    def answer(self, ask: Ask) -> Answer:
        """Gives the verdict, whatever the query is."""
        start = time.thread_time()
        status, reason = self._check(ask)
        unknown = status is Status.UNKNOWN
        seconds = time.thread_time() - start
        verdict = Verdict(status, reason, ask.rlimit if unknown else 0, seconds)
        return Answer(verdict, reason == Reason.MEMORY_LIMIT or self._overweight())

    def _check(self, ask: Ask) -> tuple[Status, str]:
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

    def _session(self, key: tuple[int, str], query: str) -> Session:
        axioms = self._texts[key[0]]
        if leaves_traces(query) or leaves_traces(axioms):
            return Session(axioms, key[1], lasts=False)
        session = self._sessions.pop(key, None)
        if session is None or session.checks >= RENEWED:
            session = Session(axioms, key[1])
        self._sessions[key] = session
        if len(self._sessions) > KEPT:
            del self._sessions[next(iter(self._sessions))]
        return session

    def _overweight(self) -> bool:
        self._checks += 1
        return self._checks % WEIGHED == 0 and memory_used() > self._memory // 2
