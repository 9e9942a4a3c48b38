"""Which folds of a module's kernels are worth sharing out among more blocks, and by which tilings.

A second kernel costs a launch, and what the parts come to goes through memory. So a fold is split
where a kernel's blocks leave multiprocessors idle, or where that should be faster all the same.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ...tensor.types import BYTES
from .. import ir
from ..parameters import Choice
from ..plans import Plan, Plans, best
from .candidates import Ranked, Tilings, by_tiles, ranked
from .dialect import LEAST
from .errors import CannotPrint
from .layout import serial
from .nodes import Nodes
from .splitting import halves
from .tiling import Tiling

if TYPE_CHECKING:
    from ...devices import Device

_MOST = 4
"""Blocks for each multiprocessor that parts may give."""
_FEW = (2, 4)
"""Into so many parts a fold is split that has blocks enough."""
_STEP = 4
"""Tilings side by side are much alike: every so many is taken."""


def modules(module: ir.Module, device: Device) -> list[ir.Module]:
    """The module, and with folds of its kernels in parts where that may be faster; best first.

    Raises CannotPrint where no tiling of a kernel finds room on the device.
    """
    return [_module(module, chosen) for chosen in _chosen(module, device)]


def plans(module: ir.Module, device: Device, most: int) -> list[Plan[Tiling]]:
    """At most so many ways to run a module, the best first: those of the same with other tilings.

    Each of the modules is there once at least, if there is room. Raises CannotPrint as they do.
    """
    options = [
        list(all_plans(one, device).first(most, different)) for one in modules(module, device)
    ]
    return best(options, most)


def all_plans(module: ir.Module, device: Device) -> Plans[Tiling]:
    """All ways to run a module's kernels as they are."""
    return Plans(module, [Tilings(kernel, device) for kernel in module.kernels])


def different(found: Sequence[Choice[Tiling]], most: int) -> Sequence[Choice[Tiling]]:
    """Those that are unlike each other, the best first."""
    return by_tiles(found)[: most * _STEP : _STEP]


@dataclass(frozen=True, eq=False)
class _Way:
    """The kernels that stand for one, each with its tilings."""

    kernels: tuple[tuple[ir.Kernel, Sequence[Ranked]], ...]

    @property
    def seconds(self) -> float:
        return sum(own[0].seconds for _, own in self.kernels)


def _chosen(module: ir.Module, device: Device) -> list[tuple[_Way, ...]]:
    """A way for each kernel: as it is, the fastest of its ways, or in parts; the best first."""
    ways = [_ways(kernel, device) for kernel in module.kernels]
    fastest = tuple(min(own, key=lambda way: way.seconds) for own in ways)
    found = dict.fromkeys([fastest, *(tuple(own[at] for own in ways) for at in (0, -1))])
    return sorted(found, key=lambda chosen: sum(way.seconds for way in chosen))


def _module(module: ir.Module, chosen: Iterable[_Way]) -> ir.Module:
    return replace(module, kernels=tuple(kernel for way in chosen for kernel, _ in way.kernels))


def _ways(kernel: ir.Kernel, device: Device) -> list[_Way]:
    """The kernel as it is; then the best of those with a fold in parts, if that may pay."""
    whole = _Way(((kernel, ranked(kernel, device)),))
    blocks = whole.kernels[0][1][0].blocks
    split = min(_splits(kernel, blocks, device), key=lambda way: way.seconds, default=None)
    if split is None or (blocks >= device.units and split.seconds >= whole.seconds):
        return [whole]
    return [whole, split]


def _splits(kernel: ir.Kernel, blocks: int, device: Device) -> Iterator[_Way]:
    for one in serial(Nodes(kernel)):
        for parts in _parts(one, blocks, device):
            with suppress(CannotPrint):
                found = halves(kernel, one.name, parts)
                if _bytes(found[0].outputs) <= _bytes(kernel.inputs):
                    yield _Way(tuple((half, ranked(half, device)) for half in found))


def _parts(one: ir.Index, blocks: int, device: Device) -> list[int]:
    """Powers of two that leave enough of an index to each part."""
    least, most = -(-device.units // blocks), _MOST * device.units // blocks
    powers = (1 << bits for bits in range(1, most.bit_length()))
    wanted = [parts for parts in powers if parts >= least] if least > 1 else _FEW
    return [parts for parts in wanted if one.size % parts == 0 and one.size // parts >= LEAST]


def _bytes(buffers: Iterable[ir.Buffer]) -> int:
    return sum(math.prod(one.shape) * BYTES[one.dtype] for one in buffers)
