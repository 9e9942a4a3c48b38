"""What a search has found so far, and how it stands."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar, overload

from .statistics import Statistics

SolutionT = TypeVar("SolutionT")


_LONGEST = 2000
"""Characters of a solution that a notebook shows."""


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

    def __repr__(self) -> str:
        """How it stands, in a line: a solution may be a page."""
        parts = [f"{self.status}, {self.reason}" if self.reason else str(self.status)]
        if self.best_cost is not None:
            parts.append(f"best cost {self.best_cost:g}")
        count = len(self.solutions)
        parts.append(f"{count:,} solution{'s' * (count != 1)}")
        parts.append(f"{self.statistics.nodes:,} nodes in {self.statistics.seconds:.3g} s")
        return f"<result: {'; '.join(parts)}>"

    def _repr_html_(self) -> str:
        """The same as figures, with the best solution, for a notebook."""
        from .display import pages  # searches that nobody looks at need none

        figures = [
            ("nodes", f"{self.statistics.nodes:,}"),
            ("seconds", f"{self.statistics.seconds:,.3g}"),
            ("solutions", f"{len(self.solutions):,}"),
        ]
        if self.best_cost is not None:
            figures.append(("best cost", f"{self.best_cost:g}"))
        best = "" if self.best is None else pages.code(repr(self.best)[:_LONGEST])
        head = pages.element("p", f"{self.status}: {self.reason}")
        return pages.fragment(head, pages.facts(figures), best)
