"""Sums of products as contractions of two sides, which matrix units multiply.

A node that sums `X[i, k] * W[k, j] * s` over k is a contraction: the left side has i for itself,
the right side j, both have k, and `s` is a scale of the whole tile. `X[i, k] * X[i, k]` is none, as
neither side has an axis of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from ...tensor.types import BYTES
from .. import ir
from .nodes import TileNode, TileNodes, dependencies, loads

Axes = Callable[[ir.Expression], Iterable[ir.LoopIndex]]
"""The axes of an expression's tile."""


@dataclass(frozen=True)
class ContractionSide:
    """Factors whose product is one operand."""

    factors: tuple[ir.Expression, ...]
    own: frozenset[ir.LoopIndex]
    """Its axes that are not summed over."""
    summed: frozenset[ir.LoopIndex]

    @property
    def width(self) -> int:
        """The bytes of an element, where it is held in the type that it is loaded in."""
        widths = (BYTES[load.buffer.dtype] for part in self.factors for load in loads(part))
        return max(widths, default=4)

    def computed(self, node: TileNode) -> bool:
        """Whether it is more than what `node` loads of the caller's buffers."""
        return len(self.factors) > 1 or self.factors[0] not in node.taken

    def with_(self, other: ContractionSide) -> ContractionSide:
        """The side with the factors of `other` too."""
        factors = (*self.factors, *other.factors)
        return ContractionSide(factors, self.own | other.own, self.summed | other.summed)


@dataclass(frozen=True)
class Contraction:
    """The two sides of a product, and what scales it."""

    left: ContractionSide
    right: ContractionSide
    scale: tuple[ir.Expression, ...]
    """Factors that are the same for the whole tile."""

    @property
    def turned(self) -> Contraction:
        """The contraction with its sides exchanged."""
        return Contraction(self.right, self.left, self.scale)


def contraction(node: TileNode, axes: Axes) -> Contraction | None:
    """The sides, where `node` sums a product over axes that both have, and each has its own; else
    None.
    """
    if node.reduction is not ir.ReductionKind.SUM:
        return None
    parts = [_side(factor, node, axes) for factor in _factors(node.value)]
    groups: list[ContractionSide] = []
    for part in (part for part in parts if part.own):
        # Factors that share an axis which is not summed belong to one side: in X[i, k]·s[i]·W[k, j]
        # the factor s is part of the left operand. A factor may join two groups into one.
        touching = [group for group in groups if group.own & part.own]
        groups = [group for group in groups if group not in touching]
        for group in touching:
            part = group.with_(part)
        groups.append(part)
    # Three sides, or a single one, are no matrix product.
    if len(groups) != 2:
        return None
    left, right = groups
    for part in (part for part in parts if part.summed and not part.own):
        left = left.with_(part)
    # Both operands need all summed axes, as a dot has one inner dimension.
    if not left.summed or left.summed != right.summed:
        return None
    scale = (part.factors[0] for part in parts if not part.own and not part.summed)
    return Contraction(left, right, tuple(scale))


def _side(factor: ir.Expression, node: TileNode, axes: Axes) -> ContractionSide:
    """A factor as a side, by the axes of its tile."""
    axes_of_factor, folded = frozenset(axes(factor)), frozenset(node.folded)
    return ContractionSide((factor,), axes_of_factor - folded, axes_of_factor & folded)


def _factors(value: ir.Expression) -> tuple[ir.Expression, ...]:
    """The factors of the product `value`, however it is nested: a·(b·c) has three."""
    match value:
        case ir.Apply(operation=ir.Operation.MULTIPLY):
            return tuple(factor for argument in value.arguments for factor in _factors(argument))
    return (value,)


def matrices(nodes: TileNodes) -> tuple[set[ir.LoopIndex], set[ir.LoopIndex], set[ir.LoopIndex]]:
    """The indices that sides of products in `nodes` have for themselves, share, and are summed
    over.

    It needs no layout, so it can say which tiles are worth trying at all.
    """
    own, shared, summed = set[ir.LoopIndex](), set[ir.LoopIndex](), set[ir.LoopIndex]()
    for node in nodes.all:
        parts = [frozenset(dependencies(factor, node.reads)) for factor in _factors(node.value)]
        parts = [part for part in parts if part & set(node.folded)]
        if node.reduction is not ir.ReductionKind.SUM or len(set(parts)) < 2:
            continue
        every = frozenset.intersection(*parts)
        if all(part - every for part in parts):
            own |= frozenset.union(*parts) - every
            shared |= every - set(node.folded)
            summed |= every & set(node.folded)
    return own, shared - own, summed
