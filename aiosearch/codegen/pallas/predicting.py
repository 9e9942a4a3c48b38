"""What a tiled kernel asks of a GPU, and how long that takes at best.

Bytes are counted once from the device's memory, and for each block from its cache; a device that
has fewer blocks than units works with as many units as there are blocks.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...tensor.types import DType
from .. import ir
from .factors import contraction
from .layout import LEAST, Layout
from .loops import Loops
from .nodes import Node, dependencies, loads

if TYPE_CHECKING:
    from ...superoptimizer.devices import Device

BYTES = {
    DType.F64: 8,
    DType.F32: 4,
    DType.F16: 2,
    DType.BF16: 2,
    DType.I32: 4,
    DType.BOOL: 1,
}

_REGISTERS = 255
"""Of four bytes, that a thread may have."""
_SPARE = 0.75
"""The part of them that tiles may take; the rest is for places and masks."""
_WARP = 32
_LARGEST = 1 << 20
"""Elements of a tile, which Triton takes at most."""


@dataclass(frozen=True)
class Demand:
    """What one block takes, and what all blocks do together."""

    blocks: int
    steps: int
    register_bytes: int
    shared_bytes: int
    """Of one iteration's operands."""
    loaded_bytes: int
    """By all blocks, from cache or memory."""
    memory_bytes: int
    operations: int

    def fits(self, warps: int, stages: int, device: Device) -> bool:
        """Whether a block's tiles find room."""
        room = _REGISTERS * 4 * _WARP * warps * _SPARE
        shared = self.shared_bytes * (stages if self.steps > 1 else 1)
        return self.register_bytes <= room and shared <= device.shared_bytes

    def seconds(self, dtype: DType, device: Device) -> float:
        """How long it takes at best."""
        rounds = math.ceil(self.blocks / device.units)
        busy = self.blocks / (rounds * device.units)
        slowest = max(
            self.memory_bytes / device.bytes_per_second,
            self.loaded_bytes / device.cache_bytes_per_second,
            self.operations / device.rate(dtype),
        )
        return slowest / busy


def demand(layout: Layout) -> Demand | None:
    """None where a tile is larger than any may be."""
    return _Counting(layout).demand()


class _Counting:
    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._loops = Loops(layout.nodes.all, layout.loop)
        self._steps = layout.steps(layout.loop) if layout.loop else 1

    def demand(self) -> Demand | None:
        layout, nodes = self._layout, self._layout.nodes
        if any(self._size((*node.indices, *node.folded)) > _LARGEST for node in nodes.all):
            return None
        blocks = math.prod(layout.steps(one) for one in layout.grid)
        stored = [node.stage.target for node in nodes.outputs]
        memory = sum(math.prod(one.shape) * BYTES[one.dtype] for one in (*nodes.loaded, *stored))
        return Demand(
            blocks,
            self._steps,
            self._registers(),
            sum(size for node in nodes.all for size in self._operands(node)),
            blocks * sum(map(self._loaded, nodes.all)),
            memory,
            blocks * sum(map(self._operations, nodes.all)),
        )

    def _size(self, indices: Iterable[ir.Index]) -> int:
        return math.prod(self._layout.shape(set(indices)))

    def _times(self, indices: Iterable[ir.Index]) -> int:
        return self._steps if self._layout.loop in set(indices) else 1

    def _registers(self) -> int:
        """All accumulators, and the largest of the other tiles."""
        nodes = self._layout.nodes.all
        totals = [node for node in nodes if self._loops.accumulates(node)]
        kept = sum(4 * self._size(node.indices) for node in totals)
        return kept + max((4 * self._widest(node) for node in nodes), default=0)

    def _widest(self, node: Node) -> int:
        """The elements of the largest tile that is worked on; a dot's operands are shared."""
        if list(self._operands(node)):
            return self._size(node.indices)
        return self._size((*node.indices, *node.folded))

    def _operands(self, node: Node) -> Iterable[int]:
        """The bytes of a dot's sides."""
        axes, reads = self._layout.axes, node.reads
        found = contraction(node, lambda value: axes(dependencies(value, reads)))
        if found is None:
            return
        for side in (found.left, found.right):
            if min(self._size(side.own), self._size(side.summed)) < LEAST:
                return
        for side in (found.left, found.right):
            types = [BYTES[one.buffer.dtype] for part in side.factors for one in loads(part)]
            yield self._size(side.own | side.summed) * max(types, default=4)

    def _loaded(self, node: Node) -> int:
        total = 0
        for load in dict.fromkeys(loads(node.value)):
            if load not in node.reads:
                found = {one for at in load.at for one in ir.indices(at)}
                total += self._size(found) * BYTES[load.buffer.dtype] * self._times(found)
        return total

    def _operations(self, node: Node) -> int:
        indices = {*node.indices, *node.folded}
        return 2 * self._size(indices) * self._times(indices)
