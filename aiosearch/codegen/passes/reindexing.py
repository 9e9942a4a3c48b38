"""Fusion of two indices that only occur together, and the split of an index that is divided."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import permutations

from ..ir import Affine, Expression, LoopIndex, Position, ReductionKind, index, places, single_index
from ..ir.affine_maps import ZERO, nested_divisions, substituted, sums
from ..ir.simplification import map_positions

FreshIndex = Callable[[int], LoopIndex]
"""Gives an index of a size that is in use nowhere."""

Layout = tuple[tuple[tuple[int, int], ...], ...]
"""For each axis of a buffer the axes of a value that it runs along, each with its factor."""


@dataclass(frozen=True, slots=True)
class StageDraft:
    """A stage before its buffer is there."""

    at: tuple[Position, ...]
    layout: Layout
    pinned: bool
    """Whether the layout has to stay."""
    value: Expression
    folded: tuple[LoopIndex, ...]
    fold: ReductionKind

    @property
    def free(self) -> list[LoopIndex]:
        """Those that are places as they are."""
        return [one for at in self.at if (one := single_index(at)) is not None]

    def positions(self) -> Iterator[Position]:
        yield from places(self.value)
        yield from self.at if self.pinned else ()


def fuse_index_pair(draft: StageDraft, fresh: FreshIndex) -> StageDraft:
    """Two indices that only come as one flat place, over its whole range, are one index."""
    while (pair := _pair(draft)) is not None:
        outer, inner = pair
        draft = _joined(draft, outer, inner, fresh(outer.size * inner.size))
    return draft


def split_divided_index(draft: StageDraft, fresh: FreshIndex) -> StageDraft:
    """An index that is read through a quotient or a remainder is two, where that ends them all."""
    tried = draft
    while (found := _divided(tried)) is not None:
        one, by = found
        high, low = fresh(one.size // by), fresh(by)
        instead = Affine(((high, by), (low, 1)))
        tried = _with(tried, {one: instead})
        if one in tried.folded:
            place = tried.folded.index(one)
            folded = (*tried.folded[:place], high, low, *tried.folded[place + 1 :])
            tried = replace(tried, folded=folded)
    whole = not any(True for at in tried.positions() for _ in nested_divisions(at))
    return tried if whole else draft


def _pair(draft: StageDraft) -> tuple[LoopIndex, LoopIndex] | None:
    for group in (draft.free, draft.folded):
        for outer, inner in permutations(group, 2):
            if _together(draft, outer, inner):
                return outer, inner
    return None


def _together(draft: StageDraft, outer: LoopIndex, inner: LoopIndex) -> bool:
    met = False
    for at in draft.positions():
        for one in sums(at):
            factors = dict(one.terms)
            if factors.get(outer, 0) != factors.get(inner, 0) * inner.size:
                return False
            met |= inner in factors
    return met


def _joined(draft: StageDraft, outer: LoopIndex, inner: LoopIndex, both: LoopIndex) -> StageDraft:
    changed = _with(draft, {outer: ZERO, inner: index(both)})
    if inner in draft.folded:
        folded = tuple(both if one is inner else one for one in draft.folded if one is not outer)
        return replace(changed, folded=folded)
    if draft.pinned:
        return changed
    first, second = (_axis(draft, one) for one in (outer, inner))
    scaled = tuple((axis, factor * inner.size) for axis, factor in draft.layout[first])
    layout, at = list(draft.layout), list(changed.at)
    layout[second] = (*scaled, *layout[second])
    del layout[first], at[first]
    return replace(changed, at=tuple(at), layout=tuple(layout))


def _axis(draft: StageDraft, one: LoopIndex) -> int:
    return next(axis for axis, at in enumerate(draft.at) if single_index(at) is one)


def _with(draft: StageDraft, others: Mapping[LoopIndex, Position]) -> StageDraft:
    def change(position: Position) -> Position:
        return substituted(position, others)

    at = tuple(map(change, draft.at))
    return replace(draft, at=at, value=map_positions(draft.value, change))


def _divided(draft: StageDraft) -> tuple[LoopIndex, int] | None:
    """An index to cut, and how large its inner part would be."""
    for at in draft.positions():
        for division in nested_divisions(at):
            for one in sums(division.position):
                for own, factor in one.terms:
                    by = division.by // factor if division.by % factor == 0 else 0
                    if 1 < by < own.size and own.size % by == 0:
                        return own, by
    return None
