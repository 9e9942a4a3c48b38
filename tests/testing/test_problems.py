"""The test problems are what they say, and the plain walk counts them right."""

from __future__ import annotations

import subprocess
import sys
from itertools import product
from typing import Any

import pytest

from aiosearch.engine.wire.reference import refer, resolve
from aiosearch.testing import expected
from aiosearch.testing.problems import (
    Awaited,
    Balanced,
    Failing,
    Grid,
    Knapsack,
    Obliged,
    Pruned,
    Random,
    Slow,
    Spine,
)

ALL = [
    Balanced(), Random(), Spine(), Grid(), Knapsack(),
    Slow(), Awaited(), Pruned(), Failing(), Obliged(), Obliged(doubt=True),
]  # fmt: skip


@pytest.mark.parametrize("problem", ALL)
def test_a_worker_process_can_build_it(problem: Any) -> None:
    reference = refer(problem)
    assert not reference.pickled
    assert resolve(reference) == problem


def test_a_balanced_tree_has_the_sum_of_a_geometric_series() -> None:
    found = expected(Balanced(branching=3, depth=4, every=20))
    assert found.nodes == 1 + 3 + 9 + 27 + 81
    assert found.solutions == {19, 39, 59, 79}


def test_a_spine_has_one_node_a_level() -> None:
    assert expected(Spine(depth=10)).nodes == 11
    assert expected(Spine(depth=0)).solutions == {0}


def test_a_grid_has_every_place_once() -> None:
    found = expected(Grid(side=5))
    assert found.nodes == 25
    assert found.solutions == {(place, place) for place in range(5)}


def test_a_random_tree_is_irregular_and_always_the_same() -> None:
    assert {len(Random().expand((3, number))) for number in range(50)} == {0, 1, 2, 3, 4}
    assert expected(Random()) == expected(Random())
    assert len({expected(Random(seed)).nodes for seed in range(10)}) > 5


def test_the_best_knapsack_is_that_of_all_choices() -> None:
    problem = Knapsack()
    things = list(zip(problem.weights, problem.values, strict=True))
    values = [
        sum(value for (_, value), take in zip(things, choice, strict=True) if take)
        for choice in product((False, True), repeat=len(things))
        if sum(weight for (weight, _), take in zip(things, choice, strict=True) if take)
        <= problem.room
    ]
    found = expected(problem)
    assert found.best_cost == -max(values)
    assert found.solutions == set(values)


def test_what_is_pruned_is_missing_with_all_below() -> None:
    whole = Balanced(branching=2, depth=3)
    assert expected(Pruned(whole, level=1, every=2)).nodes == 1 + 7
    assert expected(Failing(Pruned(whole, level=2, every=4))).nodes == 15 - 3
    assert expected(Obliged(Pruned(whole, level=3, every=2))).nodes == 15 - 4
    assert expected(Awaited(whole)).nodes == 15


def test_importing_it_all_needs_neither_pytest_nor_a_solver() -> None:
    code = (
        "import sys, aiosearch.testing, aiosearch.testing.problems, aiosearch.testing.problems;"
        "print(*({'pytest', 'z3', 'jax', 'hypothesis'} & set(sys.modules)))"
    )
    assert subprocess.check_output([sys.executable, "-c", code], text=True) == "\n"
