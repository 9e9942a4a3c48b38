"""Constructors of expressions that fold constants and leave out operations without effect.

Constants are folded in float64 and rounded when they are printed: once, where operations in 32
bits would each round.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from ...tensor.types import HALVES, NARROW, DType
from . import (
    Apply,
    BoundedValue,
    BufferLoad,
    Constant,
    Expression,
    Operation,
    Position,
    PositionValue,
    Round,
)
from .affine_maps import bounds
from .semantics import NUMPY_OPERATIONS

TRUTH_OPERATIONS = frozenset(
    {Operation.LESS, Operation.LESS_EQUAL, Operation.EQUAL, Operation.NOT_EQUAL}
)
"""Operations whose result is a truth value."""
INTEGER_OPERATIONS = frozenset(
    {
        Operation.ADD,
        Operation.SUBTRACT,
        Operation.MULTIPLY,
        Operation.MAXIMUM,
        Operation.MINIMUM,
        Operation.NEGATIVE,
        Operation.ABSOLUTE,
        Operation.REM,
    }
)
"""Operations whose result of whole numbers is whole."""

_SMALLEST_NORMAL_F32, _LARGEST_F32 = (
    float(np.finfo(np.float32).tiny),
    float(np.finfo(np.float32).max),
)
"""The smallest and the largest normal number of 32 bits."""

Limits = Sequence[tuple[Position, int, int]]
"""Positions with the first place inside and the first place behind, as in `BoundedValue.limits`."""


def fold_operation(operation: Operation, *arguments: Expression) -> Expression:
    """`Apply` of an operation; of constants the constant that it gives, unless that is NaN."""
    numbers = [argument.value for argument in arguments if isinstance(argument, Constant)]
    if len(numbers) == len(arguments):
        with np.errstate(all="ignore"):
            number = float(NUMPY_OPERATIONS[operation](*map(np.float64, numbers)))
        # A result of NaN is no constant: the operation computes it when it runs.
        if not math.isnan(number):
            return Constant(number)
    match operation, arguments:
        # x·1 and x/1 are x in every bit. x·0 is not folded: it is NaN for infinities.
        case Operation.DIVIDE | Operation.MULTIPLY, (dividend, Constant(value=1.0)):
            return dividend
        case Operation.DIVIDE, (
            Apply(Operation.DIVIDE, (dividend, Constant(first))),
            Constant(then),
            # (x/a)/b is x/(a·b) but for rounding; where a·b overflows or is subnormal in 32 bits it
            # would lose all accuracy, so such pairs stay two divisions.
        ) if _is_normal(first * then):
            return fold_operation(Operation.DIVIDE, dividend, Constant(first * then))
    return Apply(operation, arguments)


def _is_normal(number: float) -> bool:
    """Whether a number is about itself in 32 bits: neither infinite there nor zero, nor short of
    bits.
    """
    return _SMALLEST_NORMAL_F32 <= abs(number) <= _LARGEST_F32


def fold_cast(value: Expression, source: DType, target: DType) -> Expression:
    """`value` of the type `source` cast to `target`. Half types are worked on in 32 bits, so that
    only a cast into a half type rounds.
    """
    if target is DType.BOOL:
        return fold_operation(Operation.NOT_EQUAL, value, Constant(0.0))
    if target is DType.I32 and isinstance(value, Constant) and math.isfinite(value.value):
        return Constant(float(math.trunc(value.value)))
    if source in NARROW and target in HALVES:
        return Round(value, DType.F32)  # f32 has room for every value of a narrow type
    if target is DType.F32 and (source in HALVES or isinstance(value, Constant)):
        return value
    return Round(value, target)


def is_made_of_literals(value: Expression) -> bool:
    """Whether `value` is made of literals alone, so that nothing says whether it is a float or
    whole.
    """
    match value:
        case Constant():
            return True
        case Apply(Operation.SELECT, (_, chosen, alternative)):
            return is_made_of_literals(chosen) and is_made_of_literals(alternative)
        case Apply(operation, arguments):
            return operation not in TRUTH_OPERATIONS and all(map(is_made_of_literals, arguments))
        case BoundedValue():
            return is_made_of_literals(value.value) and is_made_of_literals(value.otherwise)
    return False


def is_made_of_integer_literals(value: Expression) -> bool:
    """Whether `value` is made of whole literals alone, by `INTEGER_OPERATIONS`."""
    match value:
        case Constant(number):
            return float(number).is_integer() and is_int32(number)
        case Apply(Operation.SELECT, (_, *branches)):
            return all(map(is_made_of_integer_literals, branches))
        case Apply(operation, arguments):
            return operation in INTEGER_OPERATIONS and all(
                map(is_made_of_integer_literals, arguments)
            )
        case BoundedValue():
            return is_made_of_integer_literals(value.value) and is_made_of_integer_literals(
                value.otherwise
            )
    return False


def is_int32(number: float) -> bool:
    """Whether 32 bits have room for `number`."""
    return -(2**31) <= number < 2**31


def as_integer_literals(value: Expression) -> Expression:
    """Rounds the literals of `value` to whole numbers, as they are where they meet whole
    numbers.
    """
    match value:
        case Apply(Operation.SELECT, (where, *branches)):
            return Apply(Operation.SELECT, (where, *map(as_integer_literals, branches)))
        case Apply(operation, arguments):
            return Apply(operation, tuple(map(as_integer_literals, arguments)))
        case BoundedValue():
            return BoundedValue(
                value.limits, as_integer_literals(value.value), as_integer_literals(value.otherwise)
            )
    return Round(value, DType.I32)


def bounded(limits: Limits, value: Expression, otherwise: Expression) -> Expression:
    """A value inside of limits, without the limits that always hold; `otherwise` where some limit
    never does.
    """
    left = []
    for at, low, high in limits:
        least, most = bounds(at)
        if least >= high or most < low or low >= high:
            return otherwise
        if least < low or most >= high:
            left.append((at, low, high))
    # Padding of a padding with one fill: a single test of all limits does for both.
    if isinstance(value, BoundedValue) and value.otherwise == otherwise:
        left, value = [*left, *value.limits], value.value
    return BoundedValue(tuple(left), value, otherwise) if left else value


def map_positions(value: Expression, change: Callable[[Position], Position]) -> Expression:
    """The expression with `change` applied to every position."""
    match value:
        case PositionValue():
            return PositionValue(change(value.position))
        case BufferLoad():
            return BufferLoad(value.buffer, tuple(map(change, value.at)))
        case Apply():
            return Apply(
                value.operation, tuple(map_positions(part, change) for part in value.arguments)
            )
        case Round():
            return Round(map_positions(value.value, change), value.dtype)
        case BoundedValue():
            limits = [(change(at), low, high) for at, low, high in value.limits]
            inside, outside = (
                map_positions(part, change) for part in (value.value, value.otherwise)
            )
            return bounded(limits, inside, outside)
    return value


def map_loads(value: Expression, change: Callable[[BufferLoad], BufferLoad]) -> Expression:
    """The expression with `change` applied to every load."""
    match value:
        case BufferLoad():
            return change(value)
        case Apply():
            return Apply(
                value.operation, tuple(map_loads(part, change) for part in value.arguments)
            )
        case Round():
            return Round(map_loads(value.value, change), value.dtype)
        case BoundedValue():
            inside, outside = (map_loads(part, change) for part in (value.value, value.otherwise))
            return BoundedValue(value.limits, inside, outside)
    return value


def is_cheap_as_load(value: Expression) -> bool:
    """Whether `value` is as good as a load: a load, rounded, or times something that does not
    move.
    """
    match value:
        case Constant() | PositionValue() | BufferLoad():
            return True
        case Round():
            return isinstance(value.value, BufferLoad)
        case Apply(operation=Operation.MULTIPLY, arguments=(left, right)):
            return (_single(left) and is_cheap_as_load(right)) or (
                _single(right) and is_cheap_as_load(left)
            )
    return False


def _single(value: Expression) -> bool:
    """Whether a value is a constant or an element of an array without axes."""
    match value:
        case Constant() | BufferLoad(at=()):
            return True
    return False
