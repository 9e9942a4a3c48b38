"""Fusion of two indices that only occur together, and the split of an index that is divided.

Problem: after reshapes, positions such as `4i + j` and `k / 4` stand in stages. A loop over k that
divides costs an instruction per element and hides that rows are contiguous; two loops where one
flat one would do leave vectors half empty.

Worked example: `sum over k of X[i, k / 4, k % 4]` with k below 16 becomes `sum over a, b of X[i, a,
b]` with a and b below 4. Conversely `out[4i + j] = exp(X[4i + j])` becomes `out[k] = exp(X[k])`.

Invariant: a draft computes the same elements for the same positions; a split is only kept if it
removes all divisions. A layout says how the axes of the value are found again in the buffer.

Cost: pairs of indices of a stage times its positions.

See docs/why/kernels.md, "The tile IR".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import permutations

from ..ir import Affine, Expression, LoopIndex, Position, ReductionKind, index, places, single_index
from ..ir.affine_maps import ZERO, nested_divisions, substituted, sums
from ..ir.simplification import map_positions

FreshIndex = Callable[[int], LoopIndex]
"""Makes a `LoopIndex` of a size that is in use nowhere."""

Layout = tuple[tuple[tuple[int, int], ...], ...]
"""For each axis of a buffer the axes of a value that it runs along, each with its factor: `((0, 8),
(1, 1))` runs along axis 0 in steps of 8 and along axis 1."""


@dataclass(frozen=True, slots=True)
class StageDraft:
    """A `KernelStage` before its buffer is there."""

    at: tuple[Position, ...]
    layout: Layout
    pinned: bool
    """Whether the layout has to stay, as that of an output."""
    value: Expression
    folded: tuple[LoopIndex, ...]
    reduction: ReductionKind

    @property
    def free(self) -> list[LoopIndex]:
        """The indices that are positions of `at` as they are."""
        return [single for at in self.at if (single := single_index(at)) is not None]

    def positions(self) -> Iterator[Position]:
        """The positions that must stay simple: in the value, and where the target is pinned also
        its own.
        """
        yield from places(self.value)
        yield from self.at if self.pinned else ()


def fuse_index_pair(draft: StageDraft, fresh: FreshIndex) -> StageDraft:
    """`draft` where two indices that only come as one flat position, over its whole range, are one
    index.
    """
    # Every fusion removes an index, so this ends.
    while (pair := _pair(draft)) is not None:
        outer, inner = pair
        draft = _with_fused_pair(draft, outer, inner, fresh(outer.size * inner.size))
    return draft


def split_divided_index(draft: StageDraft, fresh: FreshIndex) -> StageDraft:
    """`draft` where an index that is read through a quotient or a remainder is two, if that ends
    them all.
    """
    tried = draft
    while (division := _divided_index(tried)) is not None:
        divided_index, by = division
        # k = by·high + low, with low below `by`: k / by is high and k % by is low for all k below
        # the size, which `by` divides.
        high, low = fresh(divided_index.size // by), fresh(by)
        instead = Affine(((high, by), (low, 1)))
        tried = _with_positions(tried, {divided_index: instead})
        if divided_index in tried.folded:
            place = tried.folded.index(divided_index)
            folded = (*tried.folded[:place], high, low, *tried.folded[place + 1 :])
            tried = replace(tried, folded=folded)
    whole = not any(True for at in tried.positions() for _ in nested_divisions(at))
    # With some division left the split has bought nothing, and there would be one loop more.
    return tried if whole else draft


def _pair(draft: StageDraft) -> tuple[LoopIndex, LoopIndex] | None:
    """Two indices that can be fused, outer first, or None."""
    # A free index cannot be fused with a reduced one: their loops end at different places.
    for group in (draft.free, draft.folded):
        for outer, inner in permutations(group, 2):
            if _always_together(draft, outer, inner):
                return outer, inner
    return None


def _always_together(draft: StageDraft, outer: LoopIndex, inner: LoopIndex) -> bool:
    """Whether everywhere the factor of `outer` is that of `inner` times the size of `inner`."""
    met = False
    for at in draft.positions():
        for part in sums(at):
            factors = dict(part.terms)
            # One position where the two are not a flat number is enough to keep them apart.
            if factors.get(outer, 0) != factors.get(inner, 0) * inner.size:
                return False
            met |= inner in factors
    return met


def _with_fused_pair(
    draft: StageDraft, outer: LoopIndex, inner: LoopIndex, both: LoopIndex
) -> StageDraft:
    """The draft with `both` in the place of `outer` and `inner`."""
    # Since outer·size + inner is `both`, the terms of outer vanish and inner becomes `both`.
    changed = _with_positions(draft, {outer: ZERO, inner: index(both)})
    if inner in draft.folded:
        folded = tuple(
            both if loop_index is inner else loop_index
            for loop_index in draft.folded
            if loop_index is not outer
        )
        return replace(changed, folded=folded)
    if draft.pinned:
        return changed
    first, second = (_axis(draft, loop_index) for loop_index in (outer, inner))
    # The buffer's axis is flat now: an axis of the value that ran along `outer` counts `inner.size`
    # elements at each step.
    scaled = tuple((axis, factor * inner.size) for axis, factor in draft.layout[first])
    layout, at = list(draft.layout), list(changed.at)
    layout[second] = (*scaled, *layout[second])
    # The axis of `outer` goes after that of `inner` has taken it over; `first` indexes both lists
    # alike.
    del layout[first], at[first]
    return replace(changed, at=tuple(at), layout=tuple(layout))


def _axis(draft: StageDraft, loop_index: LoopIndex) -> int:
    """The axis of the target at which an index is the position."""
    return next(axis for axis, at in enumerate(draft.at) if single_index(at) is loop_index)


def _with_positions(draft: StageDraft, replacements: Mapping[LoopIndex, Position]) -> StageDraft:
    """`draft` with other positions for the indices in `replacements`."""

    def change(position: Position) -> Position:
        return substituted(position, replacements)

    at = tuple(map(change, draft.at))
    return replace(draft, at=at, value=map_positions(draft.value, change))


def _divided_index(draft: StageDraft) -> tuple[LoopIndex, int] | None:
    """An index to split, and how large its inner part has to be for a division to vanish; or
    None.
    """
    for at in draft.positions():
        for division in nested_divisions(at):
            for part in sums(division.position):
                for loop_index, factor in part.terms:
                    # (4i)/8 divides i by 2; where the factor does not divide, splitting i would not
                    # remove the division.
                    by = division.by // factor if division.by % factor == 0 else 0
                    if 1 < by < loop_index.size and loop_index.size % by == 0:
                        return loop_index, by
    return None
