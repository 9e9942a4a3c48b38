"""What a pure operation gives where its operands say so: constants, identities."""

from __future__ import annotations

from collections.abc import Sequence

from .operations import Constant, Operand
from .types import Scalar

_NEUTRAL = {"add": 0, "sub": 0, "or": 0, "xor": 0, "shl": 0, "shr": 0, "mul": 1, "div": 1}
_COMMUTES = frozenset({"add", "mul", "or", "xor", "and"})


def folded(name: str, type: Scalar, operands: Sequence[Operand]) -> Operand | None:
    """The operand or constant that the operation is equal to, if that is known.

    `folded("add", I32, (x, 0))` is x. Sums of floats with zero stay: -0 + 0 is not -0.
    """
    if operands and all(isinstance(each, Constant) for each in operands):
        return _constant(name, type, [each for each in operands if isinstance(each, Constant)])
    if name == "select":
        condition, one, other = operands
        if isinstance(condition, Constant):
            return one if condition.value else other
        return one if one == other else None
    if name in ("and", "or") and type is Scalar.BOOL:
        return _logical(name, operands[0], operands[1])
    if name == "ptradd":
        return operands[0] if _is(operands[1], 0) else None
    if len(operands) == 2 and type.is_integer:
        return _neutral(name, type, operands[0], operands[1])
    return None


def _logical(name: str, one: Operand, other: Operand) -> Operand | None:
    for first, second in ((one, other), (other, one)):
        if isinstance(first, Constant):
            absorbs = bool(first.value) == (name == "or")
            return first if absorbs else second
    return one if one == other else None


def _neutral(name: str, type: Scalar, one: Operand, other: Operand) -> Operand | None:
    if name in _NEUTRAL and _is(other, _NEUTRAL[name]):
        return one
    if name in _COMMUTES and name in _NEUTRAL and _is(one, _NEUTRAL[name]):
        return other
    if name in ("mul", "and") and (_is(one, 0) or _is(other, 0)):
        return Constant(0, type)
    return None


def _is(operand: Operand, value: int) -> bool:
    return isinstance(operand, Constant) and operand.value == value


def _constant(name: str, type: Scalar, operands: list[Constant]) -> Constant | None:
    """Computes on constants as the interpreter does, so that both agree to the last bit."""
    if type is Scalar.PTR:
        return None
    if name in ("div", "rem") and not type.is_float and not operands[1].value:
        return None
    from ..interpreter import arithmetic

    arrays = [arithmetic.array(each) for each in operands]
    try:
        result = arithmetic.apply(name, type, arrays)
    except KeyError:
        return None
    return Constant(result.reshape(()).item(), type)
