"""Prologue fusion: elementwise stages whose elements a reduction takes while they are in registers.

Example: in a softmax, `e[l] = exp(s[l] - m)` is followed by `z = sum over l of e[l]`. The sum takes
each vector of e from the register from which it is stored, so e is not loaded again and its chain
of additions hides in the polynomial of `exp`.

It is legal if the reduction loads each element exactly where the elementwise stage computes it, in
the same working type, and if nothing between the two stages reads the elements.
"""

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
    """The elementwise stage that runs within a reduction."""

    stage: KernelStage
    elements: ExpressionEmitter

    def computed(self, taking: ExpressionEmitter, spot: LaneAddress) -> ExpressionEmitter:
        """Stores the element at `spot`, and returns an emitter that takes it from the register."""
        stored, target = self.elements.fill(self.stage, spot), self.stage.target
        value = self.elements.arithmetic.widened(stored, target.dtype)
        return taking.with_loaded(BufferLoad(target, self.stage.at), value)


def prologues(
    stages: Sequence[KernelStage], outputs: Collection[Buffer], endings: Mapping[Buffer, Epilogue]
) -> Mapping[Buffer, KernelStage]:
    """The stage that runs within each reduction, by the target of the reduction.

    The stage runs when the reduction does, so neither a stage between the two nor an epilogue of
    the reduction may read it. Reductions into `outputs` have none, as only one block of several may
    run them.
    """
    producers: dict[Buffer, KernelStage] = {}
    for at, reduction in enumerate(stages):
        firsts = [
            stage
            for stage in stages[:at]
            if stage.target not in outputs and _is_prologue(stage, reduction)
        ]
        if reduction.target in outputs or not firsts:
            continue
        # The nearest stage has the fewest stages between, any of which could read it.
        first = firsts[-1]
        # Stages between the two would read elements that are not computed yet.
        between = stages[stages.index(first) + 1 : at]
        read = {load.buffer for stage in between for load in stage.loads}
        ends = (
            endings[stage.target].value
            for stage in (*between, reduction)
            if stage.target in endings
        )
        read |= {
            load.buffer for value in ends for load in walk(value) if isinstance(load, BufferLoad)
        }
        if first.target not in read:
            producers[reduction.target] = first
    return producers


def _is_prologue(first: KernelStage, reduction: KernelStage) -> bool:
    """Whether a reduction can take each element of an elementwise stage as it is computed."""
    if reduction.reduction is ReductionKind.NONE or first.reduction is not ReductionKind.NONE:
        return False
    loads = [load for load in reduction.loads if load.buffer == first.target]
    # Equal index sets make the reduction visit each element exactly once.
    same = set(first.free) == set(reduction.indices) and working_type(first) == working_type(
        reduction
    )
    return bool(loads) and same and all(load.at == first.at for load in loads)
