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
from .layout import Layout
from .loops import Loops
from .nodes import Node, loads

if TYPE_CHECKING:
    from ...devices import Device

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
_SPECIAL_RATE = 16
"""A multiprocessor has 16 units for these, of 128 that multiply and add (CUDA C++ Programming
Guide, throughput of native arithmetic instructions)."""
_SPECIAL = {
    ir.Operation.DIVIDE,
    ir.Operation.SQRT,
    ir.Operation.EXP,
    ir.Operation.LOG,
    ir.Operation.TANH,
    ir.Operation.ERF,
    ir.Operation.SIN,
    ir.Operation.COS,
    ir.Operation.POW,
}


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
    special: int
    """Of the operations, those that are exp, a root, a division and the like."""

    def fits(self, warps: int, stages: int, device: Device) -> bool:
        """Whether a block's tiles find room."""
        room = _REGISTERS * 4 * _WARP * warps * _SPARE
        shared = self.shared_bytes * (stages if self.steps > 1 else 1)
        return self.register_bytes <= room and shared <= device.shared_bytes

    def seconds(self, dtype: DType, device: Device) -> float:
        """How long it takes at best."""
        busy = min(1.0, self.blocks / device.units)
        slowest = max(
            self.memory_bytes / device.bytes_per_second,
            self.loaded_bytes / device.cache_bytes_per_second,
            self.operations / device.rate(dtype),
            self.special / (device.rate(DType.F32) / _SPECIAL_RATE),
        )
        return slowest / busy


def demand(layout: Layout) -> Demand:
    """Counts them."""
    return _Counting(layout).demand()


class _Counting:
    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._loops = Loops(layout.nodes, layout.loop)
        self._steps = layout.steps(layout.loop) if layout.loop else 1

    def demand(self) -> Demand:
        layout, nodes = self._layout, self._layout.nodes
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
            blocks * sum(self._operations(node, 2) for node in nodes.all),
            blocks * sum(self._operations(node, _special(node)) for node in nodes.all),
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
        found = self._layout.dot(node)
        for side in (found.left, found.right) if found else ():
            types = [BYTES[one.buffer.dtype] for part in side.factors for one in loads(part)]
            yield self._size(side.own | side.summed) * max(types, default=4)

    def _loaded(self, node: Node) -> int:
        total = 0
        for load in dict.fromkeys(loads(node.value)):
            if load not in node.reads:
                found = {one for at in load.at for one in ir.indices(at)}
                total += self._size(found) * BYTES[load.buffer.dtype] * self._times(found)
        return total

    def _operations(self, node: Node, each: int) -> int:
        indices = {*node.indices, *node.folded}
        return each * self._size(indices) * self._times(indices)


def _special(node: Node) -> int:
    """How many functions an element takes that have units of their own."""
    applied = (one for one in ir.walk(node.value) if isinstance(one, ir.Apply))
    return sum(one.operation in _SPECIAL for one in applied)
