"""Kernel graphs: which kernels compute what from what, whatever goes on inside them.

One after the other, a tensor that is needed gets a kernel: an operator of its own, a kernel made
for it, or one more output of a kernel that is there.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property, reduce
from itertools import product
from operator import or_

from msgspec import Struct

from .blocks import BlockGraph, Blocks, Loads
from .forms import BITS, GRID, Mask, is_whole
from .tables import Tables, Zone


class Kernel(Struct, frozen=True, array_like=True):
    """An operator (a step of the tables, by its number), or a kernel made for its outputs."""

    tensors: tuple[int, ...]
    """What it stores, in order."""
    loads: Loads
    step: int = -1


class Skeleton(Struct, frozen=True, array_like=True):
    """Kernels so far, in the order of their outputs, and the tensors that have none yet."""

    kernels: tuple[Kernel, ...]
    needed: tuple[int, ...]


class Skeletons:
    """The kernel graphs of a space."""

    def __init__(self, tables: Tables) -> None:
        self.tables = tables
        self.blocks = Blocks(tables)
        self._space = tables.space
        self._counted: dict[tuple[int, ...], dict[Loads, int]] = {}

    def root(self, targets: tuple[int, ...]) -> Skeleton:
        given = self.tables.given
        return Skeleton((), tuple(sorted({one for one in targets if one not in given})))

    def expand(self, node: Skeleton) -> Iterator[Skeleton]:
        """Gives the next needed tensor a kernel, in every way; some nodes come up in several."""
        if not node.needed:
            return
        wanted, rest = node.needed[-1], node.needed[:-1]
        left = self._space.kernels - len(node.kernels) - 1
        if left >= 0:
            for kernel in self._kernels(wanted, node, left):
                yield from self._with((*node.kernels, kernel), kernel.loads, rest)
        for number, kernel in enumerate(node.kernels):
            others = (*node.kernels[:number], *node.kernels[number + 1 :])
            for joined in self._joined(kernel, wanted, left + 1):
                yield from self._with((*others, joined), joined.loads, rest)

    def _with(
        self, kernels: tuple[Kernel, ...], loads: Loads, rest: tuple[int, ...]
    ) -> Iterator[Skeleton]:
        there = {tensor for kernel in kernels for tensor in kernel.tensors} | self.tables.given
        needed = {*rest, *(load for load in loads if load not in there)}
        left = self._space.kernels - len(kernels)
        far = sum(self.blocks.kernels[one] > left for one in needed)
        if far <= sum(map(self._room, kernels)) and _acyclic(kernels):
            yield Skeleton(tuple(sorted(kernels, key=_order)), tuple(sorted(needed)))

    def _room(self, kernel: Kernel) -> int:
        """How many outputs it may still get."""
        return self._space.block_outputs - len(kernel.tensors) if kernel.step < 0 else 0

    def _kernels(self, wanted: int, node: Skeleton, left: int) -> Iterator[Kernel]:
        near = self.blocks.kernels
        for number, step in enumerate(self.tables.steps[wanted]):
            if step.operator != "store" and all(near[one] <= left for one in step.operands):
                yield Kernel((wanted,), tuple(sorted(set(step.operands))), number)
        custom = sum(kernel.step < 0 for kernel in node.kernels)
        if custom < self._space.custom_kernels:
            for loads in self._loads((wanted,)):
                if all(near[one] <= left for one in loads):
                    yield Kernel((wanted,), loads)

    def _joined(self, kernel: Kernel, wanted: int, left: int) -> Iterator[Kernel]:
        if not self._room(kernel):
            return
        tensors = tuple(sorted((*kernel.tensors, wanted)))
        for loads in self._loads(tensors):
            new = set(loads) - set(kernel.loads)
            if len(loads) == len(kernel.loads) + len(new) and all(
                self.blocks.kernels[one] <= left for one in new
            ):
                yield Kernel(tensors, loads)

    def count(self, kernel: Kernel) -> int:
        """How many block graphs there are for a kernel."""
        return 1 if kernel.step >= 0 else self._loads(kernel.tensors)[kernel.loads]

    def _loads(self, tensors: tuple[int, ...]) -> dict[Loads, int]:
        """What kernels of these outputs load, and how many block graphs each has."""
        found = self._counted.get(tensors)
        if found is None:
            found = self._counted[tensors] = {}
            for tiles in self._stored(tensors):
                for loads, count in self.blocks.counts(tiles, self._space.kernels - 1).items():
                    if self._sensible(tensors, tiles, loads):
                        found[loads] = found.get(loads, 0) + count
        return found

    def graphs(self, kernel: Kernel) -> Iterator[BlockGraph]:
        """Every block graph of a kernel that is made for its outputs."""
        for tiles in self._stored(kernel.tensors):
            if self._sensible(kernel.tensors, tiles, kernel.loads):
                yield from self.blocks.graphs(tiles, kernel.loads)

    def _stored(self, tensors: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
        """The tiles that one kernel may store as these tensors."""
        classes = self.tables.classes
        for tiles in product(*map(self._tiles, tensors)):
            kinds = {(classes[tile].zone, classes[tile].grid) for tile in tiles}
            alike = len(kinds) == 1 and len(set(tiles)) == len(tiles)
            if alike and not self._finer(tiles) & ~self._behind_any:
                yield tiles

    def _tiles(self, tensor: int) -> list[int]:
        """The classes that are stored as a tensor."""
        return [step.operands[0] for step in self.tables.steps[tensor] if step.operator == "store"]

    def _sensible(self, tensors: tuple[int, ...], tiles: tuple[int, ...], loads: Loads) -> bool:
        """Whether it loads nothing that it stores, and could not have one more grid axis."""
        finer = self._finer(tiles)
        behind = reduce(or_, (self._behind(load) for load in loads), 0) if finer else 0
        return not set(tensors) & set(loads) and not finer & ~behind

    def _finer(self, tiles: tuple[int, ...]) -> Mask:
        """The labels that one more grid axis could split: a grid of one block is the same."""
        outputs = [self.tables.classes[tile] for tile in tiles]
        bits = range(0, outputs[0].grid.bit_length(), BITS)
        if sum(outputs[0].grid >> bit & GRID > 0 for bit in bits) >= self._space.grid_axes:
            return 0
        bound = reduce(or_, (self.tables.forms.bound(own.form) for own in outputs), 0)
        pieces = [piece for own in outputs for axis in own.axes for piece in axis]
        whole = (piece for piece in pieces if is_whole(piece) and not piece & bound)
        return reduce(or_, whole, 0)

    def _behind(self, tensor: int) -> Mask:
        """The labels that a tensor has behind another on an axis, where no grid splits them."""
        axes = self.tables.classes[tensor].axes
        return reduce(or_, (piece for axis in axes for piece in axis[1:]), 0)

    @cached_property
    def _behind_any(self) -> Mask:
        classes = self.tables.classes
        tensors = [number for number, one in enumerate(classes) if one.zone is Zone.DEVICE]
        return reduce(or_, map(self._behind, tensors), 0)


def _order(kernel: Kernel) -> tuple[tuple[int, ...], Loads, int]:
    return kernel.tensors, kernel.loads, kernel.step


def _acyclic(kernels: tuple[Kernel, ...]) -> bool:
    made = {tensor: number for number, one in enumerate(kernels) for tensor in one.tensors}
    before = [{made[load] for load in one.loads if load in made} for one in kernels]
    left = set(range(len(kernels)))
    while ready := {number for number in left if not before[number] & left}:
        left -= ready
    return not left
