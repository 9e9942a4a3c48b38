"""A custom kernel's block graph in classes: its grid as fine as can be, partial sums in place."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from testkit.superoptimizer.index_layout import OutsideError
from testkit.superoptimizer.recipes import Accumulated, Loaded, Recipe
from testkit.superoptimizer.table_lookup import Lookup, cut

from aiosearch.superoptimizer.algebra.normal_form import BITS, GRID, LEFT, LOOP, WHOLE, Mask
from aiosearch.superoptimizer.algebra.program_reader import Axis
from aiosearch.superoptimizer.derive.derivations import Derivation, Scope, ValueClass
from aiosearch.superoptimizer.enumeration.block_graphs import DerivedBlockGraph
from aiosearch.superoptimizer.enumeration.kernel_graphs import Skeletons
from aiosearch.tensor import Term


@dataclass(frozen=True)
class _Grid:
    """The labels that a grid cuts: as the program's loads do, and in whatever is loaded."""

    own: tuple[int, ...]
    everywhere: tuple[int, ...] = ()

    def of(self, load: Loaded) -> set[int]:
        return {*self.everywhere, *(label for label in self.own if label in load.cuts)}

    def without(self, label: int) -> _Grid:
        return replace(self, own=tuple(one for one in self.own if one != label))


class Tiles:
    """Finds the classes of a kernel's tiles."""

    def __init__(
        self,
        lookup: Lookup,
        skeletons: Skeletons,
        recipe: Recipe,
        tensors: Mapping[Term, int],
    ) -> None:
        self._lookup = lookup
        self._tables = lookup.tables
        self._skeletons = skeletons
        self._recipe = recipe
        self._tensors = tensors
        self.relaid = False
        """Whether partial sums lie along another axis than in the program, and the grid differs."""

    def graph(self) -> DerivedBlockGraph:
        if len(self._recipe.partial) > 1:
            raise OutsideError("partial sums over two indices")
        grid = _Grid(tuple(self._recipe.grid))
        for label in self._behind():
            grid = grid.without(label)
        graph = self._on(grid)
        for label in grid.own:
            if not self._storable(graph) and label not in self._recipe.partial:
                grid, self.relaid = grid.without(label), True
                graph = self._on(grid)
        while (finer := self._finer(graph)) is not None:
            grid = replace(grid, everywhere=(*grid.everywhere, finer))
            graph = self._on(grid)
        loads = [step.operands[0] for _, step in graph.steps if step.operator == "load"]
        if len(set(loads)) < len(loads):
            raise OutsideError("a tensor loaded in two ways")
        return graph

    # Grids

    def _behind(self) -> set[int]:
        """The labels of the grid that some tensor has behind another on an axis."""
        found = {
            label
            for load in self._recipe.loads
            for label in load.cuts
            if not any(
                axis and axis[0] == WHOLE << BITS * label
                for axis in self._tables.classes[self._tensors[load.source]].axes
            )
        }
        if found & self._recipe.partial:
            raise OutsideError("partial sums of a part of what lies behind partial sums")
        return found

    def _storable(self, graph: DerivedBlockGraph) -> bool:
        return all(self._lookup.has(Derivation("store", (tile,))) for tile in graph.outputs)

    def _finer(self, graph: DerivedBlockGraph) -> int | None:
        """One more label that the grid could split."""
        found = self._skeletons.finer(graph.outputs)
        labels = [bit // BITS for bit in range(0, found.bit_length(), BITS) if found >> bit & WHOLE]
        return next((label for label in labels if self._splits(graph, label)), None)

    def _splits(self, graph: DerivedBlockGraph, label: int) -> bool:
        """Whether no step reduces a label, and nothing that is loaded has it behind another."""
        classes, whole = self._tables.classes, WHOLE << BITS * label
        for number, step in graph.steps:
            left = {piece for axis in classes[number].axes for piece in axis}
            for axis in (axis for operand in step.operands for axis in classes[operand].axes):
                behind = step.operator == "load" and whole in axis[1:]
                if behind or (whole in axis and whole not in left):
                    return False
        return True

    # Tiles

    def _on(self, grid: _Grid) -> DerivedBlockGraph:
        """The block graph on a grid; what is computed twice is computed once."""
        tiles: dict[Term, int] = {}
        steps: dict[int, Derivation] = {}
        for term, own in self._recipe.body:
            if isinstance(own, Loaded):
                source = self._tensors[own.source]
                step, number = Derivation("load", (source,)), self._loaded(source, own, grid)
            elif isinstance(own, Accumulated):
                step = self._accumulated(own, tiles[own.operand])
                number = self._behind_loop(step)
            else:
                operands = tuple(tiles[one] for one in own.operands if one in tiles)
                if own.nothing:
                    (tiles[term],) = operands
                    continue
                step = self._lookup.step(own, operands)
                (number,) = self._lookup.after(step)
            tiles[term] = number
            steps.setdefault(number, step)
        outputs = tuple(tiles[tile] for tile, _ in self._recipe.outputs)
        return cut(DerivedBlockGraph(outputs, tuple(steps.items())), outputs)

    def _behind_loop(self, step: Derivation) -> int:
        """The class of an accumulator; a loop that splits nothing is none."""
        wanted = Scope.AFTER if self._recipe.loops else Scope.STILL
        for number in self._lookup.after(step):
            if self._tables.classes[number].zone is wanted:
                return number
        raise OutsideError("behind a loop, what the loop does not split")

    def _accumulated(self, own: Accumulated, tile: int) -> Derivation:
        """Whatever it is called, by what it reduces."""
        axes = self._tables.classes[tile].axes
        last = axes[-1] if axes else ()
        if own.kind == "none" and own.mask:
            if own.mask == sum(last):
                return Derivation("accumulate", (tile,), "sum")
            if last and last[0] == own.mask:
                return Derivation("accumulate", (tile,), "redtox")
            raise OutsideError("partial sums on another axis")
        if own.kind not in ("none", "max") and own.mask != sum(last):
            raise OutsideError("partial sums on another axis")
        return Derivation("accumulate", (tile,), own.kind)

    def _loaded(self, source: int, own: Loaded, grid: _Grid) -> int:
        of = self._tables.classes[source]
        ways = [_split(axis, grid.of(own), own.loop) for axis in of.axes]
        loop = sum(way[2] for way in ways)
        if loop != own.loop:
            raise OutsideError("a loop over what lies behind partial sums")
        axes, walked = tuple(way[0] for way in ways), sum(way[1] for way in ways)
        return self._lookup.number(ValueClass(of.form, axes, Scope.LOOP, walked, loop))


def _split(axis: Axis, labels: set[int], loop: Mask) -> tuple[Axis, Mask, Mask]:
    """What is left of an axis, and what the grid and the loop walk of it."""
    if not axis:
        return axis, 0, 0
    first, shift = axis[0], (axis[0].bit_length() - 1) // BITS * BITS
    grid = GRID << shift if first >> shift == WHOLE and shift // BITS in labels else 0
    taken = loop & WHOLE << shift
    walks = taken if taken & first == taken and taken >> shift in (LOOP, GRID ^ LEFT) else 0
    return (first & ~grid & ~walks, *axis[1:]), grid, walks
