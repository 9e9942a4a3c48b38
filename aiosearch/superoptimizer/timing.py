"""The arithmetic of a prediction: for one kernel, or for many choices of its sizes at once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from ..devices import Device, Kind
from ..tensor import Dim
from .values import Figures
from .work import Read, Work

Value: TypeAlias = Callable[[Dim], Figures]
"""What a size comes to."""


@dataclass(frozen=True)
class Load:
    """What a kernel asks of a device."""

    device: Device
    device_bytes: Figures
    cache_bytes: Figures
    busy_seconds: Figures
    """Of arithmetic, with all units at work."""
    blocks: Figures | None

    def seconds(self, resident: Figures) -> Figures:
        """How long it takes where a unit has room for so many blocks; for ever where for none."""
        device = self.device
        moving = np.maximum(
            self.device_bytes / device.bytes_per_second,
            self.cache_bytes / device.cache_bytes_per_second,
        )
        if self.blocks is None:
            return device.launch_seconds + np.maximum(moving, self.busy_seconds)
        most = np.ceil(self.blocks / device.units)
        moving = moving * np.maximum(1, device.units / self.blocks)
        busy = self.busy_seconds * (most * device.units / self.blocks)
        overlaps = (np.minimum(resident, most) >= 2) | (device.kind is Kind.CPU)
        body = np.where(overlaps, np.maximum(moving, busy), moving + busy)
        return np.where(np.asarray(resident) >= 1, device.launch_seconds + body, np.inf)


def times(work: Work, device: Device, value: Value) -> Load:
    """What a kernel asks of a device, with these numbers for its sizes."""
    written = value(work.written)
    return Load(
        device=device,
        device_bytes=sum((_fetched(read, device, value) for read in work.reads), written),
        cache_bytes=sum((value(read.streamed) for read in work.reads), written),
        busy_seconds=sum(value(count) / device.rate(dtype) for dtype, count in work.operations),
        blocks=None if work.kernel is None else value(work.blocks),
    )


def _fetched(read: Read, device: Device, value: Value) -> Figures:
    """The bytes that come from the device's memory: each once where the cache has room for all."""
    distinct = value(read.distinct)
    again = np.maximum(distinct, value(read.streamed))
    return np.where(distinct <= device.cache_bytes, distinct, again)
