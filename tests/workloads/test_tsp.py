"""The travelling salesman."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise, permutations
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aiosearch.workloads import TSP, Tour


def length_of(problem: TSP, cities: tuple[int, ...]) -> int:
    return sum(problem.distances[a][b] for a, b in pairwise((*cities, cities[0])))


def brute_force(problem: TSP) -> int:
    orders = permutations(range(1, problem.cities))
    return min(length_of(problem, (0, *order)) for order in orders)


def held_karp(problem: TSP) -> int:
    """The dynamic program over the set of visited cities and the last one."""
    row = problem.distances
    others = range(1, problem.cities)
    shortest = {(1 << city, city): row[0][city] for city in others}
    for _ in range(problem.cities - 2):
        longer: dict[tuple[int, int], int] = {}
        for (visited, last), length in shortest.items():
            for city in others:
                if not visited >> city & 1:
                    state = visited | 1 << city, city
                    known = longer.get(state, length + row[last][city])
                    longer[state] = min(known, length + row[last][city])
        shortest = longer
    return min(length + row[last][0] for (_, last), length in shortest.items())


def branch_and_bound(problem: TSP) -> tuple[Tour, int]:
    best, nodes, stack = None, 0, [problem.root()]
    while stack:
        node = stack.pop()
        if best is not None and problem.bound(node) >= problem.cost(best):
            continue
        nodes += 1
        for tour in problem.solutions(node):
            best = tour
        stack.extend(reversed(problem.expand(node)))
    assert best is not None
    return best, nodes


@pytest.mark.parametrize("seed", range(5))
def test_optimal_by_brute_force(seed: int) -> None:
    """Branch and bound over eight cities finds the shortest of all tours."""
    problem = TSP(8, seed)
    tour, _ = branch_and_bound(problem)
    assert tour.length == length_of(problem, tour.cities) == brute_force(problem)


@pytest.mark.parametrize(("cities", "seed"), [(11, 1), (11, 2), (12, 1), (12, 3)])
def test_optimal_by_dynamic_program(cities: int, seed: int) -> None:
    """Branch and bound over 11 and 12 cities agrees with the dynamic program."""
    problem = TSP(cities, seed)
    tour, _ = branch_and_bound(problem)
    assert tour.length == length_of(problem, tour.cities) == held_karp(problem)


def test_bound_prunes() -> None:
    """The bound leaves a few hundred of the 10^15 tours of 18 cities."""
    problem = TSP(18, 1)
    tour, nodes = branch_and_bound(problem)
    assert nodes < 1_000
    assert problem.bound(problem.root()) > 0.95 * tour.length


@pytest.mark.parametrize("cities", [2, 3, 4, 7])
def test_every_tour_once(cities: int, walk: Callable[[Any], Iterator[Any]]) -> None:
    """Without pruning every tour is met once, in one of its two directions."""
    problem = TSP(cities, 5)
    tours = [tour.cities for node in walk(problem) for tour in problem.solutions(node)]
    orders = {(0, *order) for order in permutations(range(1, cities))}
    assert len(tours) == len(set(tours))
    assert {*tours, *((0, *reversed(tour[1:])) for tour in tours)} == orders
    assert len(tours) == max(1, len(orders) // 2)


@settings(max_examples=60)
@given(st.integers(3, 12), st.integers(0, 2**32), st.randoms(use_true_random=False))
def test_bound_along_tours(cities: int, seed: int, random: Any) -> None:
    """Along any tour the bound never falls, and ends as the length of that tour."""
    problem = TSP(cities, seed)
    node = problem.root()
    bounds = [problem.bound(node)]
    while children := problem.expand(node):
        node = random.choice(children)
        bounds.append(problem.bound(node))
        assert problem.priority(node) == problem.bound(node)
    (tour,) = problem.solutions(node)
    assert bounds == sorted(bounds)
    assert bounds[-1] == problem.cost(tour) == length_of(problem, tour.cities)


@settings(max_examples=10)
@given(st.integers(4, 8), st.integers(0, 2**32))
def test_bound_along_optimal_tours(cities: int, seed: int) -> None:
    """Along a shortest tour the bound never exceeds its length."""
    problem = TSP(cities, seed)
    shortest = brute_force(problem)
    path = next(
        (0, *order)
        for order in permutations(range(1, cities))
        if length_of(problem, (0, *order)) == shortest and order.index(1) < order.index(2)
    )
    node = problem.root()
    while len(node.cities) < cities:
        assert problem.bound(node) <= shortest
        following = path[: len(node.cities) + 1]
        node = next(child for child in problem.expand(node) if child.cities == following)
    assert problem.bound(node) == shortest


def test_nearest_first() -> None:
    """Children come nearest first."""
    problem = TSP(9, 4)
    node = problem.expand(problem.root())[1]
    here = node.cities[-1]
    steps = [problem.distances[here][child.cities[-1]] for child in problem.expand(node)]
    assert steps == sorted(steps)
