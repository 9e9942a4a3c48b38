"""The axes of scratch in the order in which it is gone through: neighbours lie side by side."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from .expressions import reloaded
from .ir import Buffer, Fold, Index, Load, Stage, alone


@dataclass(frozen=True, slots=True)
class _Turn:
    """A buffer with its axes in another order."""

    buffer: Buffer
    axes: tuple[int, ...]

    def load(self, load: Load) -> Load:
        return Load(self.buffer, tuple(load.at[axis] for axis in self.axes))


def ordered(stages: Sequence[Stage], fixed: Collection[Buffer]) -> list[Stage]:
    """A kernel's stages, with scratch turned as what reads it runs; the `fixed` buffers stay.

    What is computed element by element from an array of the caller's lies as that does.
    """
    turns: dict[Buffer, _Turn] = {}
    running: dict[Buffer, list[Index]] = {}
    for stage in reversed(stages):
        own = [one for at in stage.at if (one := alone(at)) is not None]
        if stage.target not in fixed and len(own) == len(stage.at):
            wanted = _copied(stage, stages) or running.get(stage.target, own)
            own = sorted(own, key=lambda one: wanted.index(one) if one in wanted else len(wanted))
            turns[stage.target] = _turn(stage, own)
        for load in stage.loads:
            running.setdefault(load.buffer, [*own, *stage.folded])
    return [_turned(stage, turns) for stage in stages]


def _copied(stage: Stage, stages: Sequence[Stage]) -> list[Index] | None:
    """The indices of an array from outside that has all of a stage's, in its order."""
    scratch = {one.target for one in stages}
    for load in stage.loads if stage.fold is Fold.NONE else ():
        seen = [one for at in load.at if (one := alone(at)) is not None]
        if load.buffer not in scratch and set(stage.free) <= set(seen):
            return seen
    return None


def _turn(stage: Stage, wanted: Sequence[Index]) -> _Turn:
    places = [alone(at) for at in stage.at]
    axes = tuple(places.index(one) for one in wanted)
    shape = tuple(stage.target.shape[axis] for axis in axes)
    return _Turn(replace(stage.target, shape=shape), axes)


def _turned(stage: Stage, turns: Mapping[Buffer, _Turn]) -> Stage:
    def change(load: Load) -> Load:
        return turns[load.buffer].load(load) if load.buffer in turns else load

    target = change(Load(stage.target, stage.at))
    value = reloaded(stage.value, change)
    return replace(stage, target=target.buffer, at=target.at, value=value)
