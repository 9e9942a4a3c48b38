"""Expressions made the short way: numbers are computed, what changes nothing is left out."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from ..tensor.types import HALVES, NARROW, DType
from .ir import (
    Apply,
    Constant,
    Count,
    Expression,
    Load,
    Operation,
    Position,
    Round,
    Within,
)
from .meanings import MEANINGS
from .positions import bounds

TRUTHS = frozenset({Operation.LESS, Operation.LESS_EQUAL, Operation.EQUAL, Operation.NOT_EQUAL})
"""What says whether something holds."""
WHOLE = frozenset(
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

_LEAST, _MOST = float(np.finfo(np.float32).tiny), float(np.finfo(np.float32).max)
"""Of normal numbers in 32 bits."""

Limits = Sequence[tuple[Position, int, int]]


def applied(operation: Operation, *arguments: Expression) -> Expression:
    """A function of values; of numbers, the number that it gives where it is one."""
    numbers = [one.value for one in arguments if isinstance(one, Constant)]
    if len(numbers) == len(arguments):
        with np.errstate(all="ignore"):
            found = float(MEANINGS[operation](*map(np.float64, numbers)))
        if not math.isnan(found):
            return Constant(found)
    match operation, arguments:
        case Operation.DIVIDE | Operation.MULTIPLY, (one, Constant(value=1.0)):
            return one
        case Operation.DIVIDE, (
            Apply(Operation.DIVIDE, (one, Constant(first))),
            Constant(then),
        ) if _is_normal(first * then):
            return applied(Operation.DIVIDE, one, Constant(first * then))
    return Apply(operation, arguments)


def _is_normal(number: float) -> bool:
    """Whether it is about the same in 32 bits: not infinite there, not zero, nor short of bits."""
    return _LEAST <= abs(number) <= _MOST


def converted(value: Expression, source: DType, target: DType) -> Expression:
    """A cast. Half types are worked on in 32 bits, so that only one into a half type rounds."""
    if target is DType.BOOL:
        return applied(Operation.NOT_EQUAL, value, Constant(0.0))
    if target is DType.I32 and isinstance(value, Constant) and math.isfinite(value.value):
        return Constant(float(math.trunc(value.value)))
    if source in NARROW and target in HALVES:
        return Round(value, DType.F32)  # there is room for each of them
    if target is DType.F32 and (source in HALVES or isinstance(value, Constant)):
        return value
    return Round(value, target)


def of_literals(value: Expression) -> bool:
    """Whether it is one of some numbers, or made of such: floats or whole numbers, none can say."""
    match value:
        case Constant():
            return True
        case Apply(Operation.SELECT, (_, one, other)):
            return of_literals(one) and of_literals(other)
        case Apply(operation, arguments):
            return operation not in TRUTHS and all(map(of_literals, arguments))
        case Within():
            return of_literals(value.value) and of_literals(value.otherwise)
    return False


def of_whole_literals(value: Expression) -> bool:
    """Whether it is one of some whole numbers, or a whole number made of such."""
    match value:
        case Constant(number):
            return float(number).is_integer() and is_int32(number)
        case Apply(Operation.SELECT, (_, *others)):
            return all(map(of_whole_literals, others))
        case Apply(operation, arguments):
            return operation in WHOLE and all(map(of_whole_literals, arguments))
        case Within():
            return of_whole_literals(value.value) and of_whole_literals(value.otherwise)
    return False


def is_int32(number: float) -> bool:
    """Whether 32 bits have room for it."""
    return -(2**31) <= number < 2**31


def settled(value: Expression) -> Expression:
    """What is made of whole literals, as whole numbers, which it is where it meets some."""
    match value:
        case Apply(Operation.SELECT, (where, *others)):
            return Apply(Operation.SELECT, (where, *map(settled, others)))
        case Apply(operation, arguments):
            return Apply(operation, tuple(map(settled, arguments)))
        case Within():
            return Within(value.limits, settled(value.value), settled(value.otherwise))
    return Round(value, DType.I32)


def within(limits: Limits, value: Expression, otherwise: Expression) -> Expression:
    """A value inside of limits, as far as they are not kept or missed anyway."""
    left = []
    for at, low, high in limits:
        least, most = bounds(at)
        if least >= high or most < low or low >= high:
            return otherwise
        if least < low or most >= high:
            left.append((at, low, high))
    if isinstance(value, Within) and value.otherwise == otherwise:
        left, value = [*left, *value.limits], value.value
    return Within(tuple(left), value, otherwise) if left else value


def relocated(value: Expression, change: Callable[[Position], Position]) -> Expression:
    """The expression with every position changed."""
    match value:
        case Count():
            return Count(change(value.position))
        case Load():
            return Load(value.buffer, tuple(map(change, value.at)))
        case Apply():
            return Apply(value.operation, tuple(relocated(one, change) for one in value.arguments))
        case Round():
            return Round(relocated(value.value, change), value.dtype)
        case Within():
            limits = [(change(at), low, high) for at, low, high in value.limits]
            inside, outside = (relocated(one, change) for one in (value.value, value.otherwise))
            return within(limits, inside, outside)
    return value


def reloaded(value: Expression, change: Callable[[Load], Load]) -> Expression:
    """The expression with every load changed."""
    match value:
        case Load():
            return change(value)
        case Apply():
            return Apply(value.operation, tuple(reloaded(one, change) for one in value.arguments))
        case Round():
            return Round(reloaded(value.value, change), value.dtype)
        case Within():
            inside, outside = (reloaded(one, change) for one in (value.value, value.otherwise))
            return Within(value.limits, inside, outside)
    return value


def simple(value: Expression) -> bool:
    """Whether a value is as good as a load: one, rounded, or times something without a place."""
    match value:
        case Constant() | Count() | Load():
            return True
        case Round():
            return isinstance(value.value, Load)
        case Apply(operation=Operation.MULTIPLY, arguments=(one, other)):
            return (_single(one) and simple(other)) or (_single(other) and simple(one))
    return False


def _single(value: Expression) -> bool:
    match value:
        case Constant() | Load(at=()):
            return True
    return False
