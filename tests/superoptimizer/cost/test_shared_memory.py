from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from testkit.programs.random_programs import random_program

from aiosearch.superoptimizer.cost.shared_memory import (
    LivenessStep,
    least_live,
    phases,
    shared_bytes,
    summed_bytes,
)
from aiosearch.superoptimizer.cost.size_values import number
from aiosearch.tensor import Block, Kernel, Term, apply, read, tensor, write

X = tensor("X", "f32", (4, 6))
W = tensor("W", "f32", (6, 8))
TILE = 4 * 24
"""The bytes of all of X."""


def kernel_of(block: Block, *tiles: Term) -> Kernel:
    results = block.results(*((tile, ()) for tile in tiles))
    kernel: Kernel = results[0].parameter("kernel")
    return kernel


def test_a_loop_keeps_its_accumulators_and_what_it_loads_once() -> None:
    """Split tiles come and go; a product that is only accumulated is added up in place."""
    block = Block((), 3)
    x, w = block.load(X, loop=1), block.load(W, loop=0)
    kernel = kernel_of(block, block.accumulate(x @ w))
    assert shared_bytes(kernel) == 4 * (4 * 2 + 2 * 8 + 4 * 8)
    assert summed_bytes(kernel) == shared_bytes(kernel)
    block = Block((), 3)
    y, w = block.load(X), block.load(W, loop=0)
    kept = kernel_of(block, block.accumulate(apply("sum", y, axes=(0,))), block.accumulate(w))
    assert shared_bytes(kept) == TILE + 4 * (2 * 8) + 4 * (6 + 2 * 8)


def test_a_product_that_is_used_twice_has_a_tile() -> None:
    """It is added up in place only where nothing else wants it."""
    block = Block((), 3)
    product = block.load(X, loop=1) @ block.load(W, loop=0)
    kernel = kernel_of(block, block.accumulate(product), block.accumulate(product, "sum"))
    assert shared_bytes(kernel) == 4 * (4 * 2 + 2 * 8) + 2 * 4 * (4 * 8) + 4 * 4


def test_one_iteration_needs_no_accumulators() -> None:
    """What would be added up is there already; what is reduced has a tile of its own."""
    block = Block(())
    assert shared_bytes(kernel_of(block, block.accumulate(block.load(X)))) == TILE
    assert shared_bytes(kernel_of(block, block.accumulate(block.load(X), "sum"))) == TILE + 4 * 4


def test_tiles_that_are_read_no_more_make_room() -> None:
    """Of a chain of products two tiles and the operand live at once, where Mirage adds all up."""
    a = tensor("A", "f32", (8, 8))
    block = Block(())
    tile = block.load(a)
    found = tile @ tile
    for _ in range(3):
        found = found @ tile
    kernel = kernel_of(block, block.accumulate(found))
    assert shared_bytes(kernel) == 3 * 256
    assert summed_bytes(kernel) == 5 * 256


def test_the_better_order_counts() -> None:
    """A sum of two large tiles' sums never has both of them."""
    block = Block(())
    one, two = (apply("sum", block.load(x), axes=(0, 1), keep=True) for x in (X, W))
    assert shared_bytes(kernel_of(block, block.accumulate(one * two))) == 4 * (6 * 8) + 4


def test_pointwise_operators_work_in_place() -> None:
    """Of any number of operands, as long as one is as large as the result and not needed."""
    block = Block(())
    x = block.load(X)
    assert shared_bytes(kernel_of(block, block.accumulate(apply("exp", x)))) == TILE
    assert shared_bytes(kernel_of(block, block.accumulate(apply("exp", x) * x))) == 2 * TILE
    row = apply("mean", x, axes=(1,), keep=True)
    assert shared_bytes(kernel_of(block, block.accumulate(x / row))) == TILE + 4 * 4
    widened = row * apply("sum", x, axes=(0,), keep=True)
    assert shared_bytes(kernel_of(block, block.accumulate(widened))) == TILE + 4 * (4 + 6)


def test_moved_tiles_and_registers_take_nothing() -> None:
    """They are read where they are, and keep that from being reused."""
    block = Block(())
    turned = apply("transpose", block.load(X), axes=(1, 0))
    assert shared_bytes(kernel_of(block, block.accumulate(turned))) == TILE
    thread = write(apply("exp", read(block.load(X)) * 2))
    assert shared_bytes(kernel_of(block, block.accumulate(thread))) == TILE
    assert shared_bytes(kernel_of(block, block.accumulate(apply("exp", turned)))) == 2 * TILE


def test_a_tile_that_threads_read_elsewhere_stays() -> None:
    """What threads write takes a tile of its own where what they read is read again."""
    block = Block(())
    x = block.load(X)
    thread = write(apply("exp", read(x)))
    assert shared_bytes(kernel_of(block, block.accumulate(thread * x))) == 2 * TILE


def test_after_the_loop_its_tiles_are_gone() -> None:
    """What follows has the accumulators only, until they are read."""
    block = Block((), 3)
    total = block.accumulate(block.load(X, loop=1), "sum")
    wide = apply("exp", apply("broadcast", total, shape=(4, 64)))
    assert shared_bytes(kernel_of(block, wide)) == 4 * 4 + 4 * 4 * 64


@pytest.mark.parametrize("seed", range(150))
def test_plans_lie_between_their_bounds(seed: int) -> None:
    """No plan needs less than its quick bound says, or more than all tiles at once."""
    terms = random_program(seed).terms()
    for kernel in {term.parameter("kernel") for term in terms if term.operator.name == "result"}:
        found = phases(kernel, number(kernel.range) > 1)
        for phase in found:
            everything = sum(number(step.size) for step in phase.steps)
            everything += sum(number(size) for size in phase.held)
            assert phase.bound(number) <= phase.least(number) <= everything
        assert shared_bytes(kernel) == max(phase.least(number) for phase in found)


@st.composite
def graphs(draw: st.DrawFn) -> tuple[list[LivenessStep], list[int]]:
    """Up to six steps; some write over what they read, some only change what is there."""
    steps: list[LivenessStep] = []
    for index in range(draw(st.integers(1, 6))):
        earlier = st.lists(st.integers(0, index - 1), max_size=3, unique=True)
        reads = draw(earlier) if index else []
        over = draw(st.lists(st.sampled_from(reads), unique=True)) if reads else []
        steps.append(LivenessStep(draw(st.integers(0, 4)), tuple(reads), tuple(over)))
    return steps, [size for step in steps if isinstance(size := step.size, int)]


def orders(steps: list[LivenessStep], given: int) -> Iterator[tuple[int, ...]]:
    for order in permutations(range(given, len(steps))):
        done = set(range(given))
        for index in order:
            if not done.issuperset(steps[index].reads):
                break
            done.add(index)
        else:
            yield order


def peak(steps: list[LivenessStep], sizes: list[int], order: tuple[int, ...], given: int) -> int:
    """Runs an order, tile by tile."""
    left = [
        {user for user, step in enumerate(steps) if own in step.reads} for own in range(len(steps))
    ]
    memory = {index: sizes[index] for index in range(given) if left[index]}
    most = sum(memory.values())
    for index in order:
        step = steps[index]
        for operand in step.reads:
            left[operand].discard(index)
        ended = [operand for operand in step.reads if not left[operand]]
        if not any(operand in step.over and sizes[operand] == sizes[index] for operand in ended):
            most = max(most, sum(memory.values()) + sizes[index])
        for operand in ended:
            del memory[operand]
        if left[index]:
            memory[index] = sizes[index]
        most = max(most, sum(memory.values()))
    return most


@given(graphs(), st.integers(0, 2))
def test_no_order_needs_less(graph: tuple[list[LivenessStep], list[int]], given: int) -> None:
    """The order found needs what the best of all orders needs."""
    steps, sizes = graph
    given = min(given, next((place for place, step in enumerate(steps) if step.reads), len(steps)))
    best = min(peak(steps, sizes, order, given) for order in orders(steps, given))
    assert least_live(steps, sizes, given) == best


@pytest.mark.parametrize(("over", "expected"), [((0,), 5), ((), 10)])
def test_a_tile_may_be_written_over(over: tuple[int, ...], expected: int) -> None:
    """Where nothing else reads an operand, its bytes become the result's."""
    steps = [LivenessStep(5), LivenessStep(5, (0,), over), LivenessStep(0, (1,))]
    assert least_live(steps, [5, 5, 0]) == expected


def test_what_is_read_again_is_not_written_over() -> None:
    """A later reader needs the tile as it was."""
    steps = [LivenessStep(5), LivenessStep(5, (0,), (0,)), LivenessStep(0, (0, 1))]
    assert least_live(steps, [5, 5, 0]) == 10


def test_a_tile_that_waits_is_made_late() -> None:
    """Even where it would fit at once: it would stand in the way of a larger one."""
    steps = [
        LivenessStep(10),
        LivenessStep(1, (0,)),
        LivenessStep(5),
        LivenessStep(8),
        LivenessStep(1, (3,)),
        LivenessStep(0, (1, 2, 4)),
    ]
    assert least_live(steps, [10, 1, 5, 8, 1, 0]) == 11


def test_many_independent_steps_are_ordered_at_once() -> None:
    """Sixteen steps that have nothing to do with each other need only the largest."""
    steps = [LivenessStep(size) for size in range(16)]
    assert least_live(steps, list(range(16))) == 15
