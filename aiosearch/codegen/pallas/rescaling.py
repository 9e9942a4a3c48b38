"""Online softmax: how sums rescale when the running maximum grows.

Such a value has factors exp(c * (x - maximum)), where the maximum is that of x, and nothing else of
it depends on the maximum. So it may be added up with a maximum of what was seen so far, and be
scaled whenever that grows. Where x is minus infinity it adds nothing, whatever the maximum is.

With `m = max x` the sum of `exp(x - m)` has the weight -1: it is the true sum for m = 0, times
exp(-m). `exp(2 * (x - m))` has -2, `exp(x - m) * v` has -1, a quotient of two such sums has 0, and
`exp(x - m) + 1` has none.
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
"""Operations that scale as their operands do, if all operands scale alike."""


class RescalingWeights:
    """By how much nodes scale with `maximum`."""

    def __init__(self, maximum: TileNode) -> None:
        self._maximum = maximum
        self._known: dict[TileNode, float | None] = {}

    def of(self, node: TileNode) -> float | None:
        """The w of `node`'s exp(w * maximum); 0 where the maximum changes nothing, None where it
        does otherwise.
        """
        if node is self._maximum:
            return None
        if node not in self._known:
            self._known[node] = self._folded(node)
        return self._known[node]

    def _folded(self, node: TileNode) -> float | None:
        """The weight of a node, whose reduction has to scale alike everywhere."""
        weight = self._value(node.value, node)
        return None if weight and self._maximum.indices & set(node.folded) else weight

    def _value(self, value: ir.Expression, node: TileNode) -> float | None:
        match value:
            case ir.BufferLoad() if value in node.reads:
                return self.of(node.reads[value])
            case ir.Round():
                weight = self._value(value.value, node)
                whole = value.dtype in EXACT
                return None if whole and weight else weight
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
        weights = [self._value(argument, node) for argument in value.arguments]
        if any(first is None for first in weights):
            return None
        match value.operation, weights:
            case ir.Operation.MULTIPLY, (float(first), float(second)):
                return first + second
            case ir.Operation.DIVIDE, (float(first), float(second)):
                return first - second
            case ir.Operation.SELECT, (0.0, _, _):
                return self._everywhere(value.arguments[1:], node)
        return None if any(weights) else 0.0

    def _alike(self, values: Iterable[ir.Expression], node: TileNode) -> float | None:
        """The weight that all `values` have; a zero may have any."""
        weights = {self._value(part, node) for part in values if part != ir.Constant(0)}
        return weights.pop() if len(weights) == 1 else None if weights else 0.0

    def _everywhere(self, values: Iterable[ir.Expression], node: TileNode) -> float | None:
        """The weight 0 where nothing in `values` scales, else None.

        Of what does scale, a row whose maximum is minus infinity is NaN, wherever it is asked for,
        and so is every sum of it. A sum of those places alone where it is not asked for is a
        number.
        """
        weights = [self._value(part, node) for part in values]
        return None if any(part != 0 for part in weights) else 0.0

    def _exponent(self, value: ir.Expression, node: TileNode) -> float | None:
        """What the exponent `value` changes by as the maximum does: -1 for x - maximum."""
        match value:
            case ir.Apply(operation=ir.Operation.SUBTRACT, arguments=(x, ir.BufferLoad() as load)):
                if x == self._maximum.value and node.reads.get(load) is self._maximum:
                    return -1.0
            case ir.Apply(operation=ir.Operation.MULTIPLY, arguments=(x, ir.Constant(factor))):
                return _times(self._exponent(x, node), factor)
            case ir.Apply(operation=ir.Operation.MULTIPLY, arguments=(ir.Constant(factor), x)):
                return _times(self._exponent(x, node), factor)
        # An exponent that does not depend on the maximum leaves the exponential alone; any other
        # dependence is no scaling.
        return 0.0 if self._value(value, node) == 0 else None


def _times(weight: float | None, factor: float) -> float | None:
    if not weight:
        return weight
    # With a negative factor the exponent would grow with the distance from the maximum and
    # overflow.
    return weight * factor if 0 < factor < math.inf else None


def online_weight(total: TileNode, maximum: TileNode) -> float | None:
    """How the sum `total` scales with `maximum`, where both may be reduced at once; None where they
    may not.

    A maximum that is rounded is not what is seen of it on the way; and what is divided by such
    values would have to be scaled up from nothing.
    """
    if (total.reduction, maximum.reduction) != (ir.ReductionKind.SUM, ir.ReductionKind.MAX):
        return None
    if maximum.stage.target.dtype in HALVES:
        return None
    weight = RescalingWeights(maximum).of(total)
    return weight if weight is not None and weight <= 0 else None
