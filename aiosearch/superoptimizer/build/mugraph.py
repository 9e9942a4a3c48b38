"""Building of µgraphs: a kernel graph, a block graph for each kernel, and the names of their sizes.

The enumeration knows classes and derivations; here they become terms of the tensor language. Worked
example: a kernel at position 0 whose grid walks the label `column` of 4096 leaves the size
`column0` open, which has to divide 4096; its loop is `range0`.
"""

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
    """Kernels in the order in which they run, each with its block graph, if it is a block
    kernel.
    """

    kernels: tuple[SkeletonKernel, ...]
    graphs: tuple[DerivedBlockGraph | None, ...]


class Builder:
    """Makes programs of kernels; sizes are named after the label that they cut and the kernel's
    position.
    """

    def __init__(self, tables: DerivationGraph) -> None:
        self._tables = tables
        self._reference = tables.reference
        self._labels = tables.reference.labels

    def extents(self, built: BuiltKernels) -> dict[str, int]:
        """The numbers that a program leaves open, each with what it has to divide."""
        extents: dict[str, int] = {}
        for place, graph in enumerate(built.graphs):
            if graph is None:
                continue
            for label in _labels(self._tables.classes[graph.outputs[0]].grid):
                extents[f"{self._labels[label]}{place}"] = self._reference.sizes[label]
            for number, step in graph.steps:
                cls = self._tables.classes[number]
                if step.operator == "load" and cls.loop:
                    extents[f"range{place}"] = self._reference.sizes[label_of(cls.loop)]
        return extents

    def build(self, built: BuiltKernels, sizes: Mapping[str, Dim]) -> Program:
        """The program with these `sizes`; raises ShapeError where they do not fit."""
        values = self._computed(built, sizes)
        computed = [values[target] for target in built_targets(self._tables)]
        program = self._reference.program
        pairs = zip(program.outputs, computed, strict=True)
        outputs = tuple(_moved(term, value) for term, value in pairs)
        return Program(program.name, program.inputs, outputs)

    def part(self, built: BuiltKernels, sizes: Mapping[str, Dim]) -> Program:
        """The first kernels of a program, as a program that gives all that they store."""
        values = self._computed(built, sizes)
        stored = tuple(values[tensor] for kernel in built.kernels for tensor in kernel.tensors)
        return Program(self._reference.program.name, self._reference.program.inputs, stored)

    def _computed(self, built: BuiltKernels, sizes: Mapping[str, Dim]) -> dict[int, Term]:
        """The tensors that are there, and those that kernels store, by the number of their
        class.
        """
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
            pieces = self._tables.classes[number].axes[axis]
            return apply("fold", *operands, axis=axis, size=self._whole(pieces))
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
        """The size of an axis of whole labels."""
        size = 1
        for piece in pieces:
            if not is_whole(piece):
                raise ShapeError("a fold that keeps a part of an index")
            size *= self._reference.sizes[label_of(piece)]
        return size

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
        # A size that is not chosen is 1: the grid has one block along that label.
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
        """The axis of `source` that each grid axis splits, and the axis that the loop splits."""
        maps: list[int | None] = []
        for label in walked:
            part = GRID << BITS * label
            split = [
                axis
                for axis, (source_axis, tile_axis) in enumerate(
                    zip(source.axes, tile.axes, strict=True)
                )
                # The tensor has the grid's part on this axis and the tile does not: so the grid
                # split it there.
                if part & tile.grid and sum(source_axis) & part and not sum(tile_axis) & part
            ]
            maps.append(split[0] if split else None)
        loops = [
            axis
            for axis, (source_axis, tile_axis) in enumerate(
                zip(source.axes, tile.axes, strict=True)
            )
            if sum(source_axis) & tile.loop and not sum(tile_axis) & tile.loop
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
        """The term of a class in a block."""
        operands = [tiles[operand] for operand in step.operands]
        if step.operator == "accumulate":
            # The operator wants a number of columns; only redtox uses it.
            columns: Dim = 64
            if step.detail == "redtox":
                columns = 1
                for piece in self._tables.classes[number].axes[-1]:
                    label = label_of(piece)
                    width: Dim = self._reference.sizes[label]
                    if not piece & GRID << BITS * label:
                        width = width // cuts[label]  # type: ignore[operator]  # no grid cuts inner pieces
                    columns = columns * width
            return block.accumulate(operands[0], step.detail, columns)
        return self._applied(step, operands)


def _moved(term: Term, value: Term) -> Term:
    """Does with `value` what the reference does with the elements of the output `term` in the
    end.
    """
    if term.operator.name not in MOVES:
        same = value.shape == term.shape
        return value if same else apply("reshape", value, shape=term.shape)
    inner = _moved(term.arguments[0], value)
    return apply(term.operator.name, inner, **dict(term.parameters))


def built_targets(tables: DerivationGraph) -> list[int]:
    """The classes of the outputs, all of which were found."""
    return [target for target in tables.targets if target is not None]


def _labels(mask: Mask) -> list[int]:
    """The labels whose grid part is in `mask`."""
    return [bit // BITS for bit in range(0, mask.bit_length(), BITS) if mask >> bit & GRID]


def _stored(tile: ValueClass, tensor: ValueClass, walked: Sequence[int]) -> list[int | None]:
    """The axis on which each grid axis is stored."""
    maps: list[int | None] = []
    for label in walked:
        part = GRID << BITS * label
        (axis,) = (
            axis
            for axis, (tensor_axis, tile_axis) in enumerate(
                zip(tensor.axes, tile.axes, strict=True)
            )
            if sum(tensor_axis) & part and not sum(tile_axis) & part
        )
        maps.append(axis)
    return maps
