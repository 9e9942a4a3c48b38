"""How a kernel's folds may be shared out among more blocks: along which index, into how many parts.

A second kernel costs a launch, and what the parts come to goes through memory. So a fold is split
until a kernel's blocks leave no multiprocessor idle, or into a few parts where they do not anyway.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import cache, partial
from typing import TYPE_CHECKING, Any, TypeAlias

from ...tensor.types import BYTES
from .. import ir
from ..parameters import Choice, Constraint, Parameter, choices_of
from .candidates import Tilings, absent
from .dialect import LEAST
from .errors import CannotPrint
from .layout import serial
from .nodes import Nodes
from .splitting import halves

if TYPE_CHECKING:
    from ...devices import Device

_MOST = 4
"""Blocks for each multiprocessor that parts may give."""
_FEW = 4
"""Into no more parts a fold is split that has blocks enough."""

Parting: TypeAlias = tuple[Tilings, ...]
"""The tilings of the kernels that stand for one."""


class Partings:
    """The space of what stands for a kernel on a device: of each folded index, its parts."""

    def __init__(self, kernel: ir.Kernel, device: Device) -> None:
        self._kernel, self._device = kernel, device
        self._whole = (Tilings(kernel, device),)
        self._halves = cache(self._halved)
        folded = serial(Nodes(kernel))
        self.parameters = [Parameter(one.name, (1, *_powers(one))) for one in folded]
        names = tuple(one.name for one in folded)
        self.constraints = [
            *([Constraint(names, _one_at_most)] if names else []),
            *([Constraint(names, self._is_somewhere)] if names else []),
            *(
                Constraint((one.name,), partial(holds, one))
                for one in folded
                for holds in (
                    _are_equal,
                    self._suit_units,
                    self._may_be_joined,
                    self._are_small,
                    self._find_room,
                )
            ),
        ]

    def schedule(self, chosen: Mapping[str, Any]) -> Parting:
        named = next(((name, parts) for name, parts in chosen.items() if parts > 1), None)
        found = self._whole if named is None else self._halves(*named)
        assert found is not None, "a fold that cannot be split is not legal"
        return found

    @property
    def ways(self) -> list[Choice[Parting]]:
        """All of them, the best first; raises CannotPrint where there are none."""
        found = choices_of(self)
        if not found:
            raise absent(self._kernel, self._device)
        return found

    def seconds(self, schedule: Parting) -> float:
        """Each by its best tiling; raises CannotPrint where it has none."""
        return sum(one.best.seconds for one in schedule)

    @property
    def is_busy(self) -> bool:
        """Whether the kernel as it is leaves no multiprocessor idle."""
        return self._blocks >= self._device.units

    @property
    def _blocks(self) -> int:
        """Of the kernel as it is; one, where it only finds room in parts."""
        (whole,) = self._whole
        return whole.demand(whole.best.schedule).blocks if whole.finds_room else 1

    def _halved(self, name: str, parts: int) -> Parting | None:
        """Nothing where what the parts come to cannot be put together."""
        with suppress(CannotPrint):
            return tuple(Tilings(one, self._device) for one in halves(self._kernel, name, parts))
        return None

    def _is_somewhere(self, *parts: int) -> bool:
        """Whether the kernel as it is finds room, where it is that."""
        (whole,) = self._whole
        return max(parts) > 1 or whole.finds_room

    def _suit_units(self, one: ir.Index, parts: int) -> bool:
        """Whether units that were idle have a block each, as far as may be, and none too many."""
        if parts == 1 or self.is_busy:
            return parts <= _FEW
        most = max(each for each in (1, *_powers(one)) if _are_equal(one, each))
        least = min(self._device.units, self._blocks * most)
        return least <= self._blocks * parts <= _MOST * self._device.units

    def _may_be_joined(self, one: ir.Index, parts: int) -> bool:
        return parts == 1 or self._halves(one.name, parts) is not None

    def _are_small(self, one: ir.Index, parts: int) -> bool:
        """Whether what they come to takes no more bytes than the inputs."""
        found = self._halves(one.name, parts) if parts > 1 else None
        return found is None or _bytes(found[0].kernel.outputs) <= _bytes(self._kernel.inputs)

    def _find_room(self, one: ir.Index, parts: int) -> bool:
        """Whether both kernels have a tiling."""
        found = self._halves(one.name, parts) if parts > 1 else None
        return found is None or all(half.finds_room for half in found)


def _powers(one: ir.Index) -> list[int]:
    """Powers of two that leave enough of an index to each part."""
    return [1 << bits for bits in range(1, (one.size // LEAST).bit_length())]


def _one_at_most(*parts: int) -> bool:
    return sum(each > 1 for each in parts) <= 1


def _are_equal(one: ir.Index, parts: int) -> bool:
    return one.size % parts == 0


def _bytes(buffers: Iterable[ir.Buffer]) -> int:
    return sum(math.prod(one.shape) * BYTES[one.dtype] for one in buffers)
