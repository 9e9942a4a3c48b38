"""Kernel graphs: which kernels compute what from what, whatever goes on inside them.

One after the other, a tensor that is needed gets a kernel: an operator of its own, a kernel made
for it, or one more output of a kernel that is there. So each kernel graph comes up once.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property, reduce
from itertools import product
from operator import or_

from msgspec import Struct

from .blocks import BlockGraph, Blocks
from .forms import BITS, GRID, Mask, is_whole
from .tables import Tables, Zone

Loads = tuple[int, ...]


class Output(Struct, frozen=True, array_like=True):
    """A tensor that a kernel stores, and what it loads for that."""

    tensor: int
    loads: Loads


class Kernel(Struct, frozen=True, array_like=True):
    """An operator (a step of the tables by its number), or a kernel made for its outputs."""

    outputs: tuple[Output, ...]
    step: int = -1

    @property
    def loads(self) -> Loads:
        return tuple(sorted({load for output in self.outputs for load in output.loads}))


class Skeleton(Struct, frozen=True, array_like=True):
    """Kernels so far, and the tensors that have none yet."""

    kernels: tuple[Kernel, ...]
    needed: tuple[int, ...]


class Skeletons:
    """The kernel graphs of a space."""

    def __init__(self, tables: Tables) -> None:
        self.tables = tables
        self.blocks = Blocks(tables)
        self._space = tables.space
        self._singles: dict[int, dict[Loads, int]] = {}
        self._several: dict[tuple[int, ...], dict[tuple[Loads, ...], int]] = {}

    def root(self, targets: tuple[int, ...]) -> Skeleton:
        given = self.tables.given
        return Skeleton((), tuple(sorted({one for one in targets if one not in given})))

    def expand(self, node: Skeleton) -> Iterator[Skeleton]:
        """Gives the next needed tensor a kernel, in every way."""
        if not node.needed:
            return
        wanted, rest = node.needed[-1], node.needed[:-1]
        left = self._space.kernels - len(node.kernels) - 1
        if left >= 0:
            for kernel in self._kernels(wanted, node, left):
                yield from self._with(node, (*node.kernels, kernel), kernel.loads, rest)
        for number, kernel in enumerate(node.kernels):
            for joined in self._joined(kernel, wanted, left + 1):
                kernels = (*node.kernels[:number], joined, *node.kernels[number + 1 :])
                yield from self._with(node, kernels, joined.loads, rest)

    def _with(
        self, node: Skeleton, kernels: tuple[Kernel, ...], loads: Loads, rest: tuple[int, ...]
    ) -> Iterator[Skeleton]:
        made = {output.tensor for kernel in kernels for output in kernel.outputs}
        given = self.tables.given
        needed = {*rest, *(load for load in loads if load not in made and load not in given)}
        left = self._space.kernels - len(kernels)
        far = sum(self.blocks.kernels[one] > left for one in needed)
        if far > sum(self._room(kernel) for kernel in kernels):
            return
        if _acyclic(kernels):
            yield Skeleton(kernels, tuple(sorted(needed)))

    def _room(self, kernel: Kernel) -> int:
        """How many outputs it may still get."""
        return self._space.block_outputs - len(kernel.outputs) if kernel.step < 0 else 0

    def _kernels(self, wanted: int, node: Skeleton, left: int) -> Iterator[Kernel]:
        near = self.blocks.kernels
        for number, step in enumerate(self.tables.steps[wanted]):
            if step.operator != "store" and all(near[one] <= left for one in step.operands):
                yield Kernel((Output(wanted, tuple(sorted(set(step.operands)))),), number)
        custom = sum(kernel.step < 0 for kernel in node.kernels)
        if custom < self._space.custom_kernels:
            for loads in self.singles(wanted):
                if all(near[one] <= left for one in loads):
                    yield Kernel((Output(wanted, loads),))

    def singles(self, wanted: int) -> dict[Loads, int]:
        """The kernels of one output, by their inputs, and how many graphs each has."""
        found = self._singles.get(wanted)
        if found is None:
            found = self._singles[wanted] = {}
            for graph in self._graphs((wanted,)):
                found[graph.loads] = found.get(graph.loads, 0) + 1
        return found

    def _graphs(self, tensors: tuple[int, ...]) -> Iterator[BlockGraph]:
        """The block graphs of one kernel that stores these tensors and needs none of them."""
        classes = self.tables.classes
        for tiles in product(*map(self._tiles, tensors)):
            kinds = {(classes[tile].zone, classes[tile].grid) for tile in tiles}
            if len(kinds) > 1 or len(set(tiles)) < len(tiles):
                continue
            for graph in self.blocks.graphs(tiles, self._space.kernels - 1):
                if not set(tensors) & set(graph.loads) and not self._same_as_finer(graph):
                    yield graph

    def graphs(self, kernel: Kernel) -> Iterator[BlockGraph]:
        """Every block graph of a kernel that is made for its outputs."""
        wanted = tuple(output.loads for output in kernel.outputs)
        for graph in self._graphs(tuple(output.tensor for output in kernel.outputs)):
            if tuple(loads_of(graph, tile) for tile in graph.outputs) == wanted:
                yield graph

    def _tiles(self, tensor: int) -> list[int]:
        """The classes that are stored as a tensor."""
        tiles = [step.operands[0] for step in self.tables.steps[tensor] if step.operator == "store"]
        return [tile for tile in tiles if not self._finer(tile) & ~self._behind]

    def _finer(self, tile: int) -> Mask:
        """The labels that one more grid axis could split: a grid of one block is the same."""
        own = self.tables.classes[tile]
        if sum(own.grid >> bit & GRID > 0 for bit in range(0, own.grid.bit_length(), BITS)) >= (
            self._space.grid_axes
        ):
            return 0
        bound = self.tables.forms.bound(own.form)
        whole = [piece for axis in own.axes for piece in axis if is_whole(piece)]
        return sum(piece for piece in whole if not piece & bound)

    @cached_property
    def _behind(self) -> Mask:
        """The labels that some tensor has behind another on an axis, where no grid splits them."""
        axes = {axis for one in self.tables.classes if one.zone is Zone.DEVICE for axis in one.axes}
        return reduce(or_, (piece for axis in axes for piece in axis[1:]), 0)

    def _same_as_finer(self, graph: BlockGraph) -> bool:
        """Whether there is the same graph with one more grid axis."""
        finer = reduce(or_, (self._finer(tile) for tile in graph.outputs), 0)
        classes = self.tables.classes
        for number, step in graph.steps if finer else ():
            local = reduce(or_, (sum(axis) for axis in classes[number].axes), 0)
            for operand in step.operands:
                for axis in classes[operand].axes:
                    finer &= ~(sum(axis) & ~local)
                    if step.operator == "load":
                        finer &= ~sum(axis[1:])
        return finer > 0

    def _joined(self, kernel: Kernel, wanted: int, left: int) -> Iterator[Kernel]:
        if not self._room(kernel):
            return
        own = tuple(output.loads for output in kernel.outputs)
        tensors = tuple(output.tensor for output in kernel.outputs)
        for loads in self.several((*tensors, wanted)):
            if loads[:-1] == own and all(self.blocks.kernels[one] <= left for one in loads[-1]):
                yield Kernel((*kernel.outputs, Output(wanted, loads[-1])))

    def several(self, tensors: tuple[int, ...]) -> dict[tuple[Loads, ...], int]:
        """The kernels of several outputs, by what each of them is made of."""
        found = self._several.get(tensors)
        if found is None and tensors != tuple(sorted(tensors)):
            order = sorted(range(len(tensors)), key=lambda at: tensors[at])
            back = [order.index(at) for at in range(len(tensors))]
            straight = self.several(tuple(sorted(tensors)))
            found = self._several[tensors] = {
                tuple(loads[at] for at in back): count for loads, count in straight.items()
            }
        if found is None:
            found = self._several[tensors] = {}
            for graph in self._graphs(tensors):
                key = tuple(loads_of(graph, tile) for tile in graph.outputs)
                found[key] = found.get(key, 0) + 1
        return found

    def count(self, kernel: Kernel) -> int:
        """How many block graphs there are for a kernel."""
        if kernel.step >= 0:
            return 1
        loads = tuple(output.loads for output in kernel.outputs)
        tensors = tuple(output.tensor for output in kernel.outputs)
        return self.several(tensors)[loads] if len(loads) > 1 else self.singles(*tensors)[loads[0]]


def loads_of(graph: BlockGraph, tile: int) -> Loads:
    """The tensors that one output of a block graph is made of."""
    steps = dict(graph.steps)
    found: set[int] = set()
    seen: set[int] = set()
    stack = [tile]
    while stack:
        number = stack.pop()
        if number in seen:
            continue
        seen.add(number)
        step = steps[number]
        if step.operator == "load":
            found.add(step.operands[0])
        else:
            stack.extend(step.operands)
    return tuple(sorted(found))


def _acyclic(kernels: tuple[Kernel, ...]) -> bool:
    made = {output.tensor: number for number, one in enumerate(kernels) for output in one.outputs}
    before = [{made[load] for load in one.loads if load in made} for one in kernels]
    left = set(range(len(kernels)))
    while ready := {number for number in left if not before[number] & left}:
        left -= ready
    return not left
