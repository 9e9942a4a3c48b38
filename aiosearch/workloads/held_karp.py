"""The bound of Held and Karp for the travelling salesman: spanning trees in tuned weights.

See Held and Karp, "The traveling-salesman problem and minimum spanning trees" (1970).
"""

from __future__ import annotations

Matrix = tuple[tuple[int, ...], ...]


def spanning_tree(weights: Matrix, cities: list[int]) -> tuple[int, list[tuple[int, int]]]:
    """Gives the weight and the edges of a minimum spanning tree of some cities, at least one."""
    rest = cities[1:]
    near = [weights[cities[0]][city] for city in rest]
    anchors = [cities[0]] * len(rest)
    total, edges = 0, []
    while rest:
        least = min(near)
        place = near.index(least)
        del near[place]
        city = rest.pop(place)
        total += least
        edges.append((anchors.pop(place), city))
        row = weights[city]
        for at, other in enumerate(rest):
            if row[other] < near[at]:
                near[at], anchors[at] = row[other], city
    return total, edges


def potentials(distances: Matrix) -> tuple[int, ...]:
    """Finds potentials of the cities that make the shortest 1-tree long, by subgradient ascent."""
    current = best = (0,) * len(distances)
    longest = -1
    step = max(max(row) for row in distances) // 4
    while step:
        length, degrees = _one_tree(weighted(distances, current))
        length -= 2 * sum(current)
        if length > longest:
            longest, best = length, current
        current = tuple(
            potential + step * (degree - 2)
            for potential, degree in zip(current, degrees, strict=True)
        )
        step = step * 29 // 30
    return best


def weighted(distances: Matrix, added: tuple[int, ...]) -> Matrix:
    """Adds the potentials of both its ends to every edge."""
    return tuple(
        tuple(length + one + other for length, other in zip(row, added, strict=True))
        for row, one in zip(distances, added, strict=True)
    )


def _one_tree(weights: Matrix) -> tuple[int, list[int]]:
    """Gives the weight and the degrees of a spanning tree of all cities but 0, tied twice to 0."""
    others = list(range(1, len(weights)))
    total, edges = spanning_tree(weights, others)
    ties = sorted(others, key=weights[0].__getitem__)[:2]
    degrees = [0] * len(weights)
    for one, other in [*edges, *((0, tie) for tie in ties)]:
        degrees[one] += 1
        degrees[other] += 1
    return total + sum(weights[0][tie] for tie in ties), degrees
