"""What the tuner raises."""

from __future__ import annotations

from collections.abc import Sequence

from ..errors import AiosearchError


class TunerError(AiosearchError):
    """Base of the errors of spaces, tables and tuning."""


class SpaceError(TunerError):
    """A space asks for what cannot be, or has no point that its requirements allow."""


class RequirementFailed(TunerError):
    """The decisions that were drawn break a requirement of the space; others may keep it."""

    def __init__(self, why: str, reads: Sequence[str]) -> None:
        self.why = why
        self.reads = tuple(reads)
        super().__init__(why, self.reads)

    def __str__(self) -> str:
        sites = f" (reads {', '.join(self.reads)})" if self.reads else ""
        return f"{self.why}{sites}"


class TableError(TunerError):
    """A table of records cannot be read or written, or lacks what a frozen one must have."""
