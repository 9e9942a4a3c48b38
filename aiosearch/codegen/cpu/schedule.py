"""A CPU schedule: tiles, registers, layouts and order of one kernel.

A schedule never changes what is computed, only in which order and in which layout. `space.choices`
lists those worth a trial; `docs/why/kernels.md` lists what each field may be.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ..ir import LoopIndex, TileKernel, indices, single_index
from .packing import PackedLayout
from .register_layout import RegisterRequest


@dataclass(frozen=True)
class Schedule:
    """How one kernel runs. The default is one block without packing, copies or a serial loop.

    Example: `Schedule({"j": 512, "k": 128}, "k", RegisterRequest(8, 2))` cuts j into blocks of 512,
    loops over k in tiles of 128 and holds 8 rows by 2 vectors of accumulators in registers.
    """

    tiles: Mapping[str, int] = field(default_factory=dict)
    """Tile sizes by index name; an index without one is not cut."""
    serial: str | None = None
    """The index along which a block loops tile by tile, keeping accumulators between tiles."""
    registers: RegisterRequest = field(default_factory=RegisterRequest)
    """The register tile and prefetch of stages that reduce."""
    layouts: Mapping[str, PackedLayout] = field(default_factory=dict)
    """Packed layouts of inputs that are packed before the kernel is called, by name."""
    staged: tuple[str, ...] = ()
    """Inputs whose tile each block copies, so that its rows are contiguous."""
    transposed: Mapping[str, PackedLayout] = field(default_factory=dict)
    """Layouts of inputs that a kernel of its own transposes first, by name; see
    `prepare.transpose_kernels`."""
    panels: Mapping[str, PackedLayout] = field(default_factory=dict)
    """Packed layouts of inputs whose tile each block packs, by name."""
    fastest: str | None = None
    """The index along which consecutive blocks follow each other; the last parallel one if
    `None`."""
    keeps: bool = False
    """Whether a block keeps tiles that later passes along the serial index read, rather than
    computing them again."""
    width: int = 0
    """Bytes of a vector; 0 for the widest that the machine has."""
    wide: bool = False
    """Whether copies of 16-bit floats, and tiles of them that feed products, are stored as f32."""

    def tile(self, index: LoopIndex) -> int:
        """The tile size along an `index`, between 1 and its size."""
        return max(1, min(self.tiles.get(index.name, index.size), index.size))

    def lanes(self, widest: int, size: int = 4) -> int:
        """Elements of `size` bytes that a vector holds, on a machine whose widest vectors have
        `widest` bytes."""
        return (self.width or widest) // size

    def count(self, index: LoopIndex) -> int:
        """Into how many tiles an `index` is cut."""
        return -(-index.size // self.tile(index))


def blocked(kernel: TileKernel) -> tuple[LoopIndex, ...]:
    """The parallel indices: free in some output, reduced by no stage, and cuttable."""
    # An index that one stage leaves free and another reduces, as that of a softmax, has to stay
    # within a block.
    folded = {index for stage in kernel.stages for index in stage.folded}
    outputs = [stage for stage in kernel.stages if stage.target in kernel.outputs]
    candidates = dict.fromkeys(index for stage in outputs for index in stage.free)
    return tuple(index for index in candidates if index not in folded and _cuttable(kernel, index))


def serial(kernel: TileKernel) -> tuple[LoopIndex, ...]:
    """The indices along which a block may loop tile by tile: reduced by some stage, and
    cuttable."""
    candidates = dict.fromkeys(index for stage in kernel.stages for index in stage.folded)
    return tuple(index for index in candidates if _cuttable(kernel, index))


def _cuttable(kernel: TileKernel, index: LoopIndex) -> bool:
    """Whether a tile of each stage needs only the same tile of the stages that it reads.

    A stage that reads `t0[i - 1]` or `t0[i // 2]` needs elements of other tiles of i, which may not
    be computed yet.
    """
    positions = {stage.target: stage.at for stage in kernel.stages}
    for stage in kernel.stages:
        for load in stage.loads:
            for written, read in zip(positions.get(load.buffer, ()), load.at, strict=False):
                if index in set(indices(written)) and (
                    written != read or single_index(written) is None
                ):
                    return False
    return True
