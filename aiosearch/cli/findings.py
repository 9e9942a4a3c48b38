"""What `aiosearch doctor` finds."""

from __future__ import annotations

import enum

from msgspec import Struct


class State(enum.StrEnum):
    """How something stands."""

    FINE = "ok"
    MISSING = "missing"
    BROKEN = "broken"


class Finding(Struct, frozen=True):
    """One thing that was looked at."""

    name: str
    detail: str
    state: State = State.FINE
    remedy: str = ""
    """What to do about it."""
    essential: bool = False
    """Whether no search can run without it."""


def broken(name: str, detail: str, remedy: str, *, essential: bool = False) -> Finding:
    return Finding(name, detail, State.BROKEN, remedy, essential)


def missing(name: str, detail: str, remedy: str, *, essential: bool = False) -> Finding:
    return Finding(name, detail, State.MISSING, remedy, essential)
