"""Unification of the indices of a kernel's stages, so that they share one loop nest."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations, product, takewhile

from ..ir import Affine, KernelStage, LoopIndex, Position, index, indices, single_index
from ..ir.affine_maps import substituted
from ..ir.simplification import map_positions


def unify_indices(stages: Sequence[KernelStage]) -> list[KernelStage]:
    """The stages with shared indices.

    An index that reads an axis of another stage's target as it is, is the index that writes it.
    Two that run over the same axis of the same array, all other places being equal, are one, and
    so are those of the first axes of results, as far as sizes agree. No stage's own indices become
    one.
    """
    classes = _IndexClasses(stages)
    for one, other in (*_written(stages), *_matching_result_axes(stages)):
        classes.join(one, other)
    while any(classes.join(one, other) for one, other in _matching_load_indices(stages, classes)):
        pass
    return [rename_indices(stage, classes.heads()) for stage in stages]


def rename_indices(stage: KernelStage, others: dict[LoopIndex, LoopIndex]) -> KernelStage:
    """The stage with other indices for some."""
    instead = {old: index(new) for old, new in others.items()}

    def change(position: Position) -> Position:
        return substituted(position, instead)

    return replace(
        stage,
        at=tuple(map(change, stage.at)),
        value=map_positions(stage.value, change),
        folded=tuple(others.get(one, one) for one in stage.folded),
    )


def is_read_as_written(stages: Sequence[KernelStage]) -> bool:
    """Whether everything is read at the places, and along the indices, that it is written by."""
    written = {stage.target: stage.at for stage in stages}
    loads = [load for stage in stages for load in stage.loads]
    return all(written.get(load.buffer, load.at) == load.at for load in loads)


class _IndexClasses:
    """Indices that are to be one."""

    def __init__(self, stages: Sequence[KernelStage]) -> None:
        self._members: dict[LoopIndex, frozenset[LoopIndex]] = {}
        self._own = [frozenset(stage.indices) for stage in stages]
        for own in self._own:
            self._members.update({one: frozenset({one}) for one in own})

    def head(self, one: LoopIndex) -> LoopIndex:
        return min(self._members[one], key=lambda member: member.name)

    def heads(self) -> dict[LoopIndex, LoopIndex]:
        return {one: self.head(one) for one in self._members}

    def join(self, one: LoopIndex, other: LoopIndex) -> bool:
        """Makes two one, where sizes agree and no stage has both; returns whether that is new."""
        both = self._members[one] | self._members[other]
        if one.size != other.size or self._members[one] == self._members[other]:
            return False
        if any(len(both & own) > 1 for own in self._own):
            return False
        self._members.update(dict.fromkeys(both, both))
        return True


def _written(stages: Sequence[KernelStage]) -> Iterator[tuple[LoopIndex, LoopIndex]]:
    """Indices that read another stage's target as they are, with those that write it."""
    writers = {stage.target: stage for stage in stages}
    for stage in stages:
        for load in stage.loads:
            if load.buffer in writers:
                for at, place in zip(writers[load.buffer].at, load.at, strict=True):
                    one, other = single_index(at), single_index(place)
                    if one is not None and other is not None:
                        yield one, other


def _matching_result_axes(stages: Sequence[KernelStage]) -> Iterator[tuple[LoopIndex, LoopIndex]]:
    """Indices of the first axes of results, as far as their sizes agree."""
    read = {load.buffer for stage in stages for load in stage.loads}
    results = [stage for stage in stages if stage.target not in read]
    for first, second in combinations(results, 2):
        shapes = zip(first.target.shape, second.target.shape, strict=False)
        alike = len(list(takewhile(lambda sizes: sizes[0] == sizes[1], shapes)))
        for left, right in zip(first.at[:alike], second.at[:alike], strict=True):
            yield from _matched(left, right)


def _matched(left: Position, right: Position) -> Iterator[tuple[LoopIndex, LoopIndex]]:
    """The indices of two places, where these are the same but for them."""
    if isinstance(left, Affine) and isinstance(right, Affine) and left.offset == right.offset:
        ones, others = (sorted(at.terms, key=lambda term: term[1]) for at in (left, right))
        factors = [factor for _, factor in ones]
        if factors == [factor for _, factor in others] and len(set(factors)) == len(factors):
            yield from ((one, other) for (one, _), (other, _) in zip(ones, others, strict=True))


def _matching_load_indices(
    stages: Sequence[KernelStage], classes: _IndexClasses
) -> Iterator[tuple[LoopIndex, LoopIndex]]:
    """Indices of two stages that read one array, at places that differ in nothing else."""
    for first, second in combinations([stage.loads for stage in stages], 2):
        for left, right in product(first, second):
            if left.buffer == right.buffer:
                ones, others = (
                    [_by_representative(at, classes) for at in one.at] for one in (left, right)
                )
                pairs = [pair for pair in zip(ones, others, strict=True) if pair[0] != pair[1]]
                if len(pairs) == 1:
                    yield from _matched(*pairs[0])


def _by_representative(position: Position, classes: _IndexClasses) -> Position:
    heads = {one: index(classes.head(one)) for one in indices(position)}
    return substituted(position, heads)
