"""What is free in a kernel's schedule on a processor, and which schedules are worth a trial."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..ir import Fold, Kernel
from ..native.machine import Machine
from ..parameters import Choice, Constraint, Parameter, Space, choices_of
from .foldings import Foldings
from .offered import widths
from .predicting import Predictor
from .roles import Roles, packable, roles
from .schedule import Schedule

_SMALL = 1 << 15
"""Elements of a block that maps."""


def space(
    kernel: Kernel, machine: Machine, threads: int, constant: Iterable[str] = ()
) -> Space[Schedule]:
    """All that is free; constant inputs may be laid out beforehand."""
    layouts = packable(kernel, constant, machine)
    own = roles(kernel, machine, layouts)
    predictor = Predictor(kernel, own, machine, threads)
    if own.stage.fold is Fold.NONE or own.shape.inner is None or own.along is None:
        return _Maps(own, machine, predictor)
    return Foldings(kernel, own, machine, threads, layouts, predictor)


def choices(
    kernel: Kernel, machine: Machine, threads: int, constant: Iterable[str] = ()
) -> list[Schedule]:
    """All that keep to the limits, best predicted first."""
    found = choices_of(space(kernel, machine, threads, constant))
    return [one.schedule for one in found]


def different(found: Sequence[Choice[Schedule]], most: int) -> list[Choice[Schedule]]:
    """The first, and then always the first that uses registers and tiles unlike those before.

    What is left over goes to the best predicted.
    """
    kinds: dict[tuple[object, ...], Choice[Schedule]] = {}
    for one in found:
        schedule, wishes = one.schedule, one.schedule.wishes
        coded = any(way.coded for way in schedule.layouts.values())
        laid = bool(schedule.layouts), coded, bool(schedule.panels), bool(schedule.turned)
        held = wishes.rows, wishes.vectors, wishes.matrix
        kinds.setdefault((*held, *laid, schedule.wide, schedule.serial, schedule.keeps), one)
    chosen = list(kinds.values())[: max(1, most * 3 // 4)]
    others = [one for one in found if all(one is not other for other in chosen)]
    return [*chosen, *others[: most - len(chosen)]]


class _Maps:
    """Blocks of whole rows, as many as there is work for."""

    def __init__(self, own: Roles, machine: Machine, predictor: Predictor) -> None:
        self._own = own
        self.parameters = (Parameter("block", (_SMALL, _SMALL // 8)), widths(machine))
        self.constraints = (Constraint(("block",), self._cuts_otherwise),)
        self.seconds = predictor.seconds

    def schedule(self, chosen: Mapping[str, Any]) -> Schedule:
        return Schedule(self._tiles(chosen["block"]), width=chosen["width"])

    def _cuts_otherwise(self, block: int) -> bool:
        """Than blocks of the usual size."""
        return block == _SMALL or self._tiles(block) != self._tiles(_SMALL)

    def _tiles(self, block: int) -> dict[str, int]:
        tiles: dict[str, int] = {}
        held = 1
        for one in reversed(self._own.blocked):
            tile = max(1, min(one.size, block // held))
            tiles[one.name] = tile
            held *= tile
        return tiles
