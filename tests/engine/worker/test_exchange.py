"""Work that workers pass on to each other is done once, whoever dies, and in whatever order."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from testkit.hosts.random_interleaving import Scrambled

from aiosearch.orders import BranchAndBound, DepthFirst
from aiosearch.testing import expected
from aiosearch.testing.problems import Balanced, Grid, Knapsack, Random

SEEDS = range(12)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("machines", [(2,), (4,), (2, 3)])
@pytest.mark.parametrize("deaths", [0, 12])
def test_every_node_is_explored_once(machines: tuple[int, ...], deaths: int, seed: int) -> None:
    """What died is done again by others, and what came late is not counted twice."""
    problem = Random(seed=seed % 3 + 3, depth=7) if seed % 2 else Balanced(depth=5, every=7)
    plain = expected(problem)
    search = Scrambled(problem, DepthFirst(), seed, machines, deaths)
    search.play()
    assert search.books.totals.nodes == plain.nodes
    assert search.solutions == Counter(plain.solutions)


def test_workers_do_take_from_each_other() -> None:
    """And so the other tests are about something."""
    searches = [Scrambled(Balanced(depth=6), DepthFirst(), seed, (3,), 0) for seed in range(3)]
    for search in searches:
        search.play()
    assert all(search.steals > 0 for search in searches)


@pytest.mark.parametrize("seed", range(70, 100))
@pytest.mark.parametrize("deaths", [0, 12])
def test_the_best_is_found_whoever_tells_of_it(deaths: int, seed: int) -> None:
    """What is left out because of a cost that somebody told of is lost with who told of it."""
    problem = _knapsack(seed)
    search = Scrambled(problem, BranchAndBound(), seed, (2, 3) if seed % 2 else (2,), deaths)
    search.play()
    assert search.books.incumbent == expected(problem).best_cost


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("deaths", [0, 12])
def test_keys_are_explored_whoever_claimed_them(deaths: int, seed: int) -> None:
    """Nobody leaves a node out for the sake of one that is never explored."""
    problem = Grid()
    search = Scrambled(problem, DepthFirst(), seed, (4,), deaths)
    search.play()
    plain = expected(problem)
    assert set(search.solutions) == plain.solutions
    assert search.books.totals.nodes == plain.nodes or deaths


def _knapsack(seed: int) -> Knapsack:
    """Many ways to fill it, of which few are best."""
    draw = random.Random(seed).randrange
    weights = tuple(draw(3, 13) for _ in range(11))
    return Knapsack(weights, tuple(2 * weight + draw(3) for weight in weights), 40)
