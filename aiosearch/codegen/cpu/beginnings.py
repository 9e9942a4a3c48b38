"""Stages that map, whose elements a fold takes while they are in registers, besides later ones."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from ..ir import Buffer, Fold, Index, Load, Stage, Within, used, walk
from .arithmetic import working
from .elements import Elements
from .spots import Spot


@dataclass(frozen=True)
class Beginning:
    """Of one fold."""

    stage: Stage
    elements: Elements

    def made(self, taking: Elements, spot: Spot) -> Elements:
        """Fills it where the fold is, which then takes that from registers."""
        value = self.elements.fill(self.stage, spot)
        return taking.knowing(Load(self.stage.target, self.stage.at), value)


def beginnings(stages: Sequence[Stage], kept: Collection[Buffer]) -> Mapping[Buffer, Stage]:
    """The stage that each fold may begin with, by where the fold goes.

    It runs when the fold does, so what is between them reads nothing of it. Neither may be kept
    elsewhere than in a block: not every block fills an output.
    """
    found: dict[Buffer, Stage] = {}
    for at, fold in enumerate(stages):
        maps = [one for one in stages[:at] if one.target not in kept and _begins(one, fold)]
        if fold.target not in kept and maps and not _read_between(maps[-1], fold, stages):
            found[fold.target] = maps[-1]
    return found


def _begins(first: Stage, fold: Stage) -> bool:
    """Whether the fold takes each element of the other stage, and at no other time than the rest.

    Both have to work in the same type, as lanes of one are lanes of the other.
    """
    if fold.fold is Fold.NONE or first.fold is not Fold.NONE:
        return False
    loads = [one for one in fold.loads if one.buffer == first.target]
    same = set(first.free) == set(fold.indices) and working(first) == working(fold)
    return bool(loads) and same and all(one.at == first.at for one in loads)


def _read_between(first: Stage, fold: Stage, stages: Sequence[Stage]) -> bool:
    between = stages[stages.index(first) + 1 : stages.index(fold)]
    return any(load.buffer == first.target for stage in between for load in stage.loads)


def shared(stage: Stage, along: Index) -> list[Load]:
    """What a stage that maps reads for all lanes alike: it is read once, before loops."""
    if any(isinstance(one, Within) for one in walk(stage.value)):
        return []
    others = [one for one in stage.loads if one.buffer != stage.target]
    return [one for one in others if along not in used(one)]
