"""A device of round figures, to count by hand what programs cost on it."""

from __future__ import annotations

from aiosearch.devices import Device, DeviceKind
from aiosearch.tensor import DType

GPU = Device(
    name="GPU",
    kind=DeviceKind.GPU,
    units=4,
    bytes_per_second=100,
    cache_bytes_per_second=400,
    operations_per_second={DType.F32: 1000},
    launch_seconds=2,
    shared_bytes=1000,
    unit_shared_bytes=1000,
    unit_blocks=8,
    unit_threads=1024,
    block_threads=128,
    cache_bytes=100,
    sources={},
)
