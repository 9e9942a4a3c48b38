"""How many bytes of tiles a block of a kernel keeps."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from ..ir import Index, Kernel, alone
from .memory import STORED
from .passes import lasting
from .schedule import Schedule, serial


@dataclass(frozen=True)
class Tile:
    """What a block may keep."""

    free: tuple[Index, ...]
    bytes: int
    """Of an element."""
    folded: frozenset[str] | None
    """An output is kept while it is folded over these; scratch always."""
    copy_of: str = ""
    lasts: frozenset[str] = frozenset()
    """The serial indices along which it may have to be kept whole."""

    def is_kept(self, serial: str | None, copied: set[str]) -> bool:
        if self.copy_of:
            return self.copy_of in copied
        return self.folded is None or serial in self.folded

    def size(self, schedule: Schedule) -> int:
        """Its elements."""
        whole = schedule.serial if schedule.keeps and schedule.serial in self.lasts else None
        return math.prod(
            each.size if each.name == whole else schedule.tile(each) for each in self.free
        )


def kept_bytes(tiles: list[Tile], schedule: Schedule) -> int:
    """Of those that a block keeps by a schedule."""
    copied = {*schedule.staged, *schedule.panels}
    kept = (one for one in tiles if one.is_kept(schedule.serial, copied))
    return sum(one.bytes * one.size(schedule) for one in kept)


def tiles_of(kernel: Kernel) -> Iterator[Tile]:
    """What its stages make, and copies of what they read."""
    lasts = {one: lasting(kernel, one) for one in serial(kernel)}
    for stage in kernel.stages:
        folded = frozenset(one.name for one in stage.folded)
        kept = folded if stage.target in kernel.outputs else None
        names = frozenset(one.name for one, found in lasts.items() if stage.target in found)
        yield Tile(stage.free, STORED[stage.target.dtype][1], kept, lasts=names)
    for buffer in kernel.inputs:
        loads = [load for stage in kernel.stages for load in stage.loads if load.buffer == buffer]
        places = [alone(position) for load in loads for position in load.at]
        free = tuple(dict.fromkeys(one for one in places if one is not None))
        yield Tile(free, STORED[buffer.dtype][1], None, buffer.name)
