"""Enumeration of kernel graphs: which kernel computes what from what, whatever goes on inside it.

Problem: which sets of at most `Space.kernels` kernels compute the outputs? A kernel is an operator
of its own (a step of the derivation graph in the device's memory) or a block kernel that is made
for its outputs.

Method: one after the other, a tensor that is needed gets a kernel: an operator, a block kernel, or
one more output of a block kernel that is there. Worked example, rms_norm with three kernels: the
root needs tensor 47 and has 17 children. In one of them an operator computes 47 from the tensors 1
and 11, and 11 is needed next; in another a single block kernel loads the inputs, and nothing is
needed.

Invariants: a node is normal, kernels and needed tensors in sorted order, so that equal nodes have
equal keys however they came about; kernel graphs are acyclic; a node is dropped if the limits
cannot be met below it.

Equal programs are counted once: a grid must not have room for one more axis (`finer`), as a grid of
one block along that axis is the same program.

Cost: the tree has the kernels' loads as branches; how many block graphs a kernel has is counted,
not listed.

See docs/why/superoptimizer.md, "Tables instead of a tree".
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
    """An operator (a derivation by its position in `step`), or a block kernel where `step` is
    -1.
    """

    tensors: tuple[int, ...]
    """The tensors that it stores, in ascending order."""
    loads: Loads
    step: int = -1


class Skeleton(Struct, frozen=True, array_like=True):
    """Kernels so far, sorted by `tensors`, and the tensors that have no kernel yet."""

    kernels: tuple[SkeletonKernel, ...]
    needed: tuple[int, ...]


class Skeletons:
    """The kernel graphs of the space of a `DerivationGraph`."""

    def __init__(self, tables: DerivationGraph) -> None:
        self.tables = tables
        self.blocks = BlockGraphs(tables)
        self._space = tables.space
        self._counted: dict[tuple[int, ...], dict[Loads, int]] = {}

    def root(self, targets: tuple[int, ...]) -> Skeleton:
        """The node without kernels, which needs those of `targets` that are no inputs."""
        available = self.tables.available
        return Skeleton(
            (), tuple(sorted({target for target in targets if target not in available}))
        )

    def expand(self, node: Skeleton) -> Iterator[Skeleton]:
        """Gives the next needed tensor a kernel, in every way; some nodes come up in several."""
        if not node.needed:
            return
        # Only one tensor is served at a time, always the last: serving each in
        # turn would reach the same graphs, only more often.
        tensor, needed = node.needed[-1], node.needed[:-1]
        left = self._space.kernels - len(node.kernels) - 1
        if left >= 0:
            for kernel in self._kernels(tensor, node):
                yield from self._with((*node.kernels, kernel), kernel.loads, needed)
        for number, kernel in enumerate(node.kernels):
            unchanged = (*node.kernels[:number], *node.kernels[number + 1 :])
            for joined in self._extended(kernel, tensor):
                yield from self._with((*unchanged, joined), joined.loads, needed)

    def _with(
        self, kernels: tuple[SkeletonKernel, ...], loads: Loads, needed_before: tuple[int, ...]
    ) -> Iterator[Skeleton]:
        there = {tensor for kernel in kernels for tensor in kernel.tensors} | self.tables.available
        # What the new kernel loads is needed too, unless it is there.
        needed = tuple(sorted({*needed_before, *(load for load in loads if load not in there)}))
        if _acyclic(kernels) and self._may_end(kernels, needed):
            yield Skeleton(tuple(sorted(kernels, key=_order)), needed)

    def _may_end(self, kernels: tuple[SkeletonKernel, ...], needed: tuple[int, ...]) -> bool:
        """Whether what is needed may have kernels of its own, or be one more output of those
        there.
        """
        left = self._space.kernels - len(kernels)
        custom = self._space.custom_kernels - sum(kernel.step < 0 for kernel in kernels)
        further_outputs = min(left, custom) * (self._space.block_outputs - 1)
        # A block kernel that is yet to come serves up to `block_outputs` tensors, an operator one.
        if len(needed) > left + further_outputs + sum(map(self._free_outputs, kernels)):
            return False
        return all(
            self.blocks.needs.kernels[tensor] <= left
            or any(self._free_outputs(kernels[place]) for place in _independent_of(kernels, tensor))
            for tensor in needed
        )

    def lacking(self, kernels: tuple[SkeletonKernel, ...], needed: tuple[int, ...]) -> int:
        """How many kernels more it takes at least for what is needed."""
        homeless = len(needed) - sum(map(self._free_outputs, kernels))
        return max(0, -(-homeless // max(1, self._space.block_outputs)))

    def _free_outputs(self, kernel: SkeletonKernel) -> int:
        """How many outputs `kernel` may still get."""
        return self._space.block_outputs - len(kernel.tensors) if kernel.step < 0 else 0

    def _kernels(self, tensor: int, node: Skeleton) -> Iterator[SkeletonKernel]:
        for number, step in enumerate(self.tables.steps[tensor]):
            if step.operator != "store":
                yield SkeletonKernel((tensor,), tuple(sorted(set(step.operands))), number)
        custom = sum(kernel.step < 0 for kernel in node.kernels)
        if custom < self._space.custom_kernels:
            for loads in self._loads((tensor,)):
                yield SkeletonKernel((tensor,), loads)

    def _extended(self, kernel: SkeletonKernel, tensor: int) -> Iterator[SkeletonKernel]:
        """The block kernels that store `wanted` beside what `kernel` stores."""
        if not self._free_outputs(kernel):
            return
        tensors = tuple(sorted((*kernel.tensors, tensor)))
        for loads in self._loads(tensors):
            # What was chosen to be loaded stays loaded: fewer loads would be another node, reached
            # elsewhere.
            if set(kernel.loads) <= set(loads):
                yield SkeletonKernel(tensors, loads)

    def count(self, kernel: SkeletonKernel) -> int:
        """How many block graphs there are for `kernel`."""
        return 1 if kernel.step >= 0 else self._loads(kernel.tensors)[kernel.loads]

    def _loads(self, tensors: tuple[int, ...]) -> dict[Loads, int]:
        """What block kernels of these outputs load, and how many block graphs each has."""
        counts = self._counted.get(tensors)
        if counts is None:
            counts = self._counted[tensors] = {}
            for tiles in self._stored(tensors):
                for loads, count in self.blocks.counts(tiles, self._space.kernels - 1).items():
                    if self._is_distinct(tensors, tiles, loads):
                        counts[loads] = counts.get(loads, 0) + count
        return counts

    def graphs(
        self, kernel: SkeletonKernel, most: int | None = None
    ) -> Iterator[DerivedBlockGraph]:
        """Every block graph of a block kernel, of at most `most` operators."""
        for tiles in self._tilings(kernel):
            yield from self.blocks.graphs(tiles, kernel.loads, most)

    def _tilings(self, kernel: SkeletonKernel) -> Iterator[tuple[int, ...]]:
        for tiles in self._stored(kernel.tensors):
            if self._is_distinct(kernel.tensors, tiles, kernel.loads):
                yield tiles

    def tilings(self, kernel: SkeletonKernel) -> Iterator[tuple[int, ...]]:
        """The tiles that `kernel` may store, for each of which it has a block graph."""
        for tiles in self._tilings(kernel):
            if kernel.loads in self.blocks.counts(tiles, self._space.kernels - 1):
                yield tiles

    def ahead(
        self, kernel: SkeletonKernel, tiles: tuple[int, ...], steps: Steps
    ) -> list[tuple[int, int]]:
        """The derivations that may come next in the block graph of `kernel` after `steps`."""
        return self.blocks.ahead(tiles, kernel.loads, self._space.kernels - 1, steps)

    def _stored(self, tensors: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
        """The tiles that one kernel may store as `tensors`: of one grid and one
        scope.
        """
        classes = self.tables.classes
        for tiles in product(*map(self._tiles, tensors)):
            kinds = {(classes[tile].zone, classes[tile].grid) for tile in tiles}
            # One kernel has one grid, and stores each tile once.
            alike = len(kinds) == 1 and len(set(tiles)) == len(tiles)
            if alike and not self.finer(tiles) & ~self._inner_labels_anywhere:
                yield tiles

    def _tiles(self, tensor: int) -> list[int]:
        """The classes that are stored as `tensor`."""
        return [step.operands[0] for step in self.tables.steps[tensor] if step.operator == "store"]

    def _is_distinct(self, tensors: tuple[int, ...], tiles: tuple[int, ...], loads: Loads) -> bool:
        """Whether the kernel loads nothing that it stores, and could not have one more grid
        axis.
        """
        finer = self.finer(tiles)
        behind = reduce(or_, (self._inner_labels(load) for load in loads), 0) if finer else 0
        # An index behind another on an axis of a loaded tensor cannot be split by a grid, so a
        # coarser grid is no duplicate there.
        return not set(tensors) & set(loads) and not finer & ~behind

    def finer(self, tiles: tuple[int, ...]) -> Mask:
        """The labels that one more grid axis could split: a grid of one block along them is the
        same program.
        """
        outputs = [self.tables.classes[tile] for tile in tiles]
        bits = range(0, outputs[0].grid.bit_length(), BITS)
        walked = [bit for bit in bits if outputs[0].grid >> bit & GRID]
        if len(walked) >= self._space.grid_axes:
            return 0
        return reduce(and_, (self._splittable(tile_class, walked) for tile_class in outputs))

    def _splittable(self, tile_class: ValueClass, walked: Sequence[int]) -> Mask:
        """The labels of a tile that one more grid axis could split."""
        cut = [axis for axis in tile_class.axes if axis and not is_whole(axis[0])]
        axes = list(tile_class.axes)
        if len(walked) > len(cut):
            del axes[place_of_parts(axes)]
        bound = self.tables.forms.bound(tile_class.form)
        # What the value sums over cannot be split by a grid without changing the value.
        whole = [piece for axis in axes for piece in axis if is_whole(piece)]
        return sum(piece for piece in whole if not piece & bound)

    def _inner_labels(self, tensor: int) -> Mask:
        """The labels that a tensor has behind another on an axis, where no grid splits them."""
        axes = self.tables.classes[tensor].axes
        return reduce(or_, (piece for axis in axes for piece in axis[1:]), 0)

    @cached_property
    def _inner_labels_anywhere(self) -> Mask:
        classes = self.tables.classes
        tensors = [number for number, cls in enumerate(classes) if cls.zone is Scope.DEVICE]
        return reduce(or_, map(self._inner_labels, tensors), 0)


def _order(kernel: SkeletonKernel) -> tuple[tuple[int, ...], Loads, int]:
    """The key by which the kernels of a node are sorted."""
    return kernel.tensors, kernel.loads, kernel.step


def _independent_of(kernels: tuple[SkeletonKernel, ...], tensor: int) -> set[int]:
    """The positions of the kernels that do not need `tensor`, neither directly nor through
    others.
    """
    independent = set(range(len(kernels)))
    stack = [tensor]
    while stack:
        needed = stack.pop()
        for place in [place for place in independent if needed in kernels[place].loads]:
            independent.remove(place)
            stack += kernels[place].tensors
    return independent


def _acyclic(kernels: tuple[SkeletonKernel, ...]) -> bool:
    """Whether the kernels can run in some order."""
    producer = {
        tensor: number for number, kernel in enumerate(kernels) for tensor in kernel.tensors
    }
    before = [{producer[load] for load in kernel.loads if load in producer} for kernel in kernels]
    left = set(range(len(kernels)))
    while ready := {number for number in left if not before[number] & left}:
        left -= ready
    return not left


def in_order(
    kernels: tuple[SkeletonKernel, ...], available: set[int]
) -> tuple[SkeletonKernel, ...]:
    """The kernels in an order in which they can run, which does not depend on how they came
    about.
    """
    left = list(kernels)
    there = set(available)
    ordered: list[SkeletonKernel] = []
    while left:
        kernel = next(kernel for kernel in left if set(kernel.loads) <= there)
        left.remove(kernel)
        ordered.append(kernel)
        there |= set(kernel.tensors)
    return tuple(ordered)
