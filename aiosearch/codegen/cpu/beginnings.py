"""Stages that map, whose elements a fold takes while they are in registers, besides later ones."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from ..ir import Buffer, Fold, Load, Stage, walk
from .arithmetic import working
from .elements import Elements
from .endings import Ending
from .spots import Spot


@dataclass(frozen=True)
class Beginning:
    """Of one fold."""

    stage: Stage
    elements: Elements

    def made(self, taking: Elements, spot: Spot) -> Elements:
        """Fills it where the fold is, which then takes that from registers."""
        stored, target = self.elements.fill(self.stage, spot), self.stage.target
        value = self.elements.arithmetic.widened(stored, target.dtype)
        return taking.knowing(Load(target, self.stage.at), value)


def beginnings(
    stages: Sequence[Stage], kept: Collection[Buffer], endings: Mapping[Buffer, Ending]
) -> Mapping[Buffer, Stage]:
    """The stage that each fold may begin with, by where the fold goes.

    It runs when the fold does, so neither what is between them nor what is made of the fold's
    elements reads it. No fold fills an output: not every block does.
    """
    found: dict[Buffer, Stage] = {}
    for at, fold in enumerate(stages):
        firsts = [one for one in stages[:at] if one.target not in kept and _begins(one, fold)]
        if fold.target in kept or not firsts:
            continue
        first = firsts[-1]
        between = stages[stages.index(first) + 1 : at]
        read = {load.buffer for stage in between for load in stage.loads}
        ends = (endings[one.target].value for one in (*between, fold) if one.target in endings)
        read |= {load.buffer for value in ends for load in walk(value) if isinstance(load, Load)}
        if first.target not in read:
            found[fold.target] = first
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
