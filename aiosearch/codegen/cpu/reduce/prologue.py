"""Producer fusion: elementwise stages whose elements a reduction takes while they are in
registers."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from ...ir import Buffer, BufferLoad, KernelStage, ReductionKind, walk
from ...llvm.arithmetic import working_type
from ..emit.addressing import LaneAddress
from ..emit.expression import ExpressionEmitter
from .epilogue import Epilogue


@dataclass(frozen=True)
class Prologue:
    """Of one fold."""

    stage: KernelStage
    elements: ExpressionEmitter

    def made(self, taking: ExpressionEmitter, spot: LaneAddress) -> ExpressionEmitter:
        """Fills it where the fold is, which then takes that from registers."""
        stored, target = self.elements.fill(self.stage, spot), self.stage.target
        value = self.elements.arithmetic.widened(stored, target.dtype)
        return taking.knowing(BufferLoad(target, self.stage.at), value)


def prologues(
    stages: Sequence[KernelStage], kept: Collection[Buffer], endings: Mapping[Buffer, Epilogue]
) -> Mapping[Buffer, KernelStage]:
    """The stage that each fold may begin with, by where the fold goes.

    It runs when the fold does, so neither what is between them nor what is made of the fold's
    elements reads it. No fold fills an output: not every block does.
    """
    found: dict[Buffer, KernelStage] = {}
    for at, fold in enumerate(stages):
        firsts = [one for one in stages[:at] if one.target not in kept and _is_prologue(one, fold)]
        if fold.target in kept or not firsts:
            continue
        first = firsts[-1]
        between = stages[stages.index(first) + 1 : at]
        read = {load.buffer for stage in between for load in stage.loads}
        ends = (endings[one.target].value for one in (*between, fold) if one.target in endings)
        read |= {
            load.buffer for value in ends for load in walk(value) if isinstance(load, BufferLoad)
        }
        if first.target not in read:
            found[fold.target] = first
    return found


def _is_prologue(first: KernelStage, fold: KernelStage) -> bool:
    """Whether the fold takes each element of the other stage, and at no other time than the rest.

    Both have to work in the same type, as lanes of one are lanes of the other.
    """
    if fold.fold is ReductionKind.NONE or first.fold is not ReductionKind.NONE:
        return False
    loads = [one for one in fold.loads if one.buffer == first.target]
    same = set(first.free) == set(fold.indices) and working_type(first) == working_type(fold)
    return bool(loads) and same and all(one.at == first.at for one in loads)
