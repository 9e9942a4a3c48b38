"""Enumeration of kernel graphs: which kernel computes what from what, whatever goes on inside it.

One after the other, a tensor that is needed gets a kernel: an operator of its own, a kernel made
for it, or one more output of a kernel that is there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property, reduce
from itertools import product
from operator import and_, or_

from msgspec import Struct

from ..algebra.normal_form import BITS, GRID, Mask, is_whole
from ..derive.derivations import DerivationGraph, Scope, ValueClass, place_of_parts
from .block_graphs import BlockGraphs, DerivedBlockGraph, Loads, Steps


class SkeletonKernel(Struct, frozen=True, array_like=True):
    """An operator (a step of the tables, by its number), or a kernel made for its outputs."""

    tensors: tuple[int, ...]
    """What it stores, in order."""
    loads: Loads
    step: int = -1


class Skeleton(Struct, frozen=True, array_like=True):
    """Kernels so far, in the order of their outputs, and the tensors that have none yet."""

    kernels: tuple[SkeletonKernel, ...]
    needed: tuple[int, ...]


class Skeletons:
    """The kernel graphs of a space."""

    def __init__(self, tables: DerivationGraph) -> None:
        self.tables = tables
        self.blocks = BlockGraphs(tables)
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
            for kernel in self._kernels(wanted, node):
                yield from self._with((*node.kernels, kernel), kernel.loads, rest)
        for number, kernel in enumerate(node.kernels):
            others = (*node.kernels[:number], *node.kernels[number + 1 :])
            for joined in self._joined(kernel, wanted):
                yield from self._with((*others, joined), joined.loads, rest)

    def _with(
        self, kernels: tuple[SkeletonKernel, ...], loads: Loads, rest: tuple[int, ...]
    ) -> Iterator[Skeleton]:
        there = {tensor for kernel in kernels for tensor in kernel.tensors} | self.tables.given
        needed = tuple(sorted({*rest, *(load for load in loads if load not in there)}))
        if _acyclic(kernels) and self._may_end(kernels, needed):
            yield Skeleton(tuple(sorted(kernels, key=_order)), needed)

    def _may_end(self, kernels: tuple[SkeletonKernel, ...], needed: tuple[int, ...]) -> bool:
        """Whether what is needed may have its kernels, or be one more output of those there."""
        left = self._space.kernels - len(kernels)
        custom = self._space.custom_kernels - sum(kernel.step < 0 for kernel in kernels)
        more = min(left, custom) * (self._space.block_outputs - 1)
        if len(needed) > left + more + sum(map(self._room, kernels)):
            return False
        return all(
            self.blocks.needs.kernels[one] <= left
            or any(self._room(kernels[place]) for place in _apart(kernels, one))
            for one in needed
        )

    def lacking(self, kernels: tuple[SkeletonKernel, ...], needed: tuple[int, ...]) -> int:
        """How many kernels more it takes at least for what is needed."""
        homeless = len(needed) - sum(map(self._room, kernels))
        return max(0, -(-homeless // max(1, self._space.block_outputs)))

    def _room(self, kernel: SkeletonKernel) -> int:
        """How many outputs it may still get."""
        return self._space.block_outputs - len(kernel.tensors) if kernel.step < 0 else 0

    def _kernels(self, wanted: int, node: Skeleton) -> Iterator[SkeletonKernel]:
        for number, step in enumerate(self.tables.steps[wanted]):
            if step.operator != "store":
                yield SkeletonKernel((wanted,), tuple(sorted(set(step.operands))), number)
        custom = sum(kernel.step < 0 for kernel in node.kernels)
        if custom < self._space.custom_kernels:
            for loads in self._loads((wanted,)):
                yield SkeletonKernel((wanted,), loads)

    def _joined(self, kernel: SkeletonKernel, wanted: int) -> Iterator[SkeletonKernel]:
        if not self._room(kernel):
            return
        tensors = tuple(sorted((*kernel.tensors, wanted)))
        for loads in self._loads(tensors):
            if set(kernel.loads) <= set(loads):
                yield SkeletonKernel(tensors, loads)

    def count(self, kernel: SkeletonKernel) -> int:
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

    def graphs(
        self, kernel: SkeletonKernel, most: int | None = None
    ) -> Iterator[DerivedBlockGraph]:
        """Every block graph of a kernel that is made for its outputs; of so many operators."""
        for tiles in self._tilings(kernel):
            yield from self.blocks.graphs(tiles, kernel.loads, most)

    def _tilings(self, kernel: SkeletonKernel) -> Iterator[tuple[int, ...]]:
        for tiles in self._stored(kernel.tensors):
            if self._sensible(kernel.tensors, tiles, kernel.loads):
                yield tiles

    def tilings(self, kernel: SkeletonKernel) -> Iterator[tuple[int, ...]]:
        """The tiles that a kernel may store, for each of which it has a block graph."""
        for tiles in self._tilings(kernel):
            if kernel.loads in self.blocks.counts(tiles, self._space.kernels - 1):
                yield tiles

    def ahead(
        self, kernel: SkeletonKernel, tiles: tuple[int, ...], steps: Steps
    ) -> list[tuple[int, int]]:
        """The steps that may come next in a kernel's block graph, where there is anything next."""
        return self.blocks.ahead(tiles, kernel.loads, self._space.kernels - 1, steps)

    def _stored(self, tensors: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
        """The tiles that one kernel may store as these tensors."""
        classes = self.tables.classes
        for tiles in product(*map(self._tiles, tensors)):
            kinds = {(classes[tile].zone, classes[tile].grid) for tile in tiles}
            alike = len(kinds) == 1 and len(set(tiles)) == len(tiles)
            if alike and not self.finer(tiles) & ~self._behind_any:
                yield tiles

    def _tiles(self, tensor: int) -> list[int]:
        """The classes that are stored as a tensor."""
        return [step.operands[0] for step in self.tables.steps[tensor] if step.operator == "store"]

    def _sensible(self, tensors: tuple[int, ...], tiles: tuple[int, ...], loads: Loads) -> bool:
        """Whether it loads nothing that it stores, and could not have one more grid axis."""
        finer = self.finer(tiles)
        behind = reduce(or_, (self._behind(load) for load in loads), 0) if finer else 0
        return not set(tensors) & set(loads) and not finer & ~behind

    def finer(self, tiles: tuple[int, ...]) -> Mask:
        """The labels that one more grid axis could split: a grid of one block is the same."""
        outputs = [self.tables.classes[tile] for tile in tiles]
        bits = range(0, outputs[0].grid.bit_length(), BITS)
        walked = [bit for bit in bits if outputs[0].grid >> bit & GRID]
        if len(walked) >= self._space.grid_axes:
            return 0
        return reduce(and_, (self._whole(own, walked) for own in outputs))

    def _whole(self, own: ValueClass, walked: Sequence[int]) -> Mask:
        """The labels that one more grid axis could split of a tile."""
        cut = [axis for axis in own.axes if axis and not is_whole(axis[0])]
        axes = list(own.axes)
        if len(walked) > len(cut):
            del axes[place_of_parts(axes)]
        bound = self.tables.forms.bound(own.form)
        whole = [piece for axis in axes for piece in axis if is_whole(piece)]
        return sum(piece for piece in whole if not piece & bound)

    def _behind(self, tensor: int) -> Mask:
        """The labels that a tensor has behind another on an axis, where no grid splits them."""
        axes = self.tables.classes[tensor].axes
        return reduce(or_, (piece for axis in axes for piece in axis[1:]), 0)

    @cached_property
    def _behind_any(self) -> Mask:
        classes = self.tables.classes
        tensors = [number for number, one in enumerate(classes) if one.zone is Scope.DEVICE]
        return reduce(or_, map(self._behind, tensors), 0)


def _order(kernel: SkeletonKernel) -> tuple[tuple[int, ...], Loads, int]:
    return kernel.tensors, kernel.loads, kernel.step


def _apart(kernels: tuple[SkeletonKernel, ...], tensor: int) -> set[int]:
    """The kernels that do not need a tensor, whether directly or through others."""
    found = set(range(len(kernels)))
    stack = [tensor]
    while stack:
        wanted = stack.pop()
        for place in [place for place in found if wanted in kernels[place].loads]:
            found.remove(place)
            stack += kernels[place].tensors
    return found


def _acyclic(kernels: tuple[SkeletonKernel, ...]) -> bool:
    made = {tensor: number for number, one in enumerate(kernels) for tensor in one.tensors}
    before = [{made[load] for load in one.loads if load in made} for one in kernels]
    left = set(range(len(kernels)))
    while ready := {number for number in left if not before[number] & left}:
        left -= ready
    return not left


def in_order(kernels: tuple[SkeletonKernel, ...], given: set[int]) -> tuple[SkeletonKernel, ...]:
    """The kernels in an order in which they can run, the same however they came."""
    left = list(kernels)
    there = set(given)
    found: list[SkeletonKernel] = []
    while left:
        kernel = next(kernel for kernel in left if set(kernel.loads) <= there)
        left.remove(kernel)
        found.append(kernel)
        there |= set(kernel.tensors)
    return tuple(found)
