"""The travelling salesman by branch and bound, with whole numbers so that costs are exact."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import isqrt
from random import Random
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Callable


Matrix = tuple[tuple[int, ...], ...]
"""A row of distances for each city."""


def spanning_tree(weights: Matrix, cities: list[int]) -> tuple[int, list[tuple[int, int]]]:
    """The weight and the edges of a minimum spanning tree of `cities`, at least one."""
    remaining = cities[1:]
    near = [weights[cities[0]][city] for city in remaining]
    anchors = [cities[0]] * len(remaining)
    total, edges = 0, []
    while remaining:
        # Prim's algorithm on lists: a dozen cities need no heap.
        least = min(near)
        place = near.index(least)
        del near[place]
        city = remaining.pop(place)
        total += least
        edges.append((anchors.pop(place), city))
        row = weights[city]
        for at, outside_city in enumerate(remaining):
            if row[outside_city] < near[at]:
                near[at], anchors[at] = row[outside_city], city
    return total, edges


def potentials(distances: Matrix) -> tuple[int, ...]:
    """Potentials of the cities that make the shortest 1-tree long, by subgradient ascent."""
    current = best = (0,) * len(distances)
    longest = -1
    step = max(max(row) for row in distances) // 4
    while step:
        length, degrees = _one_tree(weighted(distances, current))
        length -= 2 * sum(current)
        if length > longest:
            longest, best = length, current
        current = tuple(
            # In a tour every city has degree 2. A city of higher degree is too attractive and gets
            # a higher potential, a leaf a lower one.
            potential + step * (degree - 2)
            for potential, degree in zip(current, degrees, strict=True)
        )
        # Whole numbers, so that all processes find the same potentials; the step shrinks to 0,
        # which ends the loop.
        step = step * 29 // 30
    return best


def weighted(distances: Matrix, added: tuple[int, ...]) -> Matrix:
    """`distances` with the potentials of both its ends added to every edge."""
    return tuple(
        tuple(
            length + own_potential + potential for length, potential in zip(row, added, strict=True)
        )
        for row, own_potential in zip(distances, added, strict=True)
    )


def _one_tree(weights: Matrix) -> tuple[int, list[int]]:
    """The weight and the degrees of a spanning tree of all cities but 0, in `weights`, tied twice
    to 0.
    """
    cities = list(range(1, len(weights)))
    total, edges = spanning_tree(weights, cities)
    ties = sorted(cities, key=weights[0].__getitem__)[:2]
    degrees = [0] * len(weights)
    for first, second in [*edges, *((0, tie) for tie in ties)]:
        degrees[first] += 1
        degrees[second] += 1
    return total + sum(weights[0][tie] for tie in ties), degrees


GRID = 10_000
"""Cities lie on whole coordinates below this."""

REMEMBERED = 1 << 16
"""How many spanning trees a process keeps: many routes leave the same cities to visit."""


class Route(Struct, frozen=True, array_like=True):
    """A path from city 0, its weight, and a lower bound on every tour that goes on from it."""

    cities: tuple[int, ...]
    weight: int
    bound: int


class Tour(Struct, frozen=True):
    """A round trip in its order from city 0, and its length."""

    cities: tuple[int, ...]
    length: int


@dataclass(frozen=True)
class TSP:
    """Finds a shortest tour of random cities in the plane; each tour is met in one direction only.

    The bound is the spanning tree of the cities left and the shortest edges that tie the two ends
    of the path to them, in the weights of Held and Karp (1970): every city has a potential that is
    added to its edges, which moves the lengths of all tours alike but makes the bound far tighter.
    It never falls along a path, and at a complete tour it is the length.
    """

    cities: int = 12
    seed: int = 1

    def root(self) -> Route:
        """The path that is still in city 0."""
        return self._route((0,), 0, self._everywhere & ~1)

    def expand(self, node: Route) -> list[Route]:
        """The paths one city longer than `node`, the nearest city first."""
        here = node.cities[-1]
        left = self._everywhere
        for city in node.cities:
            left &= ~(1 << city)
        # City 2 waits for city 1, which leaves out the mirror image of every tour.
        skipped = 2 if left & 2 else -1
        weights = self._weights[here]
        return [
            self._route((*node.cities, city), node.weight + weights[city], left & ~(1 << city))
            for city in self._nearest[here]
            if left >> city & 1 and city != skipped
        ]

    def solutions(self, node: Route) -> tuple[Tour, ...]:
        """The tour, where every city is visited."""
        return (Tour(node.cities, node.bound),) if len(node.cities) == self.cities else ()

    def cost(self, solution: Tour) -> float:
        """The length of a tour."""
        return solution.length

    def bound(self, node: Route) -> float:
        """A length that no tour below `node` undercuts."""
        return node.bound

    def priority(self, node: Route) -> float:
        """The bound: the most promising path comes first."""
        return node.bound

    @cached_property
    def distances(self) -> Matrix:
        """Euclidean distances, rounded to whole numbers."""
        random = Random(self.seed)
        points = [(random.randrange(GRID), random.randrange(GRID)) for _ in range(self.cities)]
        return tuple(
            # Half of isqrt(4·d²) + 1 rounds the distance to the nearest whole number without
            # floats, so that every machine has the same tours.
            tuple((isqrt(4 * ((a - c) ** 2 + (b - d) ** 2)) + 1) // 2 for c, d in points)
            for a, b in points
        )

    def _route(self, cities: tuple[int, ...], weight: int, left: int) -> Route:
        ends = self._weights[cities[-1]], self._weights[0]
        if left:
            # Every tour that goes on connects the remaining cities, which takes at least their
            # spanning tree, and ties both ends of the path to them.
            remaining = _members(left)
            ties = sum(min([row[city] for city in remaining]) for row in ends)
            whole = weight + ties + self._spanning(left)
        else:
            # All cities are visited: the way home from the last one, at its exact weight.
            whole = weight + ends[0][0]
        return Route(cities, weight, whole - self._shift)

    @property
    def _everywhere(self) -> int:
        return (1 << self.cities) - 1

    @cached_property
    def _potentials(self) -> tuple[int, ...]:
        return potentials(self.distances)

    @cached_property
    def _shift(self) -> int:
        return 2 * sum(self._potentials)

    @cached_property
    def _weights(self) -> Matrix:
        return weighted(self.distances, self._potentials)

    @cached_property
    def _nearest(self) -> Matrix:
        return tuple(
            tuple(sorted(range(self.cities), key=row.__getitem__)) for row in self.distances
        )

    @cached_property
    def _spanning(self) -> Callable[[int], int]:
        weights = self._weights
        return lru_cache(REMEMBERED)(lambda left: spanning_tree(weights, _members(left))[0])


def _members(left: int) -> list[int]:
    return [city for city in range(left.bit_length()) if left >> city & 1]
