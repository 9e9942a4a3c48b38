"""Every operator, awkward sizes and what is no number, by both printers, against the referee."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from testkit.kernels.error_bounds import Referee, assert_right
from testkit.kernels.lowered import difference
from testkit.kernels.native_run import KINDS, drawn, program
from testkit.kernels.pallas_run import results
from testkit.programs.every_operator import (
    IN_GRAPHS,
    POINTWISE,
    SIZES,
    SPECIAL,
    names,
    of_size,
    operands,
    others,
    pointwise,
)

from aiosearch.codegen.lower.lowering import lower
from aiosearch.codegen.lower.value_graph import LoweringError
from aiosearch.codegen.native.machine import host
from aiosearch.tensor import OPERATORS, DType, Program, apply, tensor

TYPES = (DType.F32, DType.BF16, DType.F16)


def right_by_both(made: Program, given: Sequence[Any] | None = None) -> None:
    """The module means what the program does, and both printers' kernels compute it.

    None is let off as one of which results mean nothing.
    """
    assert not difference(made)
    module = lower(made)
    given = drawn(module) if given is None else given
    referee = Referee(module, given)
    assert referee.judges
    assert_right(module, given, machines=[host()])
    error = referee.wrong(results(module, given))
    assert not error, error


def test_no_operator_is_left_out() -> None:
    named = {*POINTWISE, *names(others(DType.F32)), *IN_GRAPHS}
    assert named == set(OPERATORS)


def test_many_places_of_a_long_axis_are_refused() -> None:
    table, places = tensor("T", DType.F32, (64, 3)), tensor("I", DType.I32, (5, 1))
    with pytest.raises(LoweringError, match="goes through 64 places for each of 5"):
        lower(program(apply("take", table, places, axis=0)))


@pytest.mark.parametrize("dtype", TYPES)
def test_operators_on_elements(dtype: DType) -> None:
    """To within their roundings, and infinite or no number where the referee is."""
    pairs = operands()
    made = program(*pointwise(dtype, pairs.shape[1]))
    right_by_both(made, [one.astype(KINDS[dtype]) for one in pairs])


@pytest.mark.parametrize("dtype", TYPES)
def test_all_other_operators(dtype: DType) -> None:
    """Moves, folds, products and convolutions."""
    right_by_both(program(*others(dtype)))


@pytest.mark.parametrize("dtype", [DType.F32, DType.BF16])
def test_all_other_operators_on_what_is_no_number(dtype: DType) -> None:
    """Infinities and NaN here and there; where sums meet them, the referee says what comes out."""
    made = program(*others(dtype))
    given = drawn(lower(made))
    for one in given:
        flat = one.reshape(-1)
        flat[:: len(flat) // 3] = np.resize(SPECIAL[:3], len(flat[:: len(flat) // 3]))
    right_by_both(made, given)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("dtype", [DType.F32, DType.BF16])
def test_sizes(dtype: DType, size: int) -> None:
    """Nothing, one, few, and what no tile divides."""
    right_by_both(program(*of_size(dtype, size)))


def test_weights_of_eight_bits() -> None:
    """They are moved as they are and computed with as what they are cast to."""
    x, scale = tensor("X", DType.BF16, (20, 32)), tensor("S", DType.BF16, (1, 24))
    signed, unsigned = tensor("W", DType.I8, (32, 24)), tensor("V", DType.U8, (32, 24))
    turned = apply("transpose", unsigned, axes=(1, 0))
    made = program(
        x @ apply("cast", signed, dtype=DType.BF16),
        x @ (apply("cast", signed, dtype=DType.BF16) * scale),
        apply("slice", turned, axis=0, start=1, stop=22, step=3),
        apply(
            "less", apply("cast", signed, dtype=DType.I32), apply("cast", unsigned, dtype=DType.I32)
        ),
        apply("sum", apply("cast", unsigned, dtype=DType.I32), axes=(0,)),
        apply("concatenate", signed, signed, axis=1),
    )
    right_by_both(made)
    _, *most = np.random.default_rng(0).integers(0, 256, (3, 32, 24)).astype(np.uint8)
    values = dict(zip("WV", (most[0].view(np.int8), most[1]), strict=True))
    module = lower(made)
    others = zip(module.inputs, drawn(module), strict=True)
    right_by_both(made, [values.get(one.name, value) for one, value in others])
