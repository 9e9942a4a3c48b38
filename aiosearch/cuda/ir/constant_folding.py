"""What a pure operation gives where its operands say so: constants, identities."""

from __future__ import annotations

from collections.abc import Sequence

from .operations import ConstantOperand, Operand
from .types import ScalarType

_NEUTRAL = {"add": 0, "sub": 0, "or": 0, "xor": 0, "shl": 0, "shr": 0, "mul": 1, "div": 1}
_COMMUTES = frozenset({"add", "mul", "or", "xor", "and"})


def folded(name: str, type: ScalarType, operands: Sequence[Operand]) -> Operand | None:
    """The operand or constant that the operation is equal to, if that is known.

    `folded("add", I32, (x, 0))` is x. Sums of floats with zero stay: -0 + 0 is not -0.
    """
    if operands and all(isinstance(entry, ConstantOperand) for entry in operands):
        return _constant(
            name, type, [entry for entry in operands if isinstance(entry, ConstantOperand)]
        )
    if name == "select":
        condition, left, right = operands
        if isinstance(condition, ConstantOperand):
            return left if condition.value else right
        return left if left == right else None
    if name in ("and", "or") and type is ScalarType.BOOL:
        return _logical(name, operands[0], operands[1])
    if name == "ptradd":
        return operands[0] if _is(operands[1], 0) else None
    if len(operands) == 2 and type.is_integer:
        return _neutral(name, type, operands[0], operands[1])
    return None


def _logical(name: str, left: Operand, right: Operand) -> Operand | None:
    for first, second in ((left, right), (right, left)):
        if isinstance(first, ConstantOperand):
            absorbs = bool(first.value) == (name == "or")
            return first if absorbs else second
    return left if left == right else None


def _neutral(name: str, type: ScalarType, left: Operand, right: Operand) -> Operand | None:
    if name in _NEUTRAL and _is(right, _NEUTRAL[name]):
        return left
    if name in _COMMUTES and name in _NEUTRAL and _is(left, _NEUTRAL[name]):
        return right
    if name in ("mul", "and") and (_is(left, 0) or _is(right, 0)):
        return ConstantOperand(0, type)
    return None


def _is(operand: Operand, value: int) -> bool:
    return isinstance(operand, ConstantOperand) and operand.value == value


def _constant(
    name: str, type: ScalarType, operands: list[ConstantOperand]
) -> ConstantOperand | None:
    """Computes on constants as the interpreter does, so that both agree to the last bit."""
    if type is ScalarType.PTR:
        return None
    if name in ("div", "rem") and not type.is_float and not operands[1].value:
        return None
    from ..interpreter import arithmetic

    arrays = [arithmetic.array(entry) for entry in operands]
    try:
        result = arithmetic.apply(name, type, arrays)
    except KeyError:
        return None
    return ConstantOperand(result.reshape(()).item(), type)
