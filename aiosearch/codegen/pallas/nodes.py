"""Nodes of a kernel's body: every stage, for the positions at which it is read.

A stage has no memory of its own in a body. Where its buffer is read at other places than its
indices, the stage is computed for those: the places are put in for the indices. So a reshape, a
slice or a transposition of what was computed costs nothing but computing it there.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from .. import ir
from ..ir.affine_maps import IndexSubstitution, solve_indices, substitute_indices
from .errors import CannotPrint


@dataclass(frozen=True, eq=False)
class TileNode:
    """A stage's value for some places."""

    stage: ir.KernelStage
    value: ir.Expression
    folded: tuple[ir.LoopIndex, ...]
    fold: ir.ReductionKind
    reads: Mapping[ir.BufferLoad, TileNode]
    """The nodes that stand for loads of what the kernel fills."""
    indices: frozenset[ir.LoopIndex]
    """What its element depends on."""
    at: tuple[ir.Position, ...]
    """The places."""

    @cached_property
    def all_indices(self) -> frozenset[ir.LoopIndex]:
        """Those too that are folded."""
        return self.indices | set(self.folded)

    @cached_property
    def applied(self) -> Sequence[tuple[ir.Operation, frozenset[ir.LoopIndex]]]:
        """The functions of its expression, each with the indices on which it depends."""
        found = (one for one in ir.walk(self.value) if isinstance(one, ir.Apply))
        return [(one.operation, frozenset(dependencies(one, self.reads))) for one in found]

    @cached_property
    def taken(self) -> Mapping[ir.BufferLoad, frozenset[ir.LoopIndex]]:
        """What it loads of the caller's, and the indices on which that depends."""
        own = dict.fromkeys(load for load in loads(self.value) if load not in self.reads)
        return {load: frozenset(one for at in load.at for one in ir.indices(at)) for load in own}


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
            if stage.target in self.kernel.outputs and 0 not in stage.target.shape:
                self.outputs.append(self._node(stage, {}))

    @property
    def loaded(self) -> list[ir.Buffer]:
        """The buffers of the caller that are read."""
        found = dict.fromkeys(
            load.buffer
            for node in self.all
            for load in loads(node.value)
            if load.buffer not in self._stages
        )
        return [buffer for buffer in self.kernel.inputs if buffer in found]

    def _node(self, stage: ir.KernelStage, places: IndexSubstitution) -> TileNode:
        kept = {one: places.get(one, ir.index(one)) for one in stage.free}
        key = (stage, tuple(kept.values()))
        if key not in self._made:
            node = self._computed(stage, kept)
            self._made[key] = node
            self.all.append(node)
        return self._made[key]

    def _computed(self, stage: ir.KernelStage, places: dict[ir.LoopIndex, ir.Position]) -> TileNode:
        at = tuple(substitute_indices(one, places) for one in stage.at)
        folded, places = _renamed(stage, places)
        if any(one.size == 0 for one in folded):
            empty = ir.Constant(0.0 if stage.fold is ir.ReductionKind.SUM else -math.inf)
            return TileNode(stage, empty, (), ir.ReductionKind.NONE, {}, frozenset(), at)
        value = rewrite_positions(stage.value, places)
        reads = {load: self._read(load) for load in loads(value) if load.buffer in self._stages}
        own = frozenset(dependencies(value, reads)) - set(folded)
        return TileNode(stage, value, folded, stage.fold, reads, own, at)

    def _read(self, load: ir.BufferLoad) -> TileNode:
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
    """The loads of an expression; some more than once."""
    return (one for one in ir.walk(value) if isinstance(one, ir.BufferLoad))


def rewrite_positions(value: ir.Expression, places: IndexSubstitution) -> ir.Expression:
    """An expression with other positions in the place of indices."""
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
            given = tuple(rewrite_positions(argument, places) for argument in value.arguments)
            return ir.Apply(value.operation, given)
        case ir.Round():
            return ir.Round(rewrite_positions(value.value, places), value.dtype)
        case ir.BoundedValue():
            limits = tuple(
                (substitute_indices(at, places), low, high) for at, low, high in value.limits
            )
            inner, other = (
                rewrite_positions(value.value, places),
                rewrite_positions(value.otherwise, places),
            )
            return ir.BoundedValue(limits, inner, other)


def dependencies(
    value: ir.Expression, reads: Mapping[ir.BufferLoad, TileNode]
) -> Iterator[ir.LoopIndex]:
    """The indices that an element depends on; some more than once."""
    for one in ir.walk(value):
        match one:
            case ir.BufferLoad() if one in reads:
                yield from reads[one].indices
            case ir.BufferLoad():
                yield from (each for at in one.at for each in ir.indices(at))
            case ir.PositionValue():
                yield from ir.indices(one.position)
            case ir.BoundedValue():
                yield from (each for at, _, _ in one.limits for each in ir.indices(at))


def _renamed(
    stage: ir.KernelStage, places: dict[ir.LoopIndex, ir.Position]
) -> tuple[tuple[ir.LoopIndex, ...], dict[ir.LoopIndex, ir.Position]]:
    """The folded indices, under other names where the places are over indices of those names."""
    taken = {one for at in places.values() for one in ir.indices(at)}
    folded = []
    for one in stage.folded:
        own = one
        while own in taken:
            own = ir.LoopIndex(f"{own.name}_", own.size)
        folded.append(own)
        if own is not one:
            places = {**places, one: ir.index(own)}
    return tuple(folded), places
