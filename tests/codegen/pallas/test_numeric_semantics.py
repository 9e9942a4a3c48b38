"""Whole numbers stay whole; what is no number is not passed over; 64-bit types may be on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from testkit.kernels.native_run import program
from testkit.kernels.pallas_run import outputs

from aiosearch.codegen import ir
from aiosearch.codegen.ir import (
    Apply,
    Buffer,
    BufferLoad,
    Constant,
    LoopIndex,
    Module,
    ReductionKind,
    TileKernel,
)
from aiosearch.codegen.ir import Operation as Op
from aiosearch.codegen.lower.lowering import lower
from aiosearch.codegen.pallas import CannotPrint, Tiling, write
from aiosearch.tensor import DType, apply, literal, tensor

I, K = LoopIndex("i", 4), LoopIndex("k", 21)  # noqa: E741
ROW, WHOLE = (ir.index(I),), (ir.index(I), ir.index(K))
ODD = 2**24 + 1
"""What no f32 is."""
IDS, X = Buffer("ids", DType.I32, (4, 21)), Buffer("X", DType.F32, (4, 21))
BLOCKS = {"k": Tiling({"i": 2, "k": 4})}


def module(*stages: ir.KernelStage) -> Module:
    filled = tuple(stage.target for stage in stages)
    read = {load.buffer for stage in stages for load in stage.loads} - set(filled)
    inputs = tuple(sorted(read, key=lambda one: one.name))
    return Module("m", inputs, filled, (TileKernel("k", inputs, filled, stages),))


def test_one_of_two_is_whole_where_one_is() -> None:
    """A literal beside whole numbers is one, whether it is chosen or lies around them."""
    small = Apply(Op.LESS, (BufferLoad(IDS, WHOLE), Constant(0.0)))
    chosen = Apply(Op.SELECT, (small, Constant(0.0), BufferLoad(IDS, WHOLE)))
    beyond = ir.affine({K: 1}, -3)
    padded = ir.BoundedValue(
        ((beyond, 0, 21),), BufferLoad(IDS, (ir.index(I), beyond)), Constant(7.0)
    )
    targets = [Buffer(name, DType.I32, (4, 21)) for name in ("chosen", "padded")]
    made = module(
        ir.KernelStage(targets[0], WHOLE, chosen), ir.KernelStage(targets[1], WHOLE, padded)
    )
    ids = np.full((4, 21), ODD, np.int32)
    ids[1] = -5
    for tilings in ({}, {"k": Tiling({"i": 2})}):
        first, second = outputs(made, tilings, [ids])
        np.testing.assert_array_equal(first, np.where(ids < 0, 0, ids))
        np.testing.assert_array_equal(second[:, 3:], ids[:, :-3])
        assert (second[:, :3] == 7).all()


def test_a_literal_that_is_no_whole_number_makes_floats() -> None:
    far = Apply(Op.SELECT, (BufferLoad(IDS, WHOLE), Constant(3e9), BufferLoad(IDS, WHOLE)))
    half = Apply(Op.SELECT, (BufferLoad(IDS, WHOLE), Constant(0.5), BufferLoad(IDS, WHOLE)))
    both = Apply(Op.SELECT, (BufferLoad(IDS, WHOLE), Constant(1e9), Constant(0.0)))
    product = Apply(Op.MULTIPLY, (both, both))
    largest = Apply(Op.MAXIMUM, (BufferLoad(IDS, WHOLE), Constant(3e9)))
    values = (far, half, product, largest)
    targets = [Buffer(f"o{at}", DType.F32, (4, 21)) for at in range(4)]
    made = module(
        *(ir.KernelStage(one, WHOLE, value) for one, value in zip(targets, values, strict=True))
    )
    found = outputs(made, {}, [np.ones((4, 21), np.int32)])
    assert [float(one[0, 0]) for one in found] == [3e9, 0.5, np.float32(1e18), 3e9]


@pytest.mark.parametrize("axis", [0, 1])
def test_the_least_of_whole_numbers_is_found_whatever_it_is(axis: int) -> None:
    """Of the least of all, there is no negative."""
    made = lower(program(apply("min", tensor("X", DType.I32, (4, 21)), axes=(axis,))))
    ids = np.full((4, 21), 2**31 - 1, np.int32)
    ids[2, 20] = -(2**31)
    (found,) = outputs(made, {}, [ids])
    np.testing.assert_array_equal(found, ids.min(axis))


def test_numbers_that_are_chosen_are_whole_beside_whole_ones() -> None:
    """Whatever is made of them; as floats they would take digits from those."""
    x = tensor("X", DType.I32, (4, 21))
    chosen = apply("select", apply("less", x, literal(0)), literal(1), literal(ODD))
    doubled = apply("mul", chosen, literal(2))
    made = lower(program(x + doubled, apply("maximum", doubled, x)))
    ids = np.full((4, 21), ODD, np.int32)
    ids[2] = -ODD
    wanted = np.where(ids < 0, 2, 2 * ODD)
    added, largest = outputs(made, {}, [ids])
    np.testing.assert_array_equal(added, ids + wanted)
    np.testing.assert_array_equal(largest, np.maximum(ids, wanted))


@pytest.mark.parametrize("tilings", [{}, BLOCKS])
def test_truths_are_counted_in_whole_numbers(tilings: dict[str, Tiling]) -> None:
    """As many of them as there may be."""
    counted = Apply(Op.SELECT, (BufferLoad(X, WHOLE), Constant(1.0), Constant(0.0)))
    stage = ir.KernelStage(Buffer("n", DType.I32, (4,)), ROW, counted, (K,), ReductionKind.SUM)
    text = write(module(stage), tilings)
    assert "0.0).astype(jnp.int32)" in text
    (found,) = outputs(module(stage), tilings, [np.eye(4, 21, dtype=np.float32)])
    np.testing.assert_array_equal(found, [1, 1, 1, 1])


def test_a_constant_truth_is_one() -> None:
    made = module(ir.KernelStage(Buffer("o", DType.BOOL, (4,)), ROW, Constant(1.0)))
    (found,) = outputs(made, {}, [])
    assert (found == 1).all()


@pytest.fixture
def like_triton(monkeypatch: pytest.MonkeyPatch) -> None:
    """Maxima pass over what is no number, as they do on a GPU."""
    usual = jnp.max

    def largest(x: Any, axis: Any = None) -> Any:
        return usual(jnp.where(x != x, -jnp.inf, x), axis=axis)

    monkeypatch.setattr(jnp, "maximum", jnp.fmax)
    monkeypatch.setattr(jnp, "minimum", jnp.fmin)
    monkeypatch.setattr(jnp, "max", largest)


def with_nan(shape: Sequence[int]) -> Any:
    found = np.linspace(-2, 3, int(np.prod(shape)), dtype=np.float32).reshape(shape)
    found[1, 2] = found[3, 20] = np.nan
    return found


@pytest.mark.usefixtures("like_triton")
@pytest.mark.parametrize("tilings", [{}, BLOCKS])
def test_what_is_no_number_is_not_passed_over(tilings: dict[str, Tiling]) -> None:
    positive = Apply(Op.MAXIMUM, (BufferLoad(X, WHOLE), Constant(0.0)))
    negative = Apply(Op.MINIMUM, (Constant(0.0), BufferLoad(X, WHOLE)))
    both = Apply(Op.ADD, (positive, negative))
    most = Buffer("most", DType.F32, (4,))
    twice = Buffer("twice", DType.F32, (4,))
    stages = (
        ir.KernelStage(Buffer("parts", DType.F32, (4, 21)), WHOLE, both),
        ir.KernelStage(most, ROW, BufferLoad(X, WHOLE), (K,), ReductionKind.MAX),
        ir.KernelStage(twice, ROW, Apply(Op.ADD, (BufferLoad(most, ROW), BufferLoad(most, ROW)))),
    )
    x = with_nan((4, 21))
    parts, largest, doubled = outputs(module(*stages), tilings, [x])
    np.testing.assert_array_equal(parts, x)
    np.testing.assert_array_equal(largest, x.max(1))
    np.testing.assert_array_equal(doubled, 2 * x.max(1))


@pytest.mark.usefixtures("like_triton")
@pytest.mark.parametrize("tilings", [{}, BLOCKS])
def test_what_a_maximum_only_scales_is_no_number_by_itself(tilings: dict[str, Tiling]) -> None:
    """So a softmax's maximum is looked at once, not twice."""
    most, total = Buffer("most", DType.F32, (4,)), Buffer("total", DType.F32, (4,))
    less = Apply(Op.SUBTRACT, (BufferLoad(X, WHOLE), BufferLoad(most, ROW)))
    stages = (
        ir.KernelStage(most, ROW, BufferLoad(X, WHOLE), (K,), ReductionKind.MAX),
        ir.KernelStage(total, ROW, Apply(Op.EXP, (less,)), (K,), ReductionKind.SUM),
    )
    made = Module("m", (X,), (total,), (TileKernel("k", (X,), (total,), stages),))
    assert "_largest" not in write(made, tilings)
    x = with_nan((4, 21))
    (found,) = outputs(made, tilings, [x])
    with np.errstate(invalid="ignore"):
        np.testing.assert_allclose(found, np.exp(x - x.max(1, keepdims=True)).sum(1), rtol=1e-5)


@pytest.mark.parametrize("tilings", [{}, BLOCKS])
def test_a_row_whose_numerators_are_asked_for_nowhere_sums_to_zero(
    tilings: dict[str, Tiling],
) -> None:
    """A masked softmax that guards its numerators gives zeros where all is masked."""
    mask = Buffer("mask", DType.BOOL, (4, 21))
    most, total = Buffer("most", DType.F32, (4,)), Buffer("total", DType.F32, (4,))
    seen = Apply(Op.SELECT, (BufferLoad(mask, WHOLE), BufferLoad(X, WHOLE), Constant(-np.inf)))
    part = Apply(Op.EXP, (Apply(Op.SUBTRACT, (seen, BufferLoad(most, ROW))),))
    kept = Apply(Op.SELECT, (BufferLoad(mask, WHOLE), part, Constant(0.0)))
    stages = (
        ir.KernelStage(most, ROW, seen, (K,), ReductionKind.MAX),
        ir.KernelStage(total, ROW, kept, (K,), ReductionKind.SUM),
    )
    inputs = (X, mask)
    made = Module("m", inputs, (total,), (TileKernel("k", inputs, (total,), stages),))
    masks = np.random.default_rng(0).random((4, 21)) < 0.5
    masks[2] = False
    x = np.linspace(-2, 3, 84, dtype=np.float32).reshape(4, 21)
    (found,) = outputs(made, tilings, [x, masks])
    own = np.where(masks, x, -np.inf).max(1, keepdims=True)
    with np.errstate(invalid="ignore"):
        wanted = np.where(masks, np.exp(np.where(masks, x, -np.inf) - own), 0).sum(1)
    assert wanted[2] == 0
    np.testing.assert_allclose(found, wanted, rtol=1e-5)


def test_an_input_may_have_the_name_of_what_a_loop_counts_in() -> None:
    step, total = Buffer("step", DType.F32, (4, 21)), Buffer("total", DType.F32, (4,))
    made = module(ir.KernelStage(total, ROW, BufferLoad(step, WHOLE), (K,), ReductionKind.SUM))
    (found,) = outputs(made, BLOCKS, [np.ones((4, 21), np.float32)])
    np.testing.assert_array_equal(found, [21] * 4)


def test_what_places_of_32_bits_do_not_reach_is_refused() -> None:
    at = LoopIndex("i", 2**31)
    vast, out = (Buffer(name, DType.BOOL, (2**31,)) for name in ("vast", "out"))
    place = (ir.index(at),)
    kernel = TileKernel(
        "k", (vast,), (out,), (ir.KernelStage(out, place, BufferLoad(vast, place)),)
    )
    with pytest.raises(CannotPrint, match="2\\^31 elements"):
        write(Module("m", (vast,), (out,), (kernel,)), {"k": Tiling({"i": 1024})})


@pytest.fixture
def with_64_bits() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


@pytest.mark.usefixtures("with_64_bits")
@pytest.mark.parametrize("tilings", [{}, BLOCKS])
def test_64_bit_types_may_be_on(tilings: dict[str, Tiling]) -> None:
    """Places that are divided, sums and maxima of whole numbers, and a literal by itself."""
    place = ir.affine({K: 1}, -2)
    rough = ir.Mixed(((ir.Quotient(place, 4), 1), (ir.Remainder(place, 3), 2)), ir.Affine((), 3))
    count = ir.PositionValue(rough)
    some = Apply(Op.ADD, (BufferLoad(IDS, WHOLE), count))
    stages = (
        ir.KernelStage(Buffer("n", DType.I32, (4,)), ROW, some, (K,), ReductionKind.SUM),
        ir.KernelStage(Buffer("most", DType.I32, (4,)), ROW, some, (K,), ReductionKind.MAX),
        ir.KernelStage(Buffer("one", DType.I32, (4,)), ROW, Constant(3.0)),
        ir.KernelStage(
            Buffer("f", DType.F64, (4,)), ROW, BufferLoad(X, WHOLE), (K,), ReductionKind.SUM
        ),
    )
    ids = np.arange(84, dtype=np.int32).reshape(4, 21)
    x = np.linspace(-2, 3, 84, dtype=np.float32).reshape(4, 21)
    made = module(*stages)
    given = {"ids": ids, "X": x}
    n, most, one, f = outputs(made, tilings, [given[one.name] for one in made.inputs])
    at = np.arange(21) - 2
    wanted = ids + at // 4 + 2 * (at % 3) + 3
    np.testing.assert_array_equal(n, wanted.sum(1))
    np.testing.assert_array_equal(most, wanted.max(1))
    assert (np.asarray(one) == 3).all()
    np.testing.assert_allclose(f, x.sum(1, dtype=np.float64), rtol=1e-5)


@pytest.mark.parametrize("tile", [1, 4])
def test_a_block_s_own_place_may_be_divided(tile: int) -> None:
    at = LoopIndex("i", 24)
    place = ir.Mixed(((ir.Quotient(ir.index(at), 4), 1),), ir.Affine())
    wrapped = ir.Remainder(ir.index(at), 5)
    value = Apply(Op.ADD, (ir.PositionValue(place), ir.PositionValue(wrapped)))
    made = module(ir.KernelStage(Buffer("o", DType.I32, (24,)), (ir.index(at),), value))
    (found,) = outputs(made, {"k": Tiling({"i": tile})}, [])
    np.testing.assert_array_equal(found, np.arange(24) // 4 + np.arange(24) % 5)


def test_one_of_two_literals_is_whole_where_that_is_asked_for() -> None:
    chosen = Apply(Op.SELECT, (BufferLoad(X, WHOLE), Constant(float(ODD)), Constant(2.0)))
    made = module(
        ir.KernelStage(Buffer("o", DType.I32, (4, 21)), WHOLE, ir.Round(chosen, DType.I32))
    )
    (found,) = outputs(made, {}, [np.eye(4, 21, dtype=np.float32)])
    np.testing.assert_array_equal(found, np.where(np.eye(4, 21), ODD, 2))
