"""Trees of awkward shapes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from aiosearch.workloads import Lopsided, Tiny

# The fixtures are plain functions without state, so one serves all examples.
law = settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])


@law
@given(spine=st.integers(4, 60), height=st.integers(1, 14), skew=st.integers(2, 6))
def test_lopsided_counts(
    walk: Callable[[Any], Iterator[Any]],
    answers: Callable[[Any], Counter[int]],
    spine: int,
    height: int,
    skew: int,
) -> None:
    """A walk of a lopsided tree meets the nodes and the solutions that it states, each once."""
    problem = Lopsided(spine, height, skew)
    assert sum(1 for _ in walk(problem)) == problem.nodes
    assert answers(problem) == Counter(problem.answers)


def test_lopsided_is_lopsided(walk: Callable[[Any], Iterator[Any]]) -> None:
    """By default over 99 % of the nodes hang below the end of the spine, and unevenly there."""
    problem = Lopsided()
    below = sum(1 for depth, _ in walk(problem) if depth > problem.spine)
    assert below > 0.99 * problem.nodes
    high, low = (Lopsided(0, height).nodes for height in (35, 33))
    assert high > 2 * low


@law
@given(subtrees=st.integers(0, 3_000))
def test_tiny_counts(
    walk: Callable[[Any], Iterator[Any]], answers: Callable[[Any], Counter[int]], subtrees: int
) -> None:
    """A walk of the tiny subtrees meets the nodes and the solutions that they state, each once."""
    problem = Tiny(subtrees)
    assert sum(1 for _ in walk(problem)) == problem.nodes
    assert answers(problem) == Counter(problem.answers)


def test_tiny_default() -> None:
    """By default there are 10,000 subtrees and ten solutions."""
    problem = Tiny()
    assert len(problem.expand(problem.root())) == 10_000
    assert problem.nodes == 25_001
    assert len(problem.answers) == 10
