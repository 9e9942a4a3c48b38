"""What the machine code makes of numbers: every operator, every type, and what is no number."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from testkit.kernels.error_bounds import assert_right
from testkit.kernels.native_run import KINDS, MACHINES, drawn, program, run
from testkit.programs.every_operator import SPECIAL, operands, pointwise

from aiosearch.codegen.ir import (
    Apply,
    Buffer,
    BufferLoad,
    Constant,
    Expression,
    KernelStage,
    LoopIndex,
    Module,
    Operation,
    PositionValue,
    Round,
    TileKernel,
    index,
)
from aiosearch.codegen.lower.lowering import lower
from aiosearch.codegen.native.machine import CpuMachine
from aiosearch.codegen.passes.kernel_fusion import fuse_kernels
from aiosearch.tensor import DType, apply, literal, tensor
from aiosearch.tensor.types import NARROW

WHERE = [
    (DType.F64, "host"),
    (DType.F32, "without AVX-512"),
    (DType.BF16, "without AVX-512"),
    (DType.F16, "portable"),
]


@pytest.mark.parametrize(("dtype", "machine"), WHERE)
def test_operators_on_elements(dtype: DType, machine: str) -> None:
    """Each is right to within its rounding, and infinite or no number where the referee is.

    Among the operands are ordinary numbers and all pairs of awkward ones.
    """
    pairs = operands()
    module = lower(program(*pointwise(dtype, pairs.shape[1])))
    inputs = [one.astype(KINDS[dtype]) for one in pairs]
    assert_right(module, inputs, machines=[MACHINES[machine]])


@pytest.mark.parametrize(
    ("dtype", "machine"), [*zip([DType.F64, DType.F32, DType.F16], MACHINES, strict=True)]
)
@pytest.mark.parametrize("axis", [0, 1])
def test_folds_of_what_is_no_number(dtype: DType, machine: str, axis: int) -> None:
    """One NaN makes a sum and an extreme NaN, wherever it lies; infinities are extremes."""
    x = tensor("X", dtype, (23, 21))
    module = lower(program(*(apply(name, x, axes=(axis,)) for name in ("sum", "max", "min"))))
    values = drawn(module)[0].copy()
    for number, odd in enumerate((*SPECIAL[:3], SPECIAL[:3])):
        where = (number + 16, number) if axis else (number, number + 16)
        values[where], values[-1 - number, -1 - number] = np.resize(odd, 2)
    assert_right(module, [values], machines=[MACHINES[machine]])


@pytest.mark.parametrize("source", list(KINDS))
@pytest.mark.parametrize("machine", ["host", "portable"])
def test_casts(source: DType, machine: str) -> None:
    """A value of any type becomes one of any other, with instructions for it or without."""
    x = tensor("X", source, (32,))
    targets = KINDS.keys() - NARROW
    module = lower(program(*(apply("cast", x, dtype=target) for target in sorted(targets))))
    assert_right(module, machines=[MACHINES[machine]])


@pytest.mark.parametrize("dtype", [DType.I8, DType.U8])
@pytest.mark.parametrize("machine", MACHINES.values(), ids=MACHINES)
def test_every_number_of_eight_bits(dtype: DType, machine: CpuMachine) -> None:
    """As it is, and as a float."""
    values = np.arange(256).astype(np.uint8).view(KINDS[dtype])
    x = tensor("X", dtype, values.shape)
    made = [x, *(apply("cast", x, dtype=to) for to in (DType.I32, DType.F32, DType.BF16))]
    found = run(lower(program(*made)), [values], machine=machine)
    assert all(np.array_equal(one.astype(np.int32), values.astype(np.int32)) for one in found)


@pytest.mark.parametrize("machine", MACHINES.values(), ids=MACHINES)
def test_casts_to_whole_numbers_stay_within_them(machine: CpuMachine) -> None:
    """Towards zero; what is too large is the largest, and what is no number is zero, as in XLA."""
    x = tensor("X", DType.F32, (8,))
    values = np.array([1.9, -1.9, 3e9, -3e9, np.inf, -np.inf, np.nan, 2.5], np.float32)
    found = run(lower(program(apply("cast", x, dtype=DType.I32))), [values], machine=machine)[0]
    largest, least = 2**31 - 1, -(2**31)
    assert found.tolist() == [1, -1, largest, least, largest, least, 0, 2]


def test_whole_numbers() -> None:
    """They are added, multiplied and compared as such, and wrap around as in XLA."""
    x, y = (tensor(name, DType.I32, (18,)) for name in "XY")
    names = ("add", "sub", "mul", "maximum", "minimum", "less", "equal", "not_equal")
    found = [apply(name, x, y) for name in names]
    assert_right(
        lower(program(*found, apply("neg", x), apply("abs", x), apply("max", x, axes=(0,))))
    )
    large = np.full(18, 2**31 - 1, np.int32)
    one = np.ones(18, np.int32)
    assert run(lower(program(x + y)), [large, one])[0].tolist() == [-(2**31)] * 18


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("least", [-(2**31), -(2**31) + 1, 2**31 - 1])
def test_the_least_of_whole_numbers_is_found_whatever_it_is(least: int, axis: int) -> None:
    """Of the least of all, there is no negative."""
    found = lower(program(apply("min", tensor("X", DType.I32, (21, 21)), axes=(axis,))))
    values = np.full((21, 21), 2**31 - 1, np.int32)
    values[3, 20] = least
    np.testing.assert_array_equal(run(found, [values])[0], values.min(axis))


def test_truth_values() -> None:
    """They are compared, chosen by and stored as one byte, zero or one."""
    x, y = (tensor(name, DType.BOOL, (18,)) for name in "XY")
    found = [apply(name, x, y) for name in ("less", "less_equal", "equal", "not_equal")]
    assert_right(lower(program(*found, apply("select", x, x, y))))


def single(operation: Operation, dtype: DType, *arguments: Any) -> Module:
    """A stage of one element."""
    target = Buffer("o", dtype, ())
    stage = KernelStage(target, (), Apply(operation, arguments))
    return Module("single", (), (target,), (TileKernel("single", (), (target,), (stage,)),))


def test_the_sign_of_zero_is_kept() -> None:
    """A number -0.0 is not the whole number 0."""
    module = single(Operation.MULTIPLY, DType.F32, Constant(-0.0), Constant(1.5))
    assert np.signbit(run(module, [])[0])


def test_whole_numbers_in_double_precision() -> None:
    """A quotient of whole numbers that is stored in 64 bits has all of them."""
    module = single(Operation.DIVIDE, DType.F64, Constant(1.0), Constant(3.0))
    assert run(module, [])[0] == 1 / 3


def test_double_precision_on_the_way() -> None:
    """Numbers have it too where it is neither read nor written."""
    wide = apply("cast", tensor("X", DType.F32, (40,)), dtype=DType.F64)
    tenths = apply("div", wide, literal(0.1))
    module = lower(program(apply("cast", apply("floor", tenths), dtype=DType.I32)))
    x = np.arange(40).astype(np.float32)
    np.testing.assert_array_equal(run(module, [x])[0], np.floor(x.astype(float) / 0.1))


def test_numbers_take_the_precision_of_what_they_meet() -> None:
    """A tenth in 32 bits is above one in 64, and not above one in 32, whatever else is computed."""
    at = (index(LoopIndex("i", 3)),)
    x, output = Buffer("x", DType.F32, (3,)), Buffer("o", DType.F64, (3,))
    narrow = Apply(Operation.LESS_EQUAL, (BufferLoad(x, at), Constant(0.1)))
    wide = Apply(Operation.LESS_EQUAL, (Round(BufferLoad(x, at), DType.F64), Constant(0.1)))
    both = Apply(Operation.ADD, (narrow, Apply(Operation.MULTIPLY, (wide, Constant(2.0)))))
    kernel = TileKernel("tenths", (x,), (output,), (KernelStage(output, at, both),))
    (found,) = run(Module("tenths", (x,), (output,), (kernel,)), [np.float32([0.0, 0.1, 1.0])])
    np.testing.assert_array_equal(found, [3.0, 1.0, 0.0])


@pytest.mark.parametrize("target", [DType.F64, DType.F32, DType.F16])
def test_types_that_meet(target: DType) -> None:
    """Operands of all types at once are computed in the widest that a stage has to do with."""
    i, at = LoopIndex("i", 21), (index(LoopIndex("i", 21)),)
    inputs = tuple(Buffer(f"x{one}", one, (21,)) for one in KINDS)
    f64, f32, f16, bf16, i32, i8, u8, truth = (BufferLoad(one, at) for one in inputs)
    parts = (
        Apply(Operation.SELECT, (truth, i8, u8)),
        Apply(Operation.MULTIPLY, (f32, f16)),
        Apply(Operation.SELECT, (truth, bf16, i32)),
        Apply(Operation.EXP, (Apply(Operation.MULTIPLY, (i32, Constant(0.125))),)),
        Apply(Operation.LESS, (f64 if target is DType.F64 else f32, Constant(0.5))),
    )
    value: Expression = PositionValue(index(i, 2, 1))
    for one in parts:
        value = Apply(Operation.ADD, (value, one))
    output = Buffer("o", target, (21,))
    stage = KernelStage(output, at, value)
    assert_right(
        Module("met", inputs, (output,), (TileKernel("met", inputs, (output,), (stage,)),))
    )


NORMAL = [2.0**-126, 2.0**-103, 2.0**-102, 1.0, 3.0, 1.9999999, 2.0**102, 2.0**103, 3.0e38]
ODD = [0.0, -0.0, np.inf, -np.inf, np.nan, -1e-30, -7.0]


@pytest.mark.parametrize("machine", [name for name, one in MACHINES.items() if one.fma])
def test_many_divided_by_one_are_rounded_as_quotients_are(machine: str) -> None:
    """To the last bit unless they, or what is divided, are very small: to the last but one then."""
    draw = np.random.default_rng(0)
    divisors = [*NORMAL, *ODD, *draw.standard_normal(500), *np.exp(draw.uniform(-80, 80, 500))]
    y = np.array(divisors, np.float32)[:, None]
    some = [*NORMAL, *ODD, *draw.standard_normal(2000), *np.exp(draw.uniform(-80, 80, 2000))]
    x = np.broadcast_to(np.array(some, np.float32), (len(y), len(some)))
    given = tensor("X", DType.F32, x.shape), tensor("Y", DType.F32, y.shape)
    (found,) = run(lower(program(given[0] / given[1])), [x, y], machine=MACHINES[machine])
    with np.errstate(all="ignore"):
        wanted = x / y
    known = ~(np.abs(wanted) < 2.0**-126) & ~(np.abs(x) < 2.0**-78) | (wanted == 0)
    np.testing.assert_array_equal(found[known], wanted[known])
    assert (np.signbit(found) == np.signbit(wanted))[~np.isnan(wanted)].all()
    np.testing.assert_allclose(found, wanted, rtol=2.0**-23, atol=2.0**-148)


@pytest.mark.parametrize("machine", MACHINES)
def test_what_a_product_is_subtracted_from_is_rounded_as_the_product_is(machine: str) -> None:
    """Nothing is left of a row that is its own maximum all along, and no rounding either."""
    x = np.full((4, 40), -1e9, np.float32)
    scaled = tensor("X", DType.F32, x.shape) * literal(0.1767767)
    module = fuse_kernels(lower(program(scaled - apply("max", scaled, axes=(1,), keep=True))))
    (found,) = run(module, [x], machine=MACHINES[machine])
    np.testing.assert_array_equal(found, np.zeros_like(x))


@pytest.mark.parametrize("machine", MACHINES)
def test_what_is_computed_in_two_places_is_the_same_in_both(machine: str) -> None:
    """Scores with a bias less the largest of them, where products are wanted elsewhere, too."""
    x, bias = (
        np.random.default_rng(at).normal(0, 1e7, (4, 40)).astype(np.float32) for at in (0, 1)
    )
    scaled = tensor("X", DType.F32, x.shape) * literal(0.1767767)
    scores = scaled + tensor("M", DType.F32, x.shape)
    for less in (scores - (most := apply("max", scores, axes=(1,), keep=True)), scores + -most):
        gated = apply("exp", less) * scaled
        module = fuse_kernels(lower(program(less, gated)))
        found, _ = run(module, [x, bias], machine=MACHINES[machine])
        np.testing.assert_array_equal(found.max(axis=1), np.zeros(4, np.float32))


@pytest.mark.parametrize("machine", [name for name, one in MACHINES.items() if one.fma])
@pytest.mark.parametrize("number", [3, -7, 8, 128**0.5, 1e-38, 3e38])
def test_many_divided_by_a_number_are_rounded_as_quotients_are(number: float, machine: str) -> None:
    """Maps, and what folds are made of."""
    drawn = np.random.default_rng(0).standard_normal((2, 2000)).astype(np.float32)
    drawn[0, : len(NORMAL) + len(ODD)] = [*NORMAL, *ODD]
    given = tensor("X", DType.F32, drawn.shape)
    quotient = given / literal(number)
    most = apply("max", quotient, axes=(1,))
    found = run(lower(program(quotient, most)), [drawn], machine=MACHINES[machine])
    with np.errstate(all="ignore"):
        wanted = drawn / np.float32(number)
    known = ~(np.abs(wanted) < 2.0**-126) | (wanted == 0)
    np.testing.assert_array_equal(found[0][known], wanted[known])
    np.testing.assert_array_equal(found[1], wanted.max(axis=1))
    assert np.isfinite(found[1][1])


@pytest.mark.parametrize("machine", [name for name, one in MACHINES.items() if one.fma])
@pytest.mark.parametrize("name", ["rooted", "plain"])
def test_quotients_by_sums_are_as_exact_as_sums(machine: str, name: str) -> None:
    """To the last bits, whatever the sum is: zero, nothing finite, near the ends of the range."""
    draw = np.random.default_rng(1)
    divisors = [*NORMAL, *ODD, 1e-40, *np.exp(draw.uniform(-80, 80, 500))]
    y = np.stack([np.array(divisors, np.float32), np.zeros(len(divisors), np.float32)], axis=1)
    some = [*NORMAL, *ODD, *draw.standard_normal(500), *np.exp(draw.uniform(-80, 80, 500))]
    x = np.broadcast_to(np.array(some, np.float32), (len(y), len(some)))
    given = tensor("X", DType.F32, x.shape), tensor("Y", DType.F32, y.shape)
    total = apply("reshape", apply("sum", given[1], axes=(1,)), shape=(len(y), 1))
    divided = given[0] / (apply("sqrt", total) if name == "rooted" else total)
    (found,) = run(fuse_kernels(lower(program(divided))), [x, y], machine=MACHINES[machine])
    with np.errstate(all="ignore"):
        own = y.sum(axis=1, keepdims=True)
        wanted = x / (np.sqrt(own) if name == "rooted" else own)
    large = ~(np.abs(x) < 2.0**-78) | (x == 0)
    np.testing.assert_allclose(found[large], wanted[large], rtol=2.0**-22, atol=2.0**-126)
    assert (np.signbit(found) == np.signbit(wanted))[~np.isnan(wanted)].all()
