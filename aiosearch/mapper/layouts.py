"""Layouts of arrays over a mesh of devices: how one becomes another, and which ones an equation can
run in.

A layout says for each axis of the mesh which dimension of an array it divides. The layouts in which
an equation runs without talking come from the rules of `rows`: rows of a result along an axis need
rows of these operands, so that the axis may be divided. Products and sums may also be divided along
what they sum over, with a sum over devices at their end.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from msgspec import Struct

from .rows.equations import Equation, FlatValue
from .rows.rules import RULES, WHOLE, RowRequirement, Rows
from .rows.rules import requirement as row_requirement

Layout: TypeAlias = tuple[int | None, ...]
"""For each axis of the mesh: the dimension that it divides, or None where every device has all.

An earlier axis of the mesh is the outer one where two divide the same dimension.
"""
PARTIAL = {"reduce_sum": "psum", "reduce_max": "pmax", "reduce_min": "pmin", "dot_general": "psum"}
"""What adds up partial results of what is divided along what it sums over."""


class MeshCosts(Struct, frozen=True, kw_only=True):
    """What a device of the mesh computes and moves in a second; by default those of a large GPU."""

    operations: float = 2e14
    memory: float = 2e12
    """Bytes between a device and its memory."""
    links: float = 1e11
    """Bytes that a device sends to others."""
    latency: float = 5e-6
    """Seconds until a collective begins."""

    def collective(self, kind: str, size: float, devices: int) -> float:
        """Seconds of a collective of so many bytes a device, by the usual ring algorithms."""
        turns = 2 if kind.startswith("p") else 1
        return self.latency + turns * size * (devices - 1) / devices / self.links


@dataclass(frozen=True)
class LayoutMove:
    """A step from one layout to the next: along which axis of the mesh, from and to which
    dimension.

    Gathering has no `to`, slicing no `source`; an exchange has both.
    """

    axis: int
    source: int | None
    to: int | None


def moves(source: Layout, to: Layout) -> list[LayoutMove]:
    """How an array comes from one layout to another: exchanges, gathers, then slices.

    Example, a mesh of two axes: from (0, 0) to (None, 0), both are gathered, the inner one first,
    and the inner one is sliced again, as what remains divided is another part than before.
    """
    stays = [a == b for a, b in zip(source, to, strict=True)]
    for axis, dimension in enumerate(source):
        # What is divided within something that moves, or would be within something new, moves too.
        if stays[axis] and dimension is not None:
            outer = range(axis)
            if any(not stays[a] and dimension in (source[a], to[a]) for a in outer):
                stays[axis] = False
    steps = []
    current = list(source)
    for axis, dimension in enumerate(to):
        before = current[axis]
        if not stays[axis] and before is not None and dimension is not None and before != dimension:
            others = [d for at, d in enumerate((*source, *to)) if at % len(to) != axis]
            if before not in others and dimension not in others:
                steps.append(LayoutMove(axis, before, dimension))
                current[axis], stays[axis] = dimension, True
    for axis in reversed(range(len(to))):
        if not stays[axis] and current[axis] is not None:
            steps.append(LayoutMove(axis, current[axis], None))
            current[axis] = None
    for axis, dimension in enumerate(to):
        if current[axis] is None and dimension is not None:
            steps.append(LayoutMove(axis, None, dimension))
    return steps


@dataclass(frozen=True)
class EquationLayout:
    """A way to run an equation: layouts of its operands and results, and sums at its end."""

    operands: tuple[Layout, ...]
    result: Layout
    summed: tuple[int, ...] = ()
    """The axes of the mesh over which partial results are added up."""
    divided: int = 1
    """Among how many devices the work is divided."""


class MeshShape:
    """The sizes of the mesh's axes, and what follows from them."""

    def __init__(self, shape: Sequence[int], costs: MeshCosts) -> None:
        self.shape = tuple(shape)
        self.costs = costs
        self.replicated: Layout = (None,) * len(self.shape)

    def divides(self, layout: Layout, shape: Sequence[int]) -> bool:
        """Whether the dimensions are multiples of the devices that they are divided among."""
        return all(
            size % math.prod(n for n, d in zip(self.shape, layout, strict=True) if d == at) == 0
            for at, size in enumerate(shape)
        )

    def layouts(self, shape: Sequence[int]) -> list[Layout]:
        each = [None, *range(len(shape))]
        every = itertools.product(each, repeat=len(self.shape))
        return [layout for layout in every if self.divides(layout, shape)]

    def local(self, layout: Layout, shape: Sequence[int]) -> tuple[int, ...]:
        sizes = list(shape)
        for devices, dimension in zip(self.shape, layout, strict=True):
            if dimension is not None:
                sizes[dimension] //= devices
        return tuple(sizes)

    def collectives(
        self, source: Layout, to: Layout, shape: Sequence[int], item: int
    ) -> Iterator[tuple[str, int, int]]:
        """The kind, bytes and devices of each collective between two layouts."""
        layout = list(source)
        for move in moves(source, to):
            layout[move.axis] = move.to
            if move.source is not None:
                kind = "all_to_all" if move.to is not None else "all_gather"
                size = math.prod(self.local(tuple(layout), shape)) * item
                yield kind, size, self.shape[move.axis]

    def moving(self, source: Layout, to: Layout, shape: Sequence[int], item: int) -> float:
        """Seconds from one layout to another."""
        return sum(
            self.costs.collective(kind, size, devices)
            for kind, size, devices in self.collectives(source, to, shape, item)
            if devices > 1
        )


def item_size(value: FlatValue) -> int:
    return int(np.dtype(value.dtype).itemsize)


def local_rule(equation: Equation, result: int, axis: int) -> RowRequirement | None:
    """What a result divided along an axis needs; reshapes may divide the outer part of an axis."""
    if equation.name == "reshape" and equation.params.get("dimensions") is None:
        shape, new = equation.inputs[0].shape, equation.outputs[0].shape
        for at in range(len(shape)):
            if math.prod(shape[:at]) == math.prod(new[:axis]) and shape[at] > 1 < new[axis]:
                return RowRequirement((Rows(at),))
        return None
    if equation.name not in RULES:
        return None
    how = row_requirement(equation, result, Rows(axis))
    if how is None or any(demand is not WHOLE and demand.shift for demand in how.operands):
        return None
    return how


class EquationLayouts:
    """The strategies of equations on a mesh."""

    def __init__(self, mesh: MeshShape) -> None:
        self.mesh = mesh

    def of(self, equation: Equation) -> list[EquationLayout]:
        """Every combination, over the axes of the mesh, of what each may divide."""
        value = equation.outputs[0]
        single = len(equation.outputs) == 1
        choices = [_AxisChoice((None,) * len(equation.inputs), None)]
        for axis in range(len(value.shape) if single else 0):
            how = local_rule(equation, 0, axis)
            if how is not None:
                divided = tuple(None if rows is WHOLE else rows.axis for rows in how.operands)
                choices.append(_AxisChoice(divided, axis))
        choices += self._partial(equation)
        strategies = []
        for chosen in itertools.product(choices, repeat=len(self.mesh.shape)):
            operands = tuple(
                tuple(choice.operands[at] for choice in chosen)
                for at in range(len(equation.inputs))
            )
            result = tuple(choice.result for choice in chosen)
            if self._fits(equation, operands, result):
                summed = tuple(axis for axis, choice in enumerate(chosen) if choice.partial)
                parts = math.prod(
                    devices
                    for devices, choice in zip(self.mesh.shape, chosen, strict=True)
                    if choice is not choices[0]
                )
                strategies.append(EquationLayout(operands, result, summed, parts))
        return strategies

    def _fits(
        self,
        equation: Equation,
        operands: Sequence[Layout],
        result: Layout,
    ) -> bool:
        if not all(
            self.mesh.divides(layout, atom.shape)
            for layout, atom in zip(operands, equation.inputs, strict=True)
        ):
            return False
        return self.mesh.divides(result, equation.outputs[0].shape)

    def _partial(self, equation: Equation) -> list[_AxisChoice]:
        if equation.name == "dot_general":
            (left, right), _ = equation.params["dimension_numbers"]
            return [_AxisChoice((a, b), None, True) for a, b in zip(left, right, strict=True)]
        if equation.name in PARTIAL:
            return [_AxisChoice((axis,), None, True) for axis in equation.params["axes"]]
        return []


@dataclass(frozen=True)
class _AxisChoice:
    """What one axis of the mesh divides: a dimension of each operand, and of the result."""

    operands: tuple[int | None, ...]
    result: int | None
    partial: bool = False


def shifted(layout: Layout, by: int) -> Layout:
    return tuple(None if dimension is None else dimension + by for dimension in layout)
