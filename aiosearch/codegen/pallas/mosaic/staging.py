"""Tiles of arrays in shared memory: which part of an array a block copies, and into what.

`W[k, j]` with tiles of 64 along both becomes the copy of `W.at[pl.ds(step * 64, 64), pl.ds(j * 64,
64)]` into `W_smem`, of shape (stages, 64, 64) where it is copied ahead of a loop.
"""

from __future__ import annotations

from dataclasses import dataclass

from ....tensor.types import BYTES, JAX_NAMES
from ... import ir
from ...errors import CannotPrint
from ..layout import TileLayout
from ..printer.text import STEP
from .layout import LARGEST_COPY, WarpgroupLayout

_COPY_BYTES = 16
"""What divides the bytes of a copied tile along its last axis."""
_TRANSPOSED_BYTES = 2
"""Of the numbers that are transposed on the way between registers and shared memory."""


@dataclass(frozen=True)
class StagedTile:
    """A tile in shared memory of what is loaded or stored."""

    buffer: ir.Buffer
    name: str
    axes: tuple[ir.LoopIndex, ...]
    """Its axes in the order of the array's."""
    place: str
    """Where it is in the array, as text."""
    shape: tuple[int, ...]
    streamed: bool
    """Whether every step of the loop has a tile of its own."""

    @property
    def bytes(self) -> int:
        """The bytes of one tile."""
        count = BYTES[self.buffer.dtype]
        for size in self.shape:
            count *= size
        return count

    def scratch(self, stages: int) -> str:
        """The scratch memory that it lies in."""
        shape = (stages, *self.shape) if self.streamed else self.shape
        return f"plgpu.SMEM({shape}, {JAX_NAMES[self.buffer.dtype]})"

    def reference(self, slot: str, axes: tuple[ir.LoopIndex, ...]) -> str:
        """A reference to the tile with its axes in the order `axes`."""
        name = f"{self.name}.at[{slot}]" if self.streamed else self.name
        return name if axes == self.axes else f"{name}.T"


def staged_tile(layout: WarpgroupLayout, load: ir.BufferLoad, name: str) -> StagedTile:
    """The tile of `load`; raises CannotPrint where no asynchronous copy brings it."""
    buffer = load.buffer
    axes: list[ir.LoopIndex] = []
    places = []
    for at in load.at:
        loop_index = ir.single_index(at)
        if loop_index is None and any(True for _ in ir.indices(at)):
            raise CannotPrint(
                f"kernel {layout.nodes.kernel.name}: {load} is at {at} along an axis, and copies"
                " take whole tiles of one index"
            )
        if loop_index is None:
            places.append(str(at))
            continue
        tile, start = layout.tile(loop_index), _start(layout, loop_index)
        if tile == 1:
            places.append(start)
        else:
            axes.append(loop_index)
            places.append(f"pl.ds({_scaled(start, tile)}, {tile})")
    shape = layout.shape(axes)
    _is_copied(layout, load, tuple(axes), shape)
    streamed = layout.loop in axes or any(
        ir.single_index(at) == layout.loop for at in load.at if layout.loop is not None
    )
    return StagedTile(buffer, name, tuple(axes), ", ".join(places), shape, streamed)


def _is_copied(
    layout: WarpgroupLayout,
    load: ir.BufferLoad,
    axes: tuple[ir.LoopIndex, ...],
    shape: tuple[int, ...],
) -> None:
    """Refuses tiles that are too long for a copy, or whose last axis is not contiguous."""
    kernel = layout.nodes.kernel.name
    if len(set(axes)) != len(axes) or not axes or ir.single_index(load.at[-1]) != axes[-1]:
        raise CannotPrint(
            f"kernel {kernel}: a tile of {load} is not contiguous along its last axis"
        )
    if max(shape) > LARGEST_COPY:
        raise CannotPrint(
            f"kernel {kernel}: a tile of {load} has {max(shape)} elements along an axis, and a copy"
            f" takes {LARGEST_COPY}"
        )
    if shape[-1] * BYTES[load.buffer.dtype] % _COPY_BYTES:
        raise CannotPrint(
            f"kernel {kernel}: a tile of {load} has {shape[-1]} elements along its last axis, which"
            f" are no multiple of {_COPY_BYTES} bytes"
        )


def require_order(
    layout: WarpgroupLayout, tile: StagedTile, axes: tuple[ir.LoopIndex, ...]
) -> None:
    """Refuses a tile that threads would read or write with rows and columns exchanged, and that
    Mosaic only exchanges in numbers of another size."""
    if axes != tile.axes and BYTES[tile.buffer.dtype] != _TRANSPOSED_BYTES:
        raise CannotPrint(
            f"kernel {layout.nodes.kernel.name}: a tile of {tile.buffer} would be transposed on its"
            f" way, which Mosaic does with numbers of {8 * _TRANSPOSED_BYTES} bits"
        )


def _start(layout: WarpgroupLayout, loop_index: ir.LoopIndex) -> str:
    """The number of the tile along an index."""
    if layout.steps(loop_index) == 1:
        return "0"
    return STEP if loop_index == layout.loop else grid_name(layout, loop_index)


def grid_name(layout: TileLayout, loop_index: ir.LoopIndex) -> str:
    """The name of the variable with the block's place along an axis of the grid."""
    return f"block_{layout.grid.index(loop_index)}"


def _scaled(start: str, tile: int) -> str:
    return "0" if start == "0" else f"{start} * {tile}"
