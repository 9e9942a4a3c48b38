from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiosearch.superoptimizer.liveness import Step, least_live


@st.composite
def graphs(draw: st.DrawFn) -> tuple[list[Step], list[int]]:
    """Up to six steps; some write over what they read, some only change what is there."""
    steps: list[Step] = []
    for index in range(draw(st.integers(1, 6))):
        earlier = st.lists(st.integers(0, index - 1), max_size=3, unique=True)
        reads = draw(earlier) if index else []
        over = draw(st.lists(st.sampled_from(reads), unique=True)) if reads else []
        steps.append(Step(draw(st.integers(0, 4)), tuple(reads), tuple(over)))
    return steps, [size for step in steps if isinstance(size := step.size, int)]


def orders(steps: list[Step], given: int) -> Iterator[tuple[int, ...]]:
    for order in permutations(range(given, len(steps))):
        done = set(range(given))
        for index in order:
            if not done.issuperset(steps[index].reads):
                break
            done.add(index)
        else:
            yield order


def peak(steps: list[Step], sizes: list[int], order: tuple[int, ...], given: int) -> int:
    """Runs an order, tile by tile."""
    left = [
        {user for user, step in enumerate(steps) if own in step.reads} for own in range(len(steps))
    ]
    memory = {index: sizes[index] for index in range(given) if left[index]}
    most = sum(memory.values())
    for index in order:
        step = steps[index]
        for read in step.reads:
            left[read].discard(index)
        ended = [read for read in step.reads if not left[read]]
        if not any(read in step.over and sizes[read] == sizes[index] for read in ended):
            most = max(most, sum(memory.values()) + sizes[index])
        for read in ended:
            del memory[read]
        if left[index]:
            memory[index] = sizes[index]
        most = max(most, sum(memory.values()))
    return most


@given(graphs(), st.integers(0, 2))
def test_no_order_needs_less(graph: tuple[list[Step], list[int]], given: int) -> None:
    """The order found needs what the best of all orders needs."""
    steps, sizes = graph
    given = min(given, next((place for place, step in enumerate(steps) if step.reads), len(steps)))
    best = min(peak(steps, sizes, order, given) for order in orders(steps, given))
    assert least_live(steps, sizes, given) == best


@pytest.mark.parametrize(("over", "expected"), [((0,), 5), ((), 10)])
def test_a_tile_may_be_written_over(over: tuple[int, ...], expected: int) -> None:
    """Where nothing else reads an operand, its bytes become the result's."""
    steps = [Step(5), Step(5, (0,), over), Step(0, (1,))]
    assert least_live(steps, [5, 5, 0]) == expected


def test_what_is_read_again_is_not_written_over() -> None:
    """A later reader needs the tile as it was."""
    steps = [Step(5), Step(5, (0,), (0,)), Step(0, (0, 1))]
    assert least_live(steps, [5, 5, 0]) == 10


def test_a_tile_that_waits_is_made_late() -> None:
    """Even where it would fit at once: it would stand in the way of a larger one."""
    steps = [Step(10), Step(1, (0,)), Step(5), Step(8), Step(1, (3,)), Step(0, (1, 2, 4))]
    assert least_live(steps, [10, 1, 5, 8, 1, 0]) == 11


def test_many_independent_steps_are_ordered_at_once() -> None:
    """Sixteen steps that have nothing to do with each other need only the largest."""
    steps = [Step(size) for size in range(16)]
    assert least_live(steps, list(range(16))) == 15
