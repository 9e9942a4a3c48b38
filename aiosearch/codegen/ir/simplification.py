"""Constructors of expressions that fold constants and leave out operations without effect."""

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
"""What says whether something holds."""
INTEGER_OPERATIONS = frozenset(
    {
        Operation.ADD,
        Operation.SUBTRACT,
        Operation.MULTIPLY,
        Operation.MAXIMUM,
        Operation.MINIMUM,
        Operation.NEGATIVE,
        Operation.ABSOLUTE,
    }
)
"""What of whole numbers is whole."""

_SMALLEST_NORMAL_F32, _LARGEST_F32 = (
    float(np.finfo(np.float32).tiny),
    float(np.finfo(np.float32).max),
)
"""Of normal numbers in 32 bits."""

Limits = Sequence[tuple[Position, int, int]]


def fold_operation(operation: Operation, *arguments: Expression) -> Expression:
    """A function of values; of numbers, the number that it gives where it is one."""
    numbers = [one.value for one in arguments if isinstance(one, Constant)]
    if len(numbers) == len(arguments):
        with np.errstate(all="ignore"):
            found = float(NUMPY_OPERATIONS[operation](*map(np.float64, numbers)))
        if not math.isnan(found):
            return Constant(found)
    match operation, arguments:
        case Operation.DIVIDE | Operation.MULTIPLY, (one, Constant(value=1.0)):
            return one
        case Operation.DIVIDE, (
            Apply(Operation.DIVIDE, (one, Constant(first))),
            Constant(then),
        ) if _is_normal(first * then):
            return fold_operation(Operation.DIVIDE, one, Constant(first * then))
    return Apply(operation, arguments)


def _is_normal(number: float) -> bool:
    """Whether it is about the same in 32 bits: not infinite there, not zero, nor short of bits."""
    return _SMALLEST_NORMAL_F32 <= abs(number) <= _LARGEST_F32


def fold_cast(value: Expression, source: DType, target: DType) -> Expression:
    """A cast. Half types are worked on in 32 bits, so that only one into a half type rounds."""
    if target is DType.BOOL:
        return fold_operation(Operation.NOT_EQUAL, value, Constant(0.0))
    if target is DType.I32 and isinstance(value, Constant) and math.isfinite(value.value):
        return Constant(float(math.trunc(value.value)))
    if source in NARROW and target in HALVES:
        return Round(value, DType.F32)  # there is room for each of them
    if target is DType.F32 and (source in HALVES or isinstance(value, Constant)):
        return value
    return Round(value, target)


def is_made_of_literals(value: Expression) -> bool:
    """Whether it is one of some numbers, or made of such: floats or whole numbers, none can say."""
    match value:
        case Constant():
            return True
        case Apply(Operation.SELECT, (_, one, other)):
            return is_made_of_literals(one) and is_made_of_literals(other)
        case Apply(operation, arguments):
            return operation not in TRUTH_OPERATIONS and all(map(is_made_of_literals, arguments))
        case BoundedValue():
            return is_made_of_literals(value.value) and is_made_of_literals(value.otherwise)
    return False


def is_made_of_integer_literals(value: Expression) -> bool:
    """Whether it is one of some whole numbers, or a whole number made of such."""
    match value:
        case Constant(number):
            return float(number).is_integer() and is_int32(number)
        case Apply(Operation.SELECT, (_, *others)):
            return all(map(is_made_of_integer_literals, others))
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
    """Whether 32 bits have room for it."""
    return -(2**31) <= number < 2**31


def as_integer_literals(value: Expression) -> Expression:
    """What is made of whole literals, as whole numbers, which it is where it meets some."""
    match value:
        case Apply(Operation.SELECT, (where, *others)):
            return Apply(Operation.SELECT, (where, *map(as_integer_literals, others)))
        case Apply(operation, arguments):
            return Apply(operation, tuple(map(as_integer_literals, arguments)))
        case BoundedValue():
            return BoundedValue(
                value.limits, as_integer_literals(value.value), as_integer_literals(value.otherwise)
            )
    return Round(value, DType.I32)


def bounded(limits: Limits, value: Expression, otherwise: Expression) -> Expression:
    """A value inside of limits, as far as they are not kept or missed anyway."""
    left = []
    for at, low, high in limits:
        least, most = bounds(at)
        if least >= high or most < low or low >= high:
            return otherwise
        if least < low or most >= high:
            left.append((at, low, high))
    if isinstance(value, BoundedValue) and value.otherwise == otherwise:
        left, value = [*left, *value.limits], value.value
    return BoundedValue(tuple(left), value, otherwise) if left else value


def map_positions(value: Expression, change: Callable[[Position], Position]) -> Expression:
    """The expression with every position changed."""
    match value:
        case PositionValue():
            return PositionValue(change(value.position))
        case BufferLoad():
            return BufferLoad(value.buffer, tuple(map(change, value.at)))
        case Apply():
            return Apply(
                value.operation, tuple(map_positions(one, change) for one in value.arguments)
            )
        case Round():
            return Round(map_positions(value.value, change), value.dtype)
        case BoundedValue():
            limits = [(change(at), low, high) for at, low, high in value.limits]
            inside, outside = (map_positions(one, change) for one in (value.value, value.otherwise))
            return bounded(limits, inside, outside)
    return value


def map_loads(value: Expression, change: Callable[[BufferLoad], BufferLoad]) -> Expression:
    """The expression with every load changed."""
    match value:
        case BufferLoad():
            return change(value)
        case Apply():
            return Apply(value.operation, tuple(map_loads(one, change) for one in value.arguments))
        case Round():
            return Round(map_loads(value.value, change), value.dtype)
        case BoundedValue():
            inside, outside = (map_loads(one, change) for one in (value.value, value.otherwise))
            return BoundedValue(value.limits, inside, outside)
    return value


def is_cheap_as_load(value: Expression) -> bool:
    """Whether a value is as good as a load: one, rounded, or times something without a place."""
    match value:
        case Constant() | PositionValue() | BufferLoad():
            return True
        case Round():
            return isinstance(value.value, BufferLoad)
        case Apply(operation=Operation.MULTIPLY, arguments=(one, other)):
            return (_single(one) and is_cheap_as_load(other)) or (
                _single(other) and is_cheap_as_load(one)
            )
    return False


def _single(value: Expression) -> bool:
    match value:
        case Constant() | BufferLoad(at=()):
            return True
    return False
