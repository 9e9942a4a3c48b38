"""Where elements are read and written: steps, windows, edges, gathered and scattered lanes."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from testkit.kernels.error_bounds import assert_right
from testkit.kernels.native_run import MACHINES, program

from aiosearch.codegen.cpu.emit.kernel import print_module
from aiosearch.codegen.ir import (
    Affine,
    Apply,
    BoundedValue,
    Buffer,
    BufferLoad,
    Constant,
    KernelStage,
    LoopIndex,
    Module,
    Operation,
    Position,
    PositionValue,
    Quotient,
    ReductionKind,
    Remainder,
    TileKernel,
    affine,
    index,
)
from aiosearch.codegen.lower.lowering import lower
from aiosearch.codegen.native.machine import host
from aiosearch.tensor import DType, Term, apply, literal, tensor

TYPES = [DType.F64, DType.F32, DType.F16, DType.BF16, DType.BOOL, DType.I32]


def check(*outputs: Term) -> None:
    assert_right(lower(program(*outputs)))


def check_on_one(dtype: DType, *outputs: Term) -> None:
    """On the machine whose turn it is: every one has types of several sizes."""
    machine = list(MACHINES.values())[TYPES.index(dtype) % len(MACHINES)]
    assert_right(lower(program(*outputs)), machines=[machine])


def one_stage(stage: KernelStage, *inputs: Buffer) -> Module:
    kernel = TileKernel("one", inputs, (stage.target,), (stage,))
    return Module("one", inputs, (stage.target,), (kernel,))


@pytest.mark.parametrize("dtype", TYPES)
def test_slices(dtype: DType) -> None:
    """Beginning anywhere, with steps, along either axis, of elements of any size."""
    x = tensor("X", dtype, (7, 41))
    first = apply("slice", x, axis=1, start=3, stop=40)
    steps = [apply("slice", first, axis=axis, start=1, stop=7, step=2) for axis in (0, 1)]
    check_on_one(dtype, first, *steps)


@pytest.mark.parametrize("dtype", TYPES)
def test_turned_axes(dtype: DType) -> None:
    """Lanes lie along what is read or what is written; the other side is gathered or scattered."""
    x = tensor("X", dtype, (3, 19, 18))
    turned = ((0, 2, 1), (2, 1, 0), (1, 2, 0))
    check_on_one(dtype, *(apply("transpose", x, axes=axes) for axes in turned))


@pytest.mark.parametrize("dtype", TYPES)
def test_things_side_by_side(dtype: DType) -> None:
    """Each is read only where it is, whatever lies beside it in memory."""
    x, y = tensor("X", dtype, (5, 9)), tensor("Y", dtype, (5, 20))
    both = apply("concatenate", x, y, x, axis=1), apply("stack", x, x, axis=1)
    check_on_one(dtype, *both)


@pytest.mark.parametrize("axis", [0, 1])
def test_things_one_below_another(axis: int) -> None:
    """The same where the lanes of one vector are all of one of them."""
    x, y = tensor("X", DType.F32, (1, 1)), tensor("Y", DType.F32, (40, 1) if axis == 0 else (1, 40))
    beside = apply("concatenate", x, y, axis=axis)
    check(beside, apply("broadcast", beside, shape=(41, 19) if axis == 0 else (18, 41)))


def test_padding() -> None:
    """The number is there, and memory outside is not touched, also with nothing inside."""
    x, y = tensor("X", DType.F32, (4, 17)), tensor("Y", DType.F32, (0, 17))
    padded = [apply("pad", x, axis=axis, low=3, high=18, value=-2) for axis in (0, 1)]
    check(*padded, apply("exp", padded[1]), apply("pad", y, axis=0, low=2, high=1))


def test_reshaped_and_repeated() -> None:
    """Places that are quotients and remainders, and axes of one element."""
    x = tensor("X", DType.F32, (6, 35))
    turned = apply("transpose", apply("reshape", x, shape=(10, 21)), axes=(1, 0))
    check(turned, apply("reshape", turned, shape=(35, 6)), apply("fold", x, axis=1, size=7))
    check(apply("diagonal", apply("slice", x, axis=1, start=3, stop=9)))


def test_gathered_lanes_share_some_places() -> None:
    """Where rows are cut anew and turned, a place may be the same in all lanes that are apart."""
    reshaped = apply("reshape", tensor("X", DType.F32, (5, 9, 6)), shape=(5, 6, 9))
    check(apply("mul", apply("transpose", reshaped, axes=(0, 2, 1)), literal(2)))


def test_positions_as_values() -> None:
    """An index along any axis, as a whole number."""
    check(*(apply("iota", shape=(3, 21), axis=axis, dtype=DType.I32) for axis in (0, 1)))
    check(apply("iota", shape=(40, 70), axis=1, dtype=DType.F64))


def test_large_positions() -> None:
    """A position is a whole number of 64 bits until it is a value."""
    i, j = LoopIndex("i", 3), LoopIndex("j", 18)
    far = affine({i: 2**33, j: 1}, 5)
    target = Buffer("o", DType.I32, (3, 18))
    stage = KernelStage(target, (index(i), index(j)), PositionValue(Remainder(far, 1000)))
    assert_right(one_stage(stage))


def test_every_second_place() -> None:
    """Two indices that lead to one axis fill all of it, by lanes that are apart."""
    i, j = LoopIndex("i", 19), LoopIndex("j", 2)
    x, target = Buffer("X", DType.F32, (2, 19)), Buffer("o", DType.F32, (38,))
    at = (affine({i: 2, j: 1}),)
    assert_right(one_stage(KernelStage(target, at, BufferLoad(x, (index(j), index(i)))), x))


@pytest.mark.parametrize("by", [2, 3, 4, 7])
def test_divided_places_below_zero(by: int) -> None:
    """Rounded down, with what is left not below zero, as everywhere."""
    i = LoopIndex("i", 21)
    x, target = Buffer("X", DType.F32, (7,)), Buffer("o", DType.F32, (21,))
    place = Remainder(index(i, -1, 5), by)
    assert_right(one_stage(KernelStage(target, (index(i),), BufferLoad(x, (place,))), x))
    whole = Affine(((i, -1),), 5)
    counts = Buffer("c", DType.I32, (21,))
    assert_right(one_stage(KernelStage(counts, (index(i),), PositionValue(Quotient(whole, by)))))


def edges(value: Position, low: int, high: int, x: Buffer, size: int) -> Module:
    """Elements in the limits, else a number, and their sum."""
    i, j = LoopIndex("i", size), LoopIndex("j", 3)
    inside = BoundedValue(((value, low, high),), BufferLoad(x, (value,)), Constant(7.0))
    all_, total = Buffer("all", DType.F32, (3, size)), Buffer("total", DType.F32, (3,))
    one = KernelStage(all_, (index(j), index(i)), inside)
    other = KernelStage(total, (index(j),), inside, (i,), ReductionKind.SUM)
    kernel = TileKernel("edges", (x,), (all_, total), (one, other))
    return Module("edges", (x,), (all_, total), (kernel,))


@pytest.mark.parametrize(("size", "machines"), [(3, ["host"]), (16, ["host"]), (21, MACHINES)])
@pytest.mark.parametrize("factor", [1, 2, -1])
def test_edges(size: int, machines: Iterable[str], factor: int) -> None:
    """What is beyond an edge is neither read nor counted, wherever vectors end."""
    x = Buffer("X", DType.F32, (13,))
    i = LoopIndex("i", size)
    place = index(i, factor, -4 if factor > 0 else 8)
    assert_right(edges(place, 0, 13, x, size), machines=[MACHINES[one] for one in machines])


def test_an_element_that_all_lanes_share_and_that_is_not_there() -> None:
    """It is read only where a lane is inside."""
    i, j = LoopIndex("i", 4), LoopIndex("j", 21)
    x, target = Buffer("X", DType.F32, (2,)), Buffer("o", DType.F32, (4, 21))
    place = index(i, 1, -1)
    shared = Apply(Operation.EXP, (BufferLoad(x, (place,)),))
    value = BoundedValue(((place, 0, 2), (index(j), 3, 19)), shared, Constant(0.5))
    assert_right(one_stage(KernelStage(target, (index(i), index(j)), value), x))


def test_edges_within_edges() -> None:
    """Each is asked only inside of the other."""
    i = LoopIndex("i", 37)
    x, y = Buffer("X", DType.F32, (5,)), Buffer("Y", DType.F32, (6,))
    target = Buffer("o", DType.F32, (37,))
    inner = BoundedValue(
        ((index(i, 1, -9), 0, 5),), BufferLoad(x, (index(i, 1, -9),)), Constant(1.0)
    )
    behind = BoundedValue(
        ((index(i, 1, -20), 0, 6),), BufferLoad(y, (index(i, 1, -20),)), Constant(2.0)
    )
    value = BoundedValue(((index(i), 4, 17),), inner, behind)
    assert_right(one_stage(KernelStage(target, (index(i),), value), x, y))


def test_what_has_no_axes() -> None:
    """Arrays of one element are read and written like others."""
    x, y = tensor("X", DType.F32, ()), tensor("Y", DType.F32, (18,))
    check(apply("exp", x), x * y, apply("sum", y, axes=(0,)))


@pytest.mark.parametrize("dtype", TYPES[:4])
def test_an_exponential_is_as_exact_as_its_type_needs(dtype: DType) -> None:
    """Where it becomes a bf16 at once, and nowhere else."""
    x = tensor("X", dtype, (21,))
    module = lower(program(apply("exp", x), apply("exp", x) * x))
    short = f"@aio.exp.v{host().width // 4}bf16" in print_module(module, {}, host()).text
    assert short == (dtype is DType.BF16)
    assert_right(module)


@pytest.mark.parametrize("dtype", TYPES[:2])
def test_an_exponential_of_a_sum_is_as_exact_as_the_sum(dtype: DType) -> None:
    """In 32 bits; that of an input, or of what is no sum, is exact."""
    x, y = tensor("X", dtype, (5, 33)), tensor("Y", dtype, (33, 21))
    z = tensor("Z", dtype, (5, 21))
    wanted = {
        apply("exp", x @ y): True,
        apply("exp", (x @ y) * (x @ y) - 1.0): True,
        apply("exp", apply("select", apply("less", x @ y, z), z, z * z)): False,
        apply("exp", apply("select", apply("less", z, z * z), x @ y, -(x @ y))): True,
        apply("exp", x): False,
        apply("exp", x * x + x): False,
    }
    for term, rounded in wanted.items():
        module = lower(program(term))
        text = print_module(module, {}, host()).text
        assert ("@aio.rounded_exp" in text) == (rounded and dtype is DType.F32)
        assert_right(module)
