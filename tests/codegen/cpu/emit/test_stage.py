"""Loops around blocks of registers: sizes that fill none, one or many, folds along any axis."""

from __future__ import annotations

import re
from random import Random

import numpy as np
import pytest
from testkit.kernels.error_bounds import assert_right, wrong
from testkit.kernels.native_run import MACHINES, drawn, program, run
from testkit.kernels.random_schedules import drawn_schedules
from testkit.programs.every_operator import SIZES

from aiosearch.codegen.cpu.emit.kernel import print_module
from aiosearch.codegen.cpu.register_layout import RegisterRequest
from aiosearch.codegen.cpu.schedule import Schedule
from aiosearch.codegen.ir import Module
from aiosearch.codegen.lower.lowering import lower
from aiosearch.codegen.native.machine import host
from aiosearch.tensor import DType, Term, apply, tensor


def module(*outputs: Term) -> Module:
    return lower(program(*outputs))


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("dtype", [DType.F32, DType.BF16])
def test_sizes_of_vectors(size: int, dtype: DType) -> None:
    """Whole vectors, what is left of one, and nothing, element by element and added up."""
    x, y = (tensor(name, dtype, (size,)) for name in "XY")
    found = module(apply("silu", x) * y, apply("sum", x * y, axes=(0,)))
    assert_right(found, machines=MACHINES.values() if dtype is DType.F32 else [host()])


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("axis", [0, 1])
def test_sizes_of_folds(size: int, axis: int) -> None:
    """Folded along the rows and down the columns, of sizes that no number of lanes divides."""
    x = tensor("X", DType.F32, (5, size) if axis else (size, 5))
    reductions = [apply("sum", x, axes=(0,)), apply("max", x, axes=(1,))]
    assert_right(module(*reductions), machines=[host(), MACHINES["portable"]])


@pytest.mark.parametrize("rows", [0, 1, 17])
@pytest.mark.parametrize("columns", [1, 17, 100])
def test_sizes_of_products(rows: int, columns: int) -> None:
    """Products of matrices whose sizes fit no block of registers, of half types by pairs."""
    for dtype, inner in ((DType.F32, 33), (DType.BF16, 7)):
        x, w = tensor("X", dtype, (rows, inner)), tensor("W", dtype, (inner, columns))
        assert_right(module(x @ w), machines=[host()])


@pytest.mark.parametrize("inner", SIZES)
def test_lengths_of_products(inner: int) -> None:
    """What is folded may be empty, odd, or long."""
    for dtype in (DType.F32, DType.BF16):
        x, w = tensor("X", dtype, (2, inner)), tensor("W", dtype, (inner, 18))
        assert_right(module(x @ w), machines=[host()])


@pytest.mark.parametrize("turned", [(False, True), (True, False), (True, True)])
@pytest.mark.parametrize(
    ("dtype", "machine"),
    [
        (DType.F32, "host"),
        (DType.BF16, "host"),
        (DType.BF16, "portable"),
        (DType.F64, "without AVX-512"),
    ],
)
def test_turned_operands(turned: tuple[bool, bool], dtype: DType, machine: str) -> None:
    """A product reads either operand along its rows or down its columns."""
    x, y = (
        apply("transpose", tensor(name, dtype, shape[::-1]), axes=(1, 0))
        if turn
        else tensor(name, dtype, shape)
        for name, shape, turn in zip("XY", [(4, 21), (21, 19)], turned, strict=True)
    )
    assert_right(module(x @ y), machines=[MACHINES[machine]])


@pytest.mark.parametrize("rows", [1, 3, 8])
@pytest.mark.parametrize("vectors", [1, 2, 4])
def test_blocks_of_any_shape(rows: int, vectors: int) -> None:
    """However many rows and vectors are in registers at once, the product is the same."""
    x, w = tensor("X", DType.F32, (11, 13)), tensor("W", DType.F32, (13, 83))
    wishes = RegisterRequest(
        rows, vectors, unroll=1 + rows % 4, prefetch_distance=3 * (vectors % 2)
    )
    assert_right(
        module(x @ w), schedules={"program": Schedule(registers=wishes)}, machines=[host()]
    )


def test_several_batch_axes() -> None:
    """Products of stacks of matrices, each with its own."""
    x, y = tensor("X", DType.F32, (2, 3, 5, 7)), tensor("Y", DType.F32, (2, 3, 7, 18))
    assert_right(module(x @ y))


def test_folds_over_several_axes() -> None:
    """One of them runs along the lanes, or none, and the outermost may be empty."""
    x, y = tensor("X", DType.F32, (3, 18, 5)), tensor("Y", DType.F32, (0, 18, 5))
    axes = [(0, 1), (0, 2), (1, 2), (0, 1, 2)]
    assert_right(module(*(apply(name, x, axes=one) for name in ("sum", "max") for one in axes)))
    assert_right(module(apply("sum", y, axes=(0, 2)), apply("mean", y, axes=(1, 2))))


@pytest.mark.parametrize(("machine", "seed"), [(name, at) for at, name in enumerate(MACHINES)])
def test_convolutions(machine: str, seed: int) -> None:
    """Windows are read where they lie, padding is not read at all, in any order of work."""
    x, w = tensor("X", DType.F32, (2, 9, 8, 3)), tensor("W", DType.F32, (3, 2, 3, 4))
    padded = apply("convolution", x, w, strides=(2, 1), low=(1, 0), high=(1, 1), dilation=(1, 2))
    found, target = module(padded), MACHINES[machine]
    ways = drawn_schedules(found, Random(seed), target)
    error = wrong(found, drawn(found), ways, target)
    assert not error, error


def test_tails_of_sums_at_the_end_of_memory() -> None:
    """What is added up under a mask is loaded under that mask, too."""
    x = tensor("X", DType.F32, (40, 17))
    own = Schedule({"l": 15, "j": 15}, "l"), Schedule({"j": 15}, "j")
    found = module(apply("sum", x * 4 + 1, axes=(1,)), apply("mean", x * x + 2, axes=(1,)))
    for one in own:
        assert_right(found, schedules={kernel.name: one for kernel in found.kernels})


@pytest.mark.parametrize("lanes_folded", [True, False])
def test_a_long_sum_is_a_sum_of_shorter_ones(lanes_folded: bool) -> None:
    """One after the other, so many terms of one sign would be off by a hundred times as much."""
    x = tensor("x", "f32", (300_001,)) if lanes_folded else tensor("x", "f32", (20_001, 16))
    given = np.random.default_rng(0).random(x.shape).astype(np.float32)
    (found,) = run(module(apply("sum", x, axes=(0,))), [given])
    wanted = given.astype(np.float64).sum(axis=0)
    assert np.max(np.abs(found - wanted) / wanted) < 1e-6


def test_what_all_lanes_share_is_read_before_the_loop() -> None:
    """Once for whole vectors and for the lanes that are left; what is written meanwhile is not."""
    x, y = tensor("X", DType.F32, (3, 1000)), tensor("Y", DType.F32, (3, 1))
    text = print_module(module(x * y), {}, host()).text
    assert len(re.findall(r"load float, ptr", text)) == 1
    assert_right(module(x * y))


@pytest.mark.parametrize(("rows", "loops"), [(4, False), (8, False), (9, False), (12, True)])
def test_two_blocks_of_rows_follow_each_other_without_a_loop(rows: int, loops: bool) -> None:
    """A processor then knows where the loops inside end; of more, the text would be long."""
    x, w = tensor("X", DType.F32, (rows, 64)), tensor("W", DType.F32, (64, 2 * host().width))
    own = Schedule(registers=RegisterRequest(4, 2))
    text = print_module(module(x @ w), {"program": own}, host()).text
    assert text.count("getelementptr")  # it is no empty function
    around = 3  # blocks, columns, and what is folded, of each block of rows
    blocks = 1 if loops else -(-rows // 4)
    assert len(re.findall(r"^loop\d+:", text, re.MULTILINE)) == around - 1 + blocks + loops
