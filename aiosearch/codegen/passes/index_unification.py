"""Unification of the indices of a kernel's stages, so that they share one loop nest.

Problem: each stage is written with indices of its own. Loops can only be shared where two stages
use one index, so it has to be found out which indices of different stages mean the same.

Worked example: `t[#1] = sum over #2 of X[#1, #2]` and `out[#3, #4] = X[#3, #4] / t[#3]`. The reader
`t[#3]` of the target `t[#1]` makes #1 and #3 one; then `X[#1, #2]` and `X[#1, #4]` differ in #2 and
#4 alone, which become one too.

Invariants: only indices of one size are unified, and never two of one stage: a stage that ran along
a diagonal would compute less. Unification changes names, not what a stage computes.

Cost: pairs of loads of one array, again for each unification found.

See docs/why/kernels.md, "The tile IR".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations, product, takewhile

from ..ir import Affine, KernelStage, LoopIndex, Position, index, indices, single_index
from ..ir.affine_maps import substituted
from ..ir.simplification import map_positions


def unify_indices(stages: Sequence[KernelStage]) -> list[KernelStage]:
    """The stages with shared indices.

    An index that reads an axis of another stage's target as it is, is the index that writes it. Two
    that run over the same axis of the same array, all other positions being equal, are one, and so
    are those of the first axes of results, as far as sizes agree. No two indices of a stage become
    one.
    """
    # The order of these pairs decides ties: what is read from a target of the kernel comes first,
    # since it is what allows stages to share loops.
    classes = _IndexClasses(stages)
    for left, right in (*_written(stages), *_matching_result_axes(stages)):
        classes.join(left, right)
    # Each unification can make another pair of loads equal but for one index, so this goes on until
    # nothing is new. `any` stops at the first new pair, as the classes have changed.
    while any(classes.join(left, right) for left, right in _matching_load_indices(stages, classes)):
        pass
    return [rename_indices(stage, classes.heads()) for stage in stages]


def rename_indices(stage: KernelStage, replacements: dict[LoopIndex, LoopIndex]) -> KernelStage:
    """`stage` with other indices for those in `replacements`."""
    # Substitution simplifies positions again, so a renamed index may cancel a division.
    instead = {old: index(new) for old, new in replacements.items()}

    def change(position: Position) -> Position:
        return substituted(position, instead)

    return replace(
        stage,
        at=tuple(map(change, stage.at)),
        value=map_positions(stage.value, change),
        folded=tuple(replacements.get(old, old) for old in stage.folded),
    )


def is_read_as_written(stages: Sequence[KernelStage]) -> bool:
    """Whether all of `stages` read what the others fill at the positions, and along the indices, at
    which it is written.

    If so, all stages can run in one loop nest: an element is read in the iteration that has written
    it.
    """
    written = {stage.target: stage.at for stage in stages}
    loads = [load for stage in stages for load in stage.loads]
    return all(written.get(load.buffer, load.at) == load.at for load in loads)


class _IndexClasses:
    """Which indices are to be one: `head` of two of them is then the same."""

    def __init__(self, stages: Sequence[KernelStage]) -> None:
        self._members: dict[LoopIndex, frozenset[LoopIndex]] = {}
        self._own = [frozenset(stage.indices) for stage in stages]
        for stage_indices in self._own:
            self._members.update(
                {loop_index: frozenset({loop_index}) for loop_index in stage_indices}
            )

    def head(self, loop_index: LoopIndex) -> LoopIndex:
        """The member of its class that an index is replaced by, the first by name."""
        return min(self._members[loop_index], key=lambda member: member.name)

    def heads(self) -> dict[LoopIndex, LoopIndex]:
        return {loop_index: self.head(loop_index) for loop_index in self._members}

    def join(self, left: LoopIndex, right: LoopIndex) -> bool:
        """Makes `left` and `right` one, where sizes agree and no stage has both; returns whether
        that is new.
        """
        # The head of a class is its first member by name, so names do not depend on the order
        # of joins.
        both = self._members[left] | self._members[right]
        if left.size != right.size or self._members[left] == self._members[right]:
            return False
        # Legality: a stage that has two members of a class would run along a diagonal after the
        # renaming.
        if any(len(both & stage_indices) > 1 for stage_indices in self._own):
            return False
        self._members.update(dict.fromkeys(both, both))
        return True


def _written(stages: Sequence[KernelStage]) -> Iterator[tuple[LoopIndex, LoopIndex]]:
    """Indices that read another stage's target as they are, each with the index that writes it."""
    writers = {stage.target: stage for stage in stages}
    for stage in stages:
        for load in stage.loads:
            if load.buffer in writers:
                for at, place in zip(writers[load.buffer].at, load.at, strict=True):
                    writer, reader = single_index(at), single_index(place)
                    if writer is not None and reader is not None:
                        yield writer, reader


def _matching_result_axes(stages: Sequence[KernelStage]) -> Iterator[tuple[LoopIndex, LoopIndex]]:
    """Indices of the first axes of results, as far as their sizes agree."""
    read = {load.buffer for stage in stages for load in stage.loads}
    results = [stage for stage in stages if stage.target not in read]
    for first, second in combinations(results, 2):
        shapes = zip(first.target.shape, second.target.shape, strict=False)
        # Results are matched from their first axes on: outputs of one kernel usually share rows,
        # and stop being alike at the first axis that differs.
        alike = len(list(takewhile(lambda sizes: sizes[0] == sizes[1], shapes)))
        for left, right in zip(first.at[:alike], second.at[:alike], strict=True):
            yield from _matched(left, right)


def _matched(left: Position, right: Position) -> Iterator[tuple[LoopIndex, LoopIndex]]:
    """The pairs of indices of two positions that are equal but for them: `8i + j` and `8k + l` give
    (j, l) and (i, k).
    """
    if isinstance(left, Affine) and isinstance(right, Affine) and left.offset == right.offset:
        left_terms, right_terms = (
            sorted(at.terms, key=lambda term: term[1]) for at in (left, right)
        )
        factors = [factor for _, factor in left_terms]
        # Indices are paired by their factors, which therefore have to be different: in i + j
        # nothing says which index corresponds to which.
        if factors == [factor for _, factor in right_terms] and len(set(factors)) == len(factors):
            yield from (
                (left_index, right_index)
                for (left_index, _), (right_index, _) in zip(left_terms, right_terms, strict=True)
            )


def _matching_load_indices(
    stages: Sequence[KernelStage], classes: _IndexClasses
) -> Iterator[tuple[LoopIndex, LoopIndex]]:
    """Indices of two stages that load one array, at positions that differ in nothing else."""
    for first, second in combinations([stage.loads for stage in stages], 2):
        for left, right in product(first, second):
            if left.buffer == right.buffer:
                left_places, right_places = (
                    [_by_representative(at, classes) for at in load.at] for load in (left, right)
                )
                pairs = [
                    pair
                    for pair in zip(left_places, right_places, strict=True)
                    if pair[0] != pair[1]
                ]
                if len(pairs) == 1:
                    yield from _matched(*pairs[0])


def _by_representative(position: Position, classes: _IndexClasses) -> Position:
    """`position` with each index replaced by the head of its class."""
    heads = {loop_index: index(classes.head(loop_index)) for loop_index in indices(position)}
    return substituted(position, heads)
