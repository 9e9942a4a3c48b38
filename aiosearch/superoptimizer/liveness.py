"""The order of steps in which the fewest bytes live at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import TypeAlias

from ..tensor import Dim

Set: TypeAlias = int
"""A set of steps, a bit each."""


@dataclass(frozen=True)
class Step:
    """Something done once, that makes a tile."""

    size: Dim
    """The bytes of the tile; none where it goes into one that is there."""
    reads: tuple[int, ...] = ()
    """The steps whose tiles it reads, earlier ones."""
    over: tuple[int, ...] = ()
    """Those that it may write over, where nothing else reads them later and they are as large."""


def least_live(steps: Sequence[Step], sizes: Sequence[int], given: int = 0) -> int:
    """The most bytes that live at once in the order that needs least; some steps may be done.

    Sets of steps done are explored, the one that needed least first.
    """
    orders = _Orders(steps, sizes)
    start = (1 << given) - 1
    heap = [(orders.live(start), -given, start)]
    seen: set[Set] = set()
    while True:
        peak, _, done = heappop(heap)
        if done == orders.all:
            return peak
        if done in seen:
            continue
        seen.add(done)
        for most, after in orders.next(done, peak):
            heappush(heap, (most, -after.bit_count(), after))


class _Orders:
    def __init__(self, steps: Sequence[Step], sizes: Sequence[int]) -> None:
        self.all = (1 << len(steps)) - 1
        self._sizes = sizes
        self._reads = [sum(1 << other for other in set(step.reads)) for step in steps]
        self._users = [
            sum(1 << index for index, step in enumerate(steps) if own in step.reads)
            for own in range(len(steps))
        ]
        self._over = [
            [other for other in step.over if sizes[other] == size]
            for step, size in zip(steps, sizes, strict=True)
        ]

    def live(self, done: Set) -> int:
        """The bytes of tiles that are made and still to be read."""
        return sum(
            size
            for index, size in enumerate(self._sizes)
            if done >> index & 1 and self._users[index] & ~done
        )

    def next(self, done: Set, peak: int) -> Iterator[tuple[int, Set]]:
        """The peaks and sets one step on; one that costs nothing now is taken, and no other."""
        before = self.live(done)
        found = []
        for index, reads in enumerate(self._reads):
            if done >> index & 1 or reads & ~done:
                continue
            after = done | 1 << index
            most = max(peak, before + self._more(index, after))
            if most == peak and self.live(after) <= before:
                return iter([(most, after)])
            found.append((most, after))
        return iter(found)

    def _more(self, index: int, after: Set) -> int:
        """What a step's own tile adds while the step runs."""
        in_place = any(not self._users[other] & ~after for other in self._over[index])
        return 0 if in_place else self._sizes[index]
