from __future__ import annotations

import math

import pytest

from aiosearch.codegen.ir import (
    Apply,
    BoundedValue,
    Buffer,
    BufferLoad,
    Constant,
    LoopIndex,
    Operation,
    PositionValue,
    Round,
    affine,
    index,
    places,
)
from aiosearch.codegen.ir.affine_maps import shifted
from aiosearch.codegen.ir.simplification import (
    as_integer_literals,
    bounded,
    fold_cast,
    fold_operation,
    is_cheap_as_load,
    is_made_of_integer_literals,
    map_positions,
)
from aiosearch.tensor import DType

ROW = LoopIndex("i", 8)
X = Buffer("X", DType.F16, (8,))
LOAD = BufferLoad(X, (index(ROW),))
SCALAR = BufferLoad(Buffer("s", DType.F32, ()), ())


def test_functions_of_numbers_are_numbers() -> None:
    """But for what is not a number, which no constant is."""
    assert fold_operation(Operation.EXP, Constant(0)) == Constant(1)
    assert fold_operation(Operation.DIVIDE, Constant(1), Constant(0)) == Constant(math.inf)
    assert fold_operation(Operation.SQRT, Constant(-1)) == Apply(Operation.SQRT, (Constant(-1),))


def test_what_changes_nothing_is_left_out() -> None:
    assert fold_operation(Operation.MULTIPLY, LOAD, Constant(1)) == LOAD
    halves = fold_operation(
        Operation.DIVIDE, fold_operation(Operation.DIVIDE, LOAD, Constant(4)), Constant(8)
    )
    assert halves == Apply(Operation.DIVIDE, (LOAD, Constant(32)))


@pytest.mark.parametrize("number", [1e30, 1e-30, -1e20, 2e-20, 0.0, math.inf])
def test_divisions_stay_two_where_no_float_is_what_both_divide_by(number: float) -> None:
    once = Apply(Operation.DIVIDE, (LOAD, Constant(number)))
    twice = Apply(Operation.DIVIDE, (once, Constant(number)))
    assert fold_operation(Operation.DIVIDE, once, Constant(number)) == twice


def test_only_casts_that_may_change_a_value_are_there() -> None:
    """A half is worked on in 32 bits anyway."""
    assert fold_cast(LOAD, DType.F16, DType.F32) == LOAD
    assert fold_cast(LOAD, DType.F16, DType.BF16) == Round(LOAD, DType.BF16)
    assert fold_cast(LOAD, DType.F32, DType.F64) == Round(LOAD, DType.F64)
    assert fold_cast(Constant(-2.5), DType.WEAK, DType.I32) == Constant(-2)
    assert fold_cast(Constant(3), DType.WEAK, DType.BOOL) == Constant(1)


def test_what_is_made_of_whole_literals_may_be_settled_as_whole() -> None:
    chosen = Apply(Operation.SELECT, (SCALAR, Constant(1), Constant(2)))
    doubled = Apply(Operation.MULTIPLY, (chosen, Constant(2)))
    assert is_made_of_integer_literals(doubled)
    assert str(as_integer_literals(doubled)) == "multiply(select(s[], i32(1), i32(2)), i32(2))"
    for other in (Constant(0.5), Constant(2**31), LOAD, Apply(Operation.EXP, (chosen,))):
        assert not is_made_of_integer_literals(Apply(Operation.ADD, (chosen, other)))


def test_limits_that_are_kept_or_missed_anyway_are_not_asked_for() -> None:
    inside, outside = LOAD, Constant(0)
    assert bounded([(index(ROW), 0, 8)], inside, outside) == inside
    assert bounded([(index(ROW), 8, 9)], inside, outside) == outside
    assert bounded([(index(ROW), 0, 0)], inside, outside) == outside
    asked = ((index(ROW), 0, 5),)
    assert bounded([*asked, (index(ROW), 0, 9)], inside, outside) == BoundedValue(
        asked, inside, outside
    )


def test_one_question_within_another_is_one_of_both() -> None:
    """Where the answer outside is the same."""
    first, second = (index(ROW), 0, 5), (index(ROW), 2, 8)
    inner = bounded([first], LOAD, Constant(0))
    assert bounded([second], inner, Constant(0)) == BoundedValue((second, first), LOAD, Constant(0))
    assert isinstance(bounded([second], inner, Constant(1)), BoundedValue)


def test_every_position_is_changed_and_found() -> None:
    value = Apply(Operation.ADD, (Round(LOAD, DType.F16), PositionValue(index(ROW))))
    asked = BoundedValue(((index(ROW), 0, 5),), value, Constant(0))
    moved = map_positions(asked, lambda at: shifted(at, 2))
    assert list(places(asked)) == [index(ROW)] * 3
    assert list(places(moved)) == [affine({ROW: 1}, 2)] * 3


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        (LOAD, True),
        (Constant(2), True),
        (PositionValue(index(ROW)), True),
        (Round(LOAD, DType.BF16), True),
        (Apply(Operation.MULTIPLY, (LOAD, Constant(2))), True),
        (Apply(Operation.MULTIPLY, (SCALAR, LOAD)), True),
        (Apply(Operation.MULTIPLY, (LOAD, LOAD)), False),
        (Apply(Operation.EXP, (LOAD,)), False),
        (Round(Apply(Operation.EXP, (LOAD,)), DType.BF16), False),
    ],
)
def test_what_is_as_good_as_a_load(value: Apply, wanted: bool) -> None:
    """One, rounded, or times a number or a scalar."""
    assert is_cheap_as_load(value) is wanted
