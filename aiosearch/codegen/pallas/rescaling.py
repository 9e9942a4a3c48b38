"""Online softmax: how sums rescale when the running maximum grows.

Such a value has factors exp(c * (x - maximum)), where the maximum is that of x, and nothing else of
it depends on the maximum. So it may be added up with a maximum of what was seen so far, and be
scaled whenever that grows. Where x is minus infinity it adds nothing, whatever the maximum is.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from ...tensor.types import EXACT, HALVES
from .. import ir
from .nodes import TileNode

_LINEAR_OPERATIONS = {
    ir.Operation.ADD,
    ir.Operation.SUBTRACT,
    ir.Operation.NEGATIVE,
    ir.Operation.ABSOLUTE,
    ir.Operation.MAXIMUM,
    ir.Operation.MINIMUM,
}
"""What scales as its operands do, if they do it alike."""


class RescalingWeights:
    """By how much nodes scale with one maximum."""

    def __init__(self, most: TileNode) -> None:
        self._most = most
        self._known: dict[TileNode, float | None] = {}

    def of(self, node: TileNode) -> float | None:
        """The w of a node's exp(w * maximum); 0 where that changes nothing, None where more."""
        if node is self._most:
            return None
        if node not in self._known:
            self._known[node] = self._folded(node)
        return self._known[node]

    def _folded(self, node: TileNode) -> float | None:
        """What is folded has to be scaled alike everywhere."""
        found = self._value(node.value, node)
        return None if found and self._most.indices & set(node.folded) else found

    def _value(self, value: ir.Expression, node: TileNode) -> float | None:
        match value:
            case ir.BufferLoad() if value in node.reads:
                return self.of(node.reads[value])
            case ir.Round():
                found = self._value(value.value, node)
                whole = value.dtype in EXACT
                return None if whole and found else found
            case ir.BoundedValue():
                return self._everywhere([value.value, value.otherwise], node)
            case ir.Apply():
                return self._applied(value, node)
        return 0.0

    def _applied(self, value: ir.Apply, node: TileNode) -> float | None:
        if value.operation is ir.Operation.EXP:
            return self._exponent(value.arguments[0], node)
        if value.operation in _LINEAR_OPERATIONS:
            return self._alike(value.arguments, node)
        found = [self._value(argument, node) for argument in value.arguments]
        if any(one is None for one in found):
            return None
        match value.operation, found:
            case ir.Operation.MULTIPLY, (float(one), float(other)):
                return one + other
            case ir.Operation.DIVIDE, (float(one), float(other)):
                return one - other
            case ir.Operation.SELECT, (0.0, _, _):
                return self._everywhere(value.arguments[1:], node)
        return None if any(found) else 0.0

    def _alike(self, values: Iterable[ir.Expression], node: TileNode) -> float | None:
        """What all of them have; a zero may have any."""
        found = {self._value(one, node) for one in values if one != ir.Constant(0)}
        return found.pop() if len(found) == 1 else None if found else 0.0

    def _everywhere(self, values: Iterable[ir.Expression], node: TileNode) -> float | None:
        """Only what does not scale at all may be left out in places.

        Of what does, a row whose maximum is minus infinity is no number, wherever it is asked for,
        and so is every sum of it. A sum of those places alone where it is not asked for is one.
        """
        found = [self._value(one, node) for one in values]
        return None if any(one != 0 for one in found) else 0.0

    def _exponent(self, value: ir.Expression, node: TileNode) -> float | None:
        """What an exponent changes by as the maximum does."""
        match value:
            case ir.Apply(operation=ir.Operation.SUBTRACT, arguments=(x, ir.BufferLoad() as load)):
                if x == self._most.value and node.reads.get(load) is self._most:
                    return -1.0
            case ir.Apply(operation=ir.Operation.MULTIPLY, arguments=(x, ir.Constant(factor))):
                return _times(self._exponent(x, node), factor)
            case ir.Apply(operation=ir.Operation.MULTIPLY, arguments=(ir.Constant(factor), x)):
                return _times(self._exponent(x, node), factor)
        return 0.0 if self._value(value, node) == 0 else None


def _times(weight: float | None, factor: float) -> float | None:
    if not weight:
        return weight
    return weight * factor if 0 < factor < math.inf else None


def online_weight(total: TileNode, most: TileNode) -> float | None:
    """How a sum scales with a maximum, where both may be folded at once; None where they may not.

    A maximum that is rounded is not what is seen of it on the way; and what is divided by such
    values would have to be scaled up from nothing.
    """
    if (total.fold, most.fold) != (ir.ReductionKind.SUM, ir.ReductionKind.MAX):
        return None
    if most.stage.target.dtype in HALVES:
        return None
    found = RescalingWeights(most).of(total)
    return found if found is not None and found <= 0 else None
