"""Which equations can be taken together, so that what is taken can run as one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence


class Clusters:
    """Numbers in an order that respects their edges, joined as long as no circle arises."""

    def __init__(self, edges: Iterable[tuple[int, int]], count: int) -> None:
        self._parent = list(range(count))
        self._size = [1] * count
        self._apart: set[tuple[int, int, int, int]] = set()
        self._after: list[set[int]] = [set() for _ in range(count)]
        for earlier, later in edges:
            self._after[earlier].add(later)

    def find(self, one: int) -> int:
        """The number that stands for a cluster."""
        while self._parent[one] != one:
            self._parent[one] = self._parent[self._parent[one]]
            one = self._parent[one]
        return one

    def join(self, one: int, other: int) -> bool:
        """Makes two clusters one, unless a way from one to the other leads through a third."""
        one, other = self.find(one), self.find(other)
        if one == other:
            return True
        if self._is_apart(one, other):
            return False
        self.merge(one, other)
        return True

    def merge(self, one: int, other: int) -> None:
        """Makes two clusters one, where it is known that nothing is between them."""
        one, other = self.find(one), self.find(other)
        if one == other:
            return
        self._parent[other] = one
        self._size[one] += self._size[other]
        self._after[one] |= self._after[other]
        self._after[other] = set()

    def _is_apart(self, one: int, other: int) -> bool:
        """Whether a third is between them, which only their own growth can change."""
        pair = (one, self._size[one], other, self._size[other])
        if pair not in self._apart:
            if not (self._leads_around(one, other) or self._leads_around(other, one)):
                return False
            self._apart.add(pair)
        return True

    def after(self, one: int) -> set[int]:
        """The clusters that need something of this one."""
        own = self.find(one)
        found = {self.find(later) for later in self._after[own]} - {own}
        self._after[own] = set(found)
        return found

    def _leads_around(self, start: int, end: int) -> bool:
        seen = self.after(start) - {end}
        stack = list(seen)
        while stack:
            new = self.after(stack.pop()) - seen
            if end in new:
                return True
            seen |= new
            stack.extend(new)
        return False


def ordered(groups: Sequence[Sequence[int]], edges: Iterable[tuple[int, int]]) -> list[int]:
    """The groups' places, in an order in which each comes after those that it needs."""
    home = {member: place for place, group in enumerate(groups) for member in group}
    needs: dict[int, set[int]] = {place: set() for place in range(len(groups))}
    for earlier, later in edges:
        if home[earlier] != home[later]:
            needs[home[later]].add(home[earlier])
    firsts = sorted(needs, key=lambda place: min(groups[place]))
    return list(_visited(firsts, needs))


def _visited(places: Iterable[int], needs: Mapping[int, set[int]]) -> Iterator[int]:
    done: set[int] = set()
    for start in places:
        stack = [start]
        while stack:
            missing = sorted(needs[stack[-1]] - done)
            if missing:
                stack.append(missing[0])
                continue
            place = stack.pop()
            if place not in done:
                done.add(place)
                yield place
