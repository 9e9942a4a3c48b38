"""Who holds most: the seats that work can be asked from, the heaviest first."""

from __future__ import annotations

import heapq
from collections.abc import Iterator


class Holders:
    """Busy seats by the share of the tree that they hold, as far as one can tell."""

    def __init__(self) -> None:
        self._weights: dict[int, float] = {}
        self._surplus: dict[int, int] = {}
        self._rich: list[tuple[float, int]] = []
        self._all: list[tuple[float, int]] = []

    def __contains__(self, seat: int) -> bool:
        return seat in self._weights

    def __iter__(self) -> Iterator[int]:
        return iter(self._weights)

    def hold(self, seat: int, weight: float, surplus: int = 0) -> None:
        """A seat holds so much now, and is known to have so many subtrees to give away."""
        self._weights[seat], self._surplus[seat] = weight, surplus
        heapq.heappush(self._all, (-weight, seat))
        if surplus > 1:
            heapq.heappush(self._rich, (-weight, seat))
        if len(self._all) > 4 * len(self._weights) + 64:
            self._all = [entry for entry in self._all if self._holds(entry)]
            self._rich = [entry for entry in self._rich if self._holds(entry)]
            heapq.heapify(self._all)
            heapq.heapify(self._rich)

    def part(self, seat: int, weight: float, subtrees: int) -> None:
        """A seat has given so much away."""
        if seat in self._weights:
            left = self._surplus[seat] - subtrees
            self.hold(seat, max(self._weights[seat] - weight, 0.0), left)

    def drop(self, seat: int) -> None:
        """A seat holds nothing any more."""
        self._weights.pop(seat, None)

    def heaviest(self, rich: bool) -> int | None:
        """Takes the seat that holds most off the list, until it is said to hold something again;
        of the `rich` only, which are known to have a surplus."""
        heap = self._rich if rich else self._all
        while heap:
            entry = heapq.heappop(heap)
            if self._holds(entry):
                return entry[1]
        return None

    def _holds(self, entry: tuple[float, int]) -> bool:
        return self._weights.get(entry[1]) == -entry[0]
