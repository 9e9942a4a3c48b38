"""What z3 answered: proved, refuted or unknown, and what the answer cost."""

from __future__ import annotations

import enum

from msgspec import Struct


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
