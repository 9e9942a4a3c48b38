"""What is free in how a kernel runs on a processor: its tiles, its registers, its layouts.

A schedule never changes what is computed, only in which order. `choices` lists those worth a trial.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ..ir import LoopIndex, TileKernel, indices, single_index
from .packing import PackedLayout
from .register_layout import RegisterRequest


@dataclass(frozen=True)
class Schedule:
    """For one kernel."""

    tiles: Mapping[str, int] = field(default_factory=dict)
    """Of indices, by name; what is not named is not cut."""
    serial: str | None = None
    """The index along which a block goes tile by tile, and keeps what is folded over it."""
    wishes: RegisterRequest = field(default_factory=RegisterRequest)
    layouts: Mapping[str, PackedLayout] = field(default_factory=dict)
    """Of inputs, by name, that were laid out beforehand."""
    staged: tuple[str, ...] = ()
    """Inputs of which a block copies its tile, so that rows lie close together."""
    turned: Mapping[str, PackedLayout] = field(default_factory=dict)
    """Of inputs, by name, whose rows are laid side by side before the kernel begins."""
    panels: Mapping[str, PackedLayout] = field(default_factory=dict)
    """Of inputs, by name, whose tiles a block lays out for itself."""
    fastest: str | None = None
    """The index along which blocks follow each other first; the last one where nothing is said."""
    keeps: bool = False
    """Whether a block keeps what it needs again, where it goes along the index more than once."""
    width: int = 0
    """Bytes of a vector; 0 for the widest that the processor has."""
    wide: bool = False
    """Whether copies of halves, and what a block makes for products of them, are f32."""

    def tile(self, index: LoopIndex) -> int:
        return max(1, min(self.tiles.get(index.name, index.size), index.size))

    def lanes(self, widest: int, size: int = 4) -> int:
        """How many elements of so many bytes a vector holds, where the widest ones are so wide."""
        return (self.width or widest) // size

    def count(self, index: LoopIndex) -> int:
        """Into how many tiles an index is cut."""
        return -(-index.size // self.tile(index))


def blocked(kernel: TileKernel) -> tuple[LoopIndex, ...]:
    """What can be cut into blocks that run side by side: free in outputs, folded nowhere."""
    folded = {one for stage in kernel.stages for one in stage.folded}
    outputs = [stage for stage in kernel.stages if stage.target in kernel.outputs]
    found = dict.fromkeys(one for stage in outputs for one in stage.free)
    return tuple(one for one in found if one not in folded and _cuttable(kernel, one))


def serial(kernel: TileKernel) -> tuple[LoopIndex, ...]:
    """What a block can go along tile by tile: folded somewhere."""
    found = dict.fromkeys(one for stage in kernel.stages for one in stage.folded)
    return tuple(one for one in found if _cuttable(kernel, one))


def _cuttable(kernel: TileKernel, index: LoopIndex) -> bool:
    """Whether what a tile needs of other stages is their tile: places are read as they are."""
    made = {stage.target: stage.at for stage in kernel.stages}
    for stage in kernel.stages:
        for load in stage.loads:
            for own, read in zip(made.get(load.buffer, ()), load.at, strict=False):
                if index in set(indices(own)) and (own != read or single_index(own) is None):
                    return False
    return True
