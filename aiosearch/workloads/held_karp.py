"""The bound of Held and Karp for the travelling salesman: spanning trees in tuned weights.

See Held and Karp, "The traveling-salesman problem and minimum spanning trees" (1970). Adding a
potential to all edges of a city adds twice that potential to every tour, and changes which spanning
tree is shortest: `potentials` looks for those that make it longest, and so the bound tightest.
"""

from __future__ import annotations

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
