from __future__ import annotations

import pytest
from testkit.programs.random_programs import random_program

from aiosearch.tensor import Block, Program, Size, Term, apply, read, tensor, write
from aiosearch.tensor.analysis.cost import Cost, cost
from aiosearch.tensor.analysis.generalise import generalise
from aiosearch.tensor.programs import builtin

X = tensor("X", "f32", (4, 6))
W = tensor("W", "f32", (6, 8))


def cost_of(*outputs: Term) -> Cost:
    return cost(Program("program", (X, W), outputs))


def test_an_operator_reads_its_operands_and_writes_its_result() -> None:
    """Outside custom kernels every operator is a kernel, and goes through memory."""
    assert cost_of(X @ W) == Cost(2 * 4 * 6 * 8, 4 * (24 + 48), 4 * 32, 1)
    assert cost_of(X * X) == Cost(24, 4 * 24, 4 * 24, 1)
    assert cost_of(apply("exp", X @ W)).kernels == 2


def test_literals_cost_nothing() -> None:
    """A number is part of the kernel that uses it."""
    assert cost_of(X * 2) == Cost(24, 4 * 24, 4 * 24, 1)


def test_moving_elements_costs_nothing() -> None:
    """What is moved is read in place; a broadcast tensor is read once, a slice in part."""
    assert cost_of(apply("transpose", X, axes=(1, 0))) == Cost()
    row = tensor("X", "f32", (1, 6))
    wide = apply("exp", apply("broadcast", row, shape=(4, 6)))
    assert cost(Program("wide", (row,), (wide,))).bytes_read == 4 * 6
    assert cost_of(apply("exp", apply("slice", X, axis=0, start=0, stop=3))).bytes_read == 4 * 18


def test_blocks_share_nothing() -> None:
    """A tile is loaded by every block, in every iteration that takes a new one."""
    block = Block((4,), 3)
    x, w = block.load(X, loop=1), block.load(W, (1,), 0)
    (out,) = block.results((block.accumulate(x @ w), (1,)))
    found = cost_of(out)
    assert found.kernels == 1
    assert found.bytes_read == 4 * (4 * 24 + 48)
    assert found.bytes_written == 4 * 32
    assert found.flops == 2 * 4 * 6 * 8 + 3 * 32


def test_a_tile_that_the_loop_does_not_split_is_loaded_once() -> None:
    """What stays the same over the iterations stays in the block."""
    block = Block((2,), 3)
    x, w = block.load(X, (0,)), block.load(W, loop=0)
    first = block.accumulate(x)
    assert cost_of(*block.results((first, (0,)))).bytes_read == 4 * 24
    second = block.accumulate(w)
    found = cost_of(*block.results((first, (0,)), (second, (0,))))
    assert found.bytes_read == 4 * (24 + 2 * 48)


def test_threads_cost_their_arithmetic() -> None:
    """Registers are read and written for nothing."""
    block = Block((2,))
    tile = block.load(X, (0,))
    (plain,) = block.results((block.accumulate(apply("exp", tile)), (0,)))
    (fused,) = block.results((block.accumulate(write(apply("exp", read(tile)))), (0,)))
    assert cost_of(plain) == cost_of(fused)


def test_a_kernel_counts_once_for_all_its_outputs() -> None:
    """Two results of one kernel are one start."""
    block = Block((2,))
    tile = block.load(X, (0,))
    outputs = block.results((block.accumulate(tile), (0,)), (block.accumulate(tile, "max"), (0,)))
    assert cost_of(*outputs) == Cost(2 * 24, 4 * 24, 2 * 4 * 24, 1)


def test_a_fused_kernel_moves_less() -> None:
    """Splitting the columns of a weight over blocks reads it once and writes no temporary."""
    reference = builtin("rms_norm")
    x, w = reference.inputs
    block = Block((64,), 16)
    tile = block.load(x, loop=1)
    product = block.accumulate(tile @ block.load(w, (1,), 0))
    out = block.results((product / block.accumulate(tile, "rms"), (1,)))
    fused = cost(Program("fused", (x, w), out))
    assert fused.kernels < cost(reference).kernels
    assert fused.bytes_written < cost(reference).bytes_written


def values(found: Cost, sizes: dict[str, int]) -> Cost:
    parts = (found.flops, found.bytes_read, found.bytes_written)
    numbers = [part.at(sizes) if isinstance(part, Size) else part for part in parts]
    return Cost(*numbers, found.kernels)


@pytest.mark.parametrize("seed", range(100))
def test_costs_for_all_shapes_are_those_of_each(seed: int) -> None:
    """A generalised program's costs, at the program's own sizes, are the program's."""
    random = random_program(seed)
    general = generalise([random])
    found, expected = values(cost(general.programs[0]), general.values), cost(random)
    assert (found.flops, found.bytes_written) == (expected.flops, expected.bytes_written)
    assert found.kernels == expected.kernels
