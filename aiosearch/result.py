"""What a search has found so far, and how it stands."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar, overload

from .statistics import Statistics

SolutionT = TypeVar("SolutionT")


class SearchStatus(enum.StrEnum):
    """How a search stands."""

    RUNNING = "running"
    COMPLETE = "complete"
    """Everything was explored, or proved not to matter."""
    LIMIT = "limit"
    CANCELLED = "cancelled"
    FAILED = "failed"


class Solutions(Sequence[SolutionT]):
    """Solutions in the order found, decoded when looked at."""

    def __init__(self, encoded: list[bytes], decode: Callable[[bytes], SolutionT]) -> None:
        self._encoded = encoded
        self._decode = decode
        # The list goes on growing: a snapshot is its length
        self._length = len(encoded)

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, index: int) -> SolutionT: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[SolutionT]: ...
    def __getitem__(self, index: int | slice) -> SolutionT | Sequence[SolutionT]:
        places = range(self._length)[index]
        if isinstance(places, range):
            return [self._decode(self._encoded[place]) for place in places]
        return self._decode(self._encoded[places])

    def __iter__(self) -> Iterator[SolutionT]:
        for place in range(self._length):
            yield self._decode(self._encoded[place])

    def __repr__(self) -> str:
        return f"<{self._length} solutions>"


@dataclass(frozen=True)
class Result(Generic[SolutionT]):
    """A snapshot; take another one from `Search.result` to see what came since."""

    status: SearchStatus
    reason: str
    """Why the search stopped, in words."""
    best: SolutionT | None
    """The solution of least cost; without costs, the first."""
    best_cost: float | None
    solutions: Sequence[SolutionT]
    """All distinct solutions in the order found; under a pruning order, the improving ones."""
    statistics: Statistics
    error: Exception | None = None
    """What made the search fail; None otherwise."""
