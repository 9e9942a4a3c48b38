"""Building of µgraphs: a kernel graph, a block graph for each kernel, and the names of their
sizes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from ...tensor import Block, Program, Term, apply
from ...tensor.errors import ShapeError
from ...tensor.sizes import Dim
from ..algebra.normal_form import BITS, GRID, Mask, is_whole, label_of
from ..derive.derivations import MOVES, REDUCTIONS, Derivation, DerivationGraph, ValueClass
from ..enumeration.block_graphs import DerivedBlockGraph
from ..enumeration.kernel_graphs import SkeletonKernel


class BuiltKernels(Struct, frozen=True, array_like=True):
    """Kernels in the order in which they run, each with its block graph, if it has one."""

    kernels: tuple[SkeletonKernel, ...]
    graphs: tuple[DerivedBlockGraph | None, ...]


class Builder:
    """Makes programs of kernels; sizes are named after the kernel and the label that they cut."""

    def __init__(self, tables: DerivationGraph) -> None:
        self._tables = tables
        self._reference = tables.reference
        self._labels = tables.reference.labels

    def extents(self, built: BuiltKernels) -> dict[str, int]:
        """The numbers that a program leaves open, each with what it has to divide."""
        found: dict[str, int] = {}
        for place, graph in enumerate(built.graphs):
            if graph is None:
                continue
            for label in _labels(self._tables.classes[graph.outputs[0]].grid):
                found[f"{self._labels[label]}{place}"] = self._reference.sizes[label]
            for number, step in graph.steps:
                own = self._tables.classes[number]
                if step.operator == "load" and own.loop:
                    found[f"range{place}"] = self._reference.sizes[label_of(own.loop)]
        return found

    def build(self, built: BuiltKernels, sizes: Mapping[str, Dim]) -> Program:
        """The program with these numbers; raises ShapeError where they do not fit."""
        values = self._computed(built, sizes)
        computed = [values[target] for target in built_targets(self._tables)]
        program = self._reference.program
        pairs = zip(program.outputs, computed, strict=True)
        outputs = tuple(_moved(term, value) for term, value in pairs)
        return Program(program.name, program.inputs, outputs)

    def part(self, built: BuiltKernels, sizes: Mapping[str, Dim]) -> Program:
        """The first kernels of a program, which gives all that they store."""
        values = self._computed(built, sizes)
        stored = tuple(values[one] for kernel in built.kernels for one in kernel.tensors)
        return Program(self._reference.program.name, self._reference.program.inputs, stored)

    def _computed(self, built: BuiltKernels, sizes: Mapping[str, Dim]) -> dict[int, Term]:
        """The tensors that are there, and those that kernels store."""
        inputs = self._reference.program.inputs
        values: dict[int, Term] = dict(zip(self._tables.inputs, inputs, strict=True))
        values.update(self._tables.views)
        for place, (kernel, graph) in enumerate(zip(built.kernels, built.graphs, strict=True)):
            if graph is None:
                (tensor,) = kernel.tensors
                values[tensor] = self._operator(tensor, kernel.step, values)
            else:
                stored = self._custom(kernel.tensors, graph, place, values, sizes)
                values.update(zip(kernel.tensors, stored, strict=True))
        return values

    def _operator(self, number: int, at: int, values: Mapping[int, Term]) -> Term:
        step = self._tables.steps[number][at]
        operands = [values[operand] for operand in step.operands]
        if step.operator == "fold":
            axis = int(step.detail)
            kept = self._tables.classes[number].axes[axis]
            return apply("fold", *operands, axis=axis, size=self._whole(kept))
        return self._applied(step, operands)

    def _applied(self, step: Derivation, operands: list[Term]) -> Term:
        if step.operator in REDUCTIONS:
            return apply(step.operator, *operands, axes=(int(step.detail),), keep=True)
        if step.detail:
            side, place = step.detail.split()
            number = self._tables.numbers[int(place)][0]
            operands = [number, *operands] if side == "left" else [*operands, number]
        return apply(step.operator, *operands)

    def _whole(self, pieces: Sequence[Mask]) -> int:
        found = 1
        for piece in pieces:
            if not is_whole(piece):
                raise ShapeError("a fold that keeps a part of an index")
            found *= self._reference.sizes[label_of(piece)]
        return found

    def _custom(
        self,
        tensors: Sequence[int],
        graph: DerivedBlockGraph,
        place: int,
        values: Mapping[int, Term],
        sizes: Mapping[str, Dim],
    ) -> tuple[Term, ...]:
        classes = self._tables.classes
        walked = _labels(classes[graph.outputs[0]].grid)
        cuts = [sizes.get(f"{self._labels[label]}{place}", 1) for label in walked]
        block = Block(cuts, sizes.get(f"range{place}", 1))
        tiles: dict[int, Term] = {}
        for number, step in graph.steps:
            if step.operator == "load":
                source = step.operands[0]
                maps, loop = self._maps(classes[source], classes[number], walked)
                tiles[number] = block.load(values[source], map=maps, loop=loop)
            else:
                tiles[number] = self._tile(
                    number, step, tiles, block, dict(zip(walked, cuts, strict=True))
                )
        return block.results(
            *(
                (tiles[tile], _stored(classes[tile], classes[tensor], walked))
                for tensor, tile in zip(tensors, graph.outputs, strict=True)
            )
        )

    def _maps(
        self, source: ValueClass, tile: ValueClass, walked: Sequence[int]
    ) -> tuple[list[int | None], int | None]:
        """By which axes the grid and the loop split a tensor."""
        maps: list[int | None] = []
        for label in walked:
            part = GRID << BITS * label
            split = [
                axis
                for axis, (own, kept) in enumerate(zip(source.axes, tile.axes, strict=True))
                if part & tile.grid and sum(own) & part and not sum(kept) & part
            ]
            maps.append(split[0] if split else None)
        loops = [
            axis
            for axis, (own, kept) in enumerate(zip(source.axes, tile.axes, strict=True))
            if sum(own) & tile.loop and not sum(kept) & tile.loop
        ]
        return maps, loops[0] if loops else None

    def _tile(
        self,
        number: int,
        step: Derivation,
        tiles: Mapping[int, Term],
        block: Block,
        cuts: Mapping[int, Dim],
    ) -> Term:
        operands = [tiles[operand] for operand in step.operands]
        if step.operator == "accumulate":
            columns: Dim = 64
            if step.detail == "redtox":
                columns = 1
                for piece in self._tables.classes[number].axes[-1]:
                    label = label_of(piece)
                    own: Dim = self._reference.sizes[label]
                    if not piece & GRID << BITS * label:
                        own = own // cuts[label]  # type: ignore[operator]
                    columns = columns * own
            return block.accumulate(operands[0], step.detail, columns)
        return self._applied(step, operands)


def _moved(term: Term, value: Term) -> Term:
    """What the reference does with the elements of an output in the end."""
    if term.operator.name not in MOVES:
        same = value.shape == term.shape
        return value if same else apply("reshape", value, shape=term.shape)
    inner = _moved(term.arguments[0], value)
    return apply(term.operator.name, inner, **dict(term.parameters))


def built_targets(tables: DerivationGraph) -> list[int]:
    """The classes of the outputs, all of which were found."""
    return [target for target in tables.targets if target is not None]


def _labels(mask: Mask) -> list[int]:
    """The labels whose grid part is in a set."""
    return [bit // BITS for bit in range(0, mask.bit_length(), BITS) if mask >> bit & GRID]


def _stored(tile: ValueClass, tensor: ValueClass, walked: Sequence[int]) -> list[int | None]:
    """The axis on which each grid axis is stored."""
    found: list[int | None] = []
    for label in walked:
        part = GRID << BITS * label
        (axis,) = (
            axis
            for axis, (own, kept) in enumerate(zip(tensor.axes, tile.axes, strict=True))
            if sum(own) & part and not sum(kept) & part
        )
        found.append(axis)
    return found
