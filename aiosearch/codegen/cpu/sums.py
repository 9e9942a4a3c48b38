"""What is as inexact as a sum of floats is, of which nothing is to be computed more exactly."""

from __future__ import annotations

from collections.abc import Set

from ...tensor.types import EXACT
from ..ir import Apply, Buffer, Constant, Expression, Fold, Kernel, Load, Operation, Round, Within
from .arithmetic import COMPARE


def sums(kernel: Kernel) -> frozenset[Buffer]:
    """What holds sums of floats, or what was made of some."""
    found: set[Buffer] = set()
    for stage in kernel.stages:
        made = stage.fold is Fold.SUM or of_sums(stage.value, found)
        if made and stage.target.dtype not in EXACT:
            found.add(stage.target)
    return frozenset(found)


def of_sums(expression: Expression, known: Set[Buffer]) -> bool:
    """Whether a value is one, or made of some; of values to choose from, whichever is chosen."""
    match expression:
        case Load(buffer):
            return buffer in known
        case Round(value, dtype):
            return dtype not in EXACT and of_sums(value, known)
        case Within(value=value, otherwise=otherwise):
            chosen = [value, otherwise]
        case Apply(Operation.SELECT, (_, *others)):
            chosen = others
        case Apply(operation, arguments):
            return operation not in COMPARE and any(of_sums(one, known) for one in arguments)
        case _:
            return False
    own = [one for one in chosen if not isinstance(one, Constant)]
    return bool(own) and all(of_sums(one, known) for one in own)
