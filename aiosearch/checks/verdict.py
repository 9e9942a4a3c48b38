"""What z3 answered and what that cost; the figures of a service, of each check and in sums."""

from __future__ import annotations

import enum

from msgspec import Struct


class CheckRecord(Struct, frozen=True):
    """One z3 check that was answered, for traces."""

    process: int
    """The number of the process that was asked, from 0."""
    start: float
    """On `time.monotonic()`, when the process had nothing else left to do before it."""
    end: float
    status: Status


class VerifierStatistics(Struct, frozen=True):
    """What a `Verifier` has done so far."""

    asked: int
    """Questions, answered or not."""
    checks: int
    """Checks that a z3 process was sent and answered; one that died is not among them."""
    memory_hits: int
    disk_hits: int
    joined: int
    """Questions that were already being asked by somebody else."""
    proved: int
    refuted: int
    unknown: int
    """Checks by their answer; `unknown` also counts questions given up after two failures."""
    restarts: int
    """Processes that died, were killed or had used up their memory."""
    cpu_seconds: float
    """CPU time that the answered checks took."""
    queue_seconds: float
    """Time that their questions had waited for a process, all together."""
    in_flight: int
    queued: int


class Status(enum.StrEnum):
    """The three answers. `unknown` never means `refuted`."""

    PROVED = "proved"
    REFUTED = "refuted"
    UNKNOWN = "unknown"


class Reason(enum.StrEnum):
    """Why an answer is `unknown`, whatever z3 called it."""

    RESOURCE_LIMIT = "resource limit"
    TIME_LIMIT = "time limit"
    INCOMPLETE = "incomplete"
    MEMORY_LIMIT = "memory limit"
    CRASH = "the z3 process died"
    ERROR = "error"
    """The query or its axioms cannot be parsed; z3's message follows after a colon."""


class Verdict(Struct, frozen=True, array_like=True):
    """An answer of the `Verifier`."""

    status: Status
    reason: str = ""
    """Why the answer is unknown: a `Reason`, and for an error z3's message."""
    rlimit: int = 0
    """The budget that an `unknown` was given; a question with a larger budget is asked again."""
    seconds: float = 0.0
    """CPU seconds that the check took."""
