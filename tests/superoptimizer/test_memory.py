from __future__ import annotations

import pytest
from random_programs import random_program

from aiosearch.superoptimizer.memory import phases, shared_bytes, summed_bytes
from aiosearch.superoptimizer.values import number
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
