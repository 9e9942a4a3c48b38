from __future__ import annotations

import pytest

from aiosearch.codegen.lower.lowering import lower
from aiosearch.tensor import Block, DType, Program, Term, apply, literal, tensor

X, Y, W = tensor("X", "f32", (4, 6)), tensor("Y", "f32", (4, 6)), tensor("W", "f32", (6, 8))


def kernels(*outputs: Term) -> list[list[str]]:
    """What each kernel fills."""
    module = lower(Program("p", (X, Y, W), outputs))
    return [[stage.target.name for stage in kernel.stages] for kernel in module.kernels]


def total(x: Term, axis: int = 1) -> Term:
    return apply("sum", x, axes=(axis,), keep=True)


def test_sums_along_the_same_rows_are_one_kernel() -> None:
    """A layer norm reads its rows again and again."""
    centred = X - total(X) / literal(6)
    assert kernels(centred / apply("sqrt", total(centred * centred))) == [["t0", "t1", "out"]]


def test_sums_along_other_rows_are_another_kernel() -> None:
    """Rows first, then columns."""
    e = apply("exp", X / total(X))
    assert kernels(e / total(e, 0)) == [["t0", "t1"], ["t2", "out"]]


def test_a_product_starts_a_kernel() -> None:
    """Though what it reads was computed along its rows."""
    assert kernels((X / total(X)) @ W) == [["t0", "t1"], ["out"]]


def test_a_sum_of_a_product_is_another_kernel() -> None:
    """It needs the whole row, which the product computes column by column."""
    assert kernels(total(X @ W)) == [["out"]]
    product = X @ W
    assert kernels(product / total(product)) == [["t0"], ["t1", "out"]]


def test_long_rows_are_not_gone_through_twice_in_one_kernel() -> None:
    """They would not stay near the processor."""
    long = tensor("L", "f32", (2, 1 << 17))
    module = lower(Program("p", (long,), (long / total(apply("exp", long / total(long))),)))
    assert len(module.kernels) > 1
    short = tensor("L", "f32", (2, 1 << 7))
    module = lower(Program("p", (short,), (short / total(apply("exp", short / total(short))),)))
    assert len(module.kernels) == 1


def test_what_is_read_elsewhere_than_it_is_written_starts_a_kernel() -> None:
    """A row moved to the right, a matrix and its transpose, a diagonal."""
    shifted = apply("pad", X @ W, axis=1, low=2, high=0)
    square = X @ apply("transpose", Y, axes=(1, 0))
    assert kernels(apply("exp", shifted)) == [["t0"], ["out"]]
    assert kernels(square * apply("transpose", square, axes=(1, 0))) == [["t0"], ["out"]]
    assert kernels(apply("diagonal", square), square) == [["out1"], ["out0"]]
    assert kernels(apply("exp", apply("transpose", square, axes=(1, 0)))) == [["t0", "out"]]


def test_custom_kernels_stay_apart() -> None:
    """Nothing joins them, and the sums that they read come before; a quotient they compute."""
    block = Block((2,))
    (sums,) = block.results((block.accumulate(block.load(X / total(Y), (0,)), "sum"), (0,)))
    assert kernels(apply("exp", sums)) == [["t0"], ["t1"], ["out"]]


@pytest.mark.parametrize("name", ["one", "two"])
def test_a_program_of_one_kernel_gives_it_its_name(name: str) -> None:
    assert [one.name for one in lower(Program(name, (X, W), (X @ W,))).kernels] == [name]


def test_weights_in_few_bits_are_widened_where_they_are_multiplied() -> None:
    """Nothing writes them all down in more bits, unless others want them so too."""
    few, scale = tensor("F", "i8", (6, 8)), tensor("S", "f32", (1, 8))
    weights = apply("cast", few, dtype=DType.F32) * scale

    def made(*outputs: Term) -> list[list[str]]:
        module = lower(Program("p", (X, few, scale), outputs))
        return [[stage.target.name for stage in kernel.stages] for kernel in module.kernels]

    assert made(X @ weights) == [["t0", "out"]]
    assert len(made(X @ weights, weights)) == 2
    assert len(made(X @ apply("exp", weights))) == 2
    half = apply("cast", X, dtype=DType.BF16)
    assert len(kernels(apply("sum", half * half, axes=(1,)))) == 1
