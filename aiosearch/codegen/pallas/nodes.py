"""Nodes of a kernel's body: every stage, for the positions at which it is read.

A stage has no memory of its own in a body. Where its buffer is read at other positions than its
indices, the stage is computed for those: the positions are put in for the indices. So a reshape, a
slice or a transposition of what was computed costs nothing but computing it there.

With `t[i] = exp(X[i])` and a reader of `t[j + 1]`, the node of `t` has the value `exp(X[j + 1])`; a
second reader of `t[j]` gets a node of its own.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from .. import ir
from ..errors import CannotPrint
from ..ir.affine_maps import IndexSubstitution, solve_indices, substitute_indices


@dataclass(frozen=True, eq=False)
class TileNode:
    """The value of a stage at the positions `at`."""

    stage: ir.KernelStage
    value: ir.Expression
    folded: tuple[ir.LoopIndex, ...]
    reduction: ir.ReductionKind
    reads: Mapping[ir.BufferLoad, TileNode]
    """The nodes that stand for loads of what the kernel fills."""
    indices: frozenset[ir.LoopIndex]
    """The indices that its element depends on."""
    at: tuple[ir.Position, ...]
    """The positions of the target at which the value is needed."""

    @cached_property
    def all_indices(self) -> frozenset[ir.LoopIndex]:
        """The `indices`, and those that are reduced."""
        return self.indices | set(self.folded)

    @cached_property
    def applied(self) -> Sequence[tuple[ir.Operation, frozenset[ir.LoopIndex]]]:
        """The functions of its expression, each with the indices on which it depends."""
        applications = (part for part in ir.walk(self.value) if isinstance(part, ir.Apply))
        return [
            (part.operation, frozenset(dependencies(part, self.reads))) for part in applications
        ]

    @cached_property
    def taken(self) -> Mapping[ir.BufferLoad, frozenset[ir.LoopIndex]]:
        """What it loads of the caller's buffers, each with the indices on which that depends."""
        outside = dict.fromkeys(load for load in loads(self.value) if load not in self.reads)
        return {
            load: frozenset(loop_index for at in load.at for loop_index in ir.indices(at))
            for load in outside
        }


@dataclass
class TileNodes:
    """The nodes of a kernel, operands first."""

    kernel: ir.TileKernel
    all: list[TileNode] = field(default_factory=list)
    outputs: list[TileNode] = field(default_factory=list)
    _made: dict[tuple[ir.KernelStage, tuple[ir.Position, ...]], TileNode] = field(
        default_factory=dict
    )

    def __post_init__(self) -> None:
        self._stages = {stage.target: stage for stage in self.kernel.stages}
        for stage in self.kernel.stages:
            # An output without elements needs no block; the module makes it.
            if stage.target in self.kernel.outputs and 0 not in stage.target.shape:
                self.outputs.append(self._node(stage, {}))

    @property
    def loaded(self) -> list[ir.Buffer]:
        """The buffers of the caller that are read."""
        read = dict.fromkeys(
            load.buffer
            for node in self.all
            for load in loads(node.value)
            if load.buffer not in self._stages
        )
        return [buffer for buffer in self.kernel.inputs if buffer in read]

    def _node(self, stage: ir.KernelStage, places: IndexSubstitution) -> TileNode:
        positions = {
            free_index: places.get(free_index, ir.index(free_index)) for free_index in stage.free
        }
        key = (stage, tuple(positions.values()))
        if key not in self._made:
            node = self._computed(stage, positions)
            self._made[key] = node
            self.all.append(node)
        return self._made[key]

    def _computed(self, stage: ir.KernelStage, places: dict[ir.LoopIndex, ir.Position]) -> TileNode:
        """The node of `stage` with `places` for its free indices."""
        at = tuple(substitute_indices(part, places) for part in stage.at)
        folded, places = _renamed(stage, places)
        # A sum of nothing is 0 and a maximum of nothing is minus infinity, whatever its operands
        # are.
        if any(part.size == 0 for part in folded):
            empty = ir.Constant(0.0 if stage.reduction is ir.ReductionKind.SUM else -math.inf)
            return TileNode(stage, empty, (), ir.ReductionKind.NONE, {}, frozenset(), at)
        value = rewrite_positions(stage.value, places)
        reads = {load: self._read(load) for load in loads(value) if load.buffer in self._stages}
        depends = frozenset(dependencies(value, reads)) - set(folded)
        return TileNode(stage, value, folded, stage.reduction, reads, depends, at)

    def _read(self, load: ir.BufferLoad) -> TileNode:
        """The node that computes what `load` reads; raises CannotPrint where its positions cannot
        be inverted.
        """
        stage = self._stages[load.buffer]
        places = solve_indices(stage.at, load.at)
        if places is None:
            places_of = ", ".join(map(str, stage.at))
            raise CannotPrint(
                f"kernel {self.kernel.name}: {load} is read, but is written at [{places_of}]:"
                " no values of its indices are known that lead there"
            )
        return self._node(stage, places)


def loads(value: ir.Expression) -> Iterator[ir.BufferLoad]:
    """The loads of `value`; some more than once."""
    return (part for part in ir.walk(value) if isinstance(part, ir.BufferLoad))


def rewrite_positions(value: ir.Expression, places: IndexSubstitution) -> ir.Expression:
    """`value` with other positions in the place of indices."""
    match value:
        case ir.Constant():
            return value
        case ir.PositionValue():
            return ir.PositionValue(substitute_indices(value.position, places))
        case ir.BufferLoad():
            return ir.BufferLoad(
                value.buffer, tuple(substitute_indices(at, places) for at in value.at)
            )
        case ir.Apply():
            arguments = tuple(rewrite_positions(argument, places) for argument in value.arguments)
            return ir.Apply(value.operation, arguments)
        case ir.Round():
            return ir.Round(rewrite_positions(value.value, places), value.dtype)
        case ir.BoundedValue():
            limits = tuple(
                (substitute_indices(at, places), low, high) for at, low, high in value.limits
            )
            inner, otherwise = (
                rewrite_positions(value.value, places),
                rewrite_positions(value.otherwise, places),
            )
            return ir.BoundedValue(limits, inner, otherwise)


def dependencies(
    value: ir.Expression, reads: Mapping[ir.BufferLoad, TileNode]
) -> Iterator[ir.LoopIndex]:
    """The indices that an element of `value` depends on; some more than once."""
    for part in ir.walk(value):
        match part:
            case ir.BufferLoad() if part in reads:
                yield from reads[part].indices
            case ir.BufferLoad():
                yield from (loop_index for at in part.at for loop_index in ir.indices(at))
            case ir.PositionValue():
                yield from ir.indices(part.position)
            case ir.BoundedValue():
                yield from (loop_index for at, _, _ in part.limits for loop_index in ir.indices(at))


def _renamed(
    stage: ir.KernelStage, places: dict[ir.LoopIndex, ir.Position]
) -> tuple[tuple[ir.LoopIndex, ...], dict[ir.LoopIndex, ir.Position]]:
    """The reduced indices, under other names where `places` are over indices of those names."""
    names_used = {loop_index for at in places.values() for loop_index in ir.indices(at)}
    folded = []
    for loop_index in stage.folded:
        renamed = loop_index
        while renamed in names_used:
            renamed = ir.LoopIndex(f"{renamed.name}_", renamed.size)
        folded.append(renamed)
        if renamed is not loop_index:
            places = {**places, loop_index: ir.index(renamed)}
    return tuple(folded), places
