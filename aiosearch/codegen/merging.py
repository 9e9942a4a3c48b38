"""Which indices of a kernel's stages are one, so that the stages can run along it together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations, product, takewhile

from .expressions import relocated
from .ir import Affine, Index, Position, Stage, alone, index, indices
from .positions import substituted


def merged(stages: Sequence[Stage]) -> list[Stage]:
    """The stages with shared indices.

    An index that reads an axis of another stage's target as it is, is the index that writes it.
    Two that run over the same axis of the same array, all other places being equal, are one, and
    so are those of the first axes of results, as far as sizes agree. No stage's own indices become
    one.
    """
    classes = _Classes(stages)
    for one, other in (*_written(stages), *_beside(stages)):
        classes.join(one, other)
    while any(classes.join(one, other) for one, other in _alike(stages, classes)):
        pass
    return [renamed(stage, classes.heads()) for stage in stages]


def renamed(stage: Stage, others: dict[Index, Index]) -> Stage:
    """The stage with other indices for some."""
    instead = {old: index(new) for old, new in others.items()}

    def change(position: Position) -> Position:
        return substituted(position, instead)

    return replace(
        stage,
        at=tuple(map(change, stage.at)),
        value=relocated(stage.value, change),
        folded=tuple(others.get(one, one) for one in stage.folded),
    )


def in_place(stages: Sequence[Stage]) -> bool:
    """Whether everything is read at the places, and along the indices, that it is written by."""
    written = {stage.target: stage.at for stage in stages}
    loads = [load for stage in stages for load in stage.loads]
    return all(written.get(load.buffer, load.at) == load.at for load in loads)


class _Classes:
    """Indices that are to be one."""

    def __init__(self, stages: Sequence[Stage]) -> None:
        self._members: dict[Index, frozenset[Index]] = {}
        self._own = [frozenset(stage.indices) for stage in stages]
        for own in self._own:
            self._members.update({one: frozenset({one}) for one in own})

    def head(self, one: Index) -> Index:
        return min(self._members[one], key=lambda member: member.name)

    def heads(self) -> dict[Index, Index]:
        return {one: self.head(one) for one in self._members}

    def join(self, one: Index, other: Index) -> bool:
        """Makes two one, where sizes agree and no stage has both; returns whether that is new."""
        both = self._members[one] | self._members[other]
        if one.size != other.size or self._members[one] == self._members[other]:
            return False
        if any(len(both & own) > 1 for own in self._own):
            return False
        self._members.update(dict.fromkeys(both, both))
        return True


def _written(stages: Sequence[Stage]) -> Iterator[tuple[Index, Index]]:
    """Indices that read another stage's target as they are, with those that write it."""
    writers = {stage.target: stage for stage in stages}
    for stage in stages:
        for load in stage.loads:
            if load.buffer in writers:
                for at, place in zip(writers[load.buffer].at, load.at, strict=True):
                    one, other = alone(at), alone(place)
                    if one is not None and other is not None:
                        yield one, other


def _beside(stages: Sequence[Stage]) -> Iterator[tuple[Index, Index]]:
    """Indices of the first axes of results, as far as their sizes agree."""
    read = {load.buffer for stage in stages for load in stage.loads}
    results = [stage for stage in stages if stage.target not in read]
    for first, second in combinations(results, 2):
        shapes = zip(first.target.shape, second.target.shape, strict=False)
        alike = len(list(takewhile(lambda sizes: sizes[0] == sizes[1], shapes)))
        for left, right in zip(first.at[:alike], second.at[:alike], strict=True):
            yield from _matched(left, right)


def _matched(left: Position, right: Position) -> Iterator[tuple[Index, Index]]:
    """The indices of two places, where these are the same but for them."""
    if isinstance(left, Affine) and isinstance(right, Affine) and left.offset == right.offset:
        ones, others = (sorted(at.terms, key=lambda term: term[1]) for at in (left, right))
        factors = [factor for _, factor in ones]
        if factors == [factor for _, factor in others] and len(set(factors)) == len(factors):
            yield from ((one, other) for (one, _), (other, _) in zip(ones, others, strict=True))


def _alike(stages: Sequence[Stage], classes: _Classes) -> Iterator[tuple[Index, Index]]:
    """Indices of two stages that read one array, at places that differ in nothing else."""
    for first, second in combinations([stage.loads for stage in stages], 2):
        for left, right in product(first, second):
            if left.buffer == right.buffer:
                ones, others = ([_headed(at, classes) for at in one.at] for one in (left, right))
                pairs = [pair for pair in zip(ones, others, strict=True) if pair[0] != pair[1]]
                if len(pairs) == 1:
                    yield from _matched(*pairs[0])


def _headed(position: Position, classes: _Classes) -> Position:
    heads = {one: index(classes.head(one)) for one in indices(position)}
    return substituted(position, heads)
