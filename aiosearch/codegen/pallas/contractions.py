"""Sums of products as contractions of two sides, which matrix units multiply."""

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
        """The bytes of an element, where it is kept in the type that it is loaded in."""
        found = (BYTES[one.buffer.dtype] for part in self.factors for one in loads(part))
        return max(found, default=4)

    def computed(self, node: TileNode) -> bool:
        """Whether it is more than what a node loads of the caller's."""
        return len(self.factors) > 1 or self.factors[0] not in node.taken

    def with_(self, other: ContractionSide) -> ContractionSide:
        factors = (*self.factors, *other.factors)
        return ContractionSide(factors, self.own | other.own, self.summed | other.summed)


@dataclass(frozen=True)
class Contraction:
    left: ContractionSide
    right: ContractionSide
    scale: tuple[ir.Expression, ...]
    """Factors that are the same for the whole tile."""

    @property
    def turned(self) -> Contraction:
        return Contraction(self.right, self.left, self.scale)


def contraction(node: TileNode, axes: Axes) -> Contraction | None:
    """The sides, where a node sums a product over axes that both have, and each has its own."""
    if node.fold is not ir.ReductionKind.SUM:
        return None
    parts = [_side(factor, node, axes) for factor in _factors(node.value)]
    groups: list[ContractionSide] = []
    for part in (part for part in parts if part.own):
        near = [one for one in groups if one.own & part.own]
        groups = [one for one in groups if one not in near]
        for one in near:
            part = one.with_(part)
        groups.append(part)
    if len(groups) != 2:
        return None
    left, right = groups
    for part in (part for part in parts if part.summed and not part.own):
        left = left.with_(part)
    if not left.summed or left.summed != right.summed:
        return None
    scale = (part.factors[0] for part in parts if not part.own and not part.summed)
    return Contraction(left, right, tuple(scale))


def _side(factor: ir.Expression, node: TileNode, axes: Axes) -> ContractionSide:
    found, folded = frozenset(axes(factor)), frozenset(node.folded)
    return ContractionSide((factor,), found - folded, found & folded)


def _factors(value: ir.Expression) -> tuple[ir.Expression, ...]:
    match value:
        case ir.Apply(operation=ir.Operation.MULTIPLY):
            return tuple(one for argument in value.arguments for one in _factors(argument))
    return (value,)


def matrices(nodes: TileNodes) -> tuple[set[ir.LoopIndex], set[ir.LoopIndex], set[ir.LoopIndex]]:
    """The indices that sides of products have for themselves, share, and are summed over."""
    own, shared, summed = set[ir.LoopIndex](), set[ir.LoopIndex](), set[ir.LoopIndex]()
    for node in nodes.all:
        parts = [frozenset(dependencies(one, node.reads)) for one in _factors(node.value)]
        parts = [part for part in parts if part & set(node.folded)]
        if node.fold is not ir.ReductionKind.SUM or len(set(parts)) < 2:
            continue
        every = frozenset.intersection(*parts)
        if all(part - every for part in parts):
            own |= frozenset.union(*parts) - every
            shared |= every - set(node.folded)
            summed |= every & set(node.folded)
    return own, shared - own, summed
