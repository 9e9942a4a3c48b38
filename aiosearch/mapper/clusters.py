"""Clusters as data: nodes, devices, cache groups and caches, with what moves how fast between them.

Units are those of the hardware description files that `clusterfiles` reads: bandwidths in MB/s
(10^6 bytes), latencies in nanoseconds, frequencies in MHz, sizes in MB.

A *cache group* is the cores behind one last-level cache: a socket of a CPU, or a multiprocessor of
a GPU. It is what a team of cores is made of, and the unit that a mapping hands out.
"""

from __future__ import annotations

import enum
from typing import NamedTuple

from msgspec import Struct

MEGA = 1e6
NANO = 1e-9


class ProcessorKind(enum.StrEnum):
    CPU = "CPU"
    GPU = "GPU"


class Distance(enum.IntEnum):
    """How far data travels between two cache groups."""

    PROCESSOR = 0
    """Within a cache group: through its last-level cache."""
    DEVICE = 1
    """Between cache groups of a device: through its memory."""
    NODE = 2
    """Between devices of a node: over PCIe, NVLink or their like."""
    NETWORK = 3


class GroupLocation(NamedTuple):
    """A cache group, by the positions of its node, device and group: `GroupLocation(0, 1, 79)`."""

    node: int
    device: int
    group: int

    def distance(self, to: GroupLocation) -> Distance:
        if self.node != to.node:
            return Distance.NETWORK
        if self.device != to.device:
            return Distance.NODE
        return Distance.PROCESSOR if self.group == to.group else Distance.DEVICE


class CacheLevel(Struct, frozen=True):
    """A level of cache. Bandwidth is that of a core; 0 says that it is not described."""

    latency: float
    bandwidth: float
    size: float


class CacheGroup(Struct, frozen=True, kw_only=True):
    identifier: str
    cores: int
    frequency: float
    arithmetic_units: float = 1.0
    """Operations that a core finishes in a cycle."""
    vectorization: str = "None"
    warp_size: int = 1
    hyper_threads: int = 1
    caches: tuple[CacheLevel, ...]
    """From the first level to the last."""

    @property
    def last_level(self) -> CacheLevel:
        return self.caches[-1]

    @property
    def rate(self) -> float:
        """Operations that a core does in a second."""
        return self.arithmetic_units * self.frequency * MEGA


class ComputeDevice(Struct, frozen=True, kw_only=True):
    identifier: str
    kind: ProcessorKind
    latency: float
    bandwidth: float
    """Of a core of a CPU, or of a multiprocessor of a GPU, from the device's memory."""
    max_bandwidth: float
    """Of all cores of a cache group together."""
    size: float
    groups: tuple[CacheGroup, ...]


class Node(Struct, frozen=True, kw_only=True):
    identifier: str
    address: str = ""
    kind: str = "numa"
    bandwidth: tuple[tuple[float, ...], ...]
    """Between devices; the row is the sender."""
    latency: tuple[tuple[float, ...], ...]
    devices: tuple[ComputeDevice, ...]


class Cluster(Struct, frozen=True, kw_only=True):
    topology: str = ""
    bandwidth: tuple[tuple[float, ...], ...]
    """Between nodes; the row is the sender."""
    latency: tuple[tuple[float, ...], ...]
    nodes: tuple[Node, ...]

    def device(self, at: GroupLocation) -> ComputeDevice:
        return self.nodes[at.node].devices[at.device]

    def group(self, at: GroupLocation) -> CacheGroup:
        return self.nodes[at.node].devices[at.device].groups[at.group]

    def is_cpu(self, at: GroupLocation) -> bool:
        return self.device(at).kind is ProcessorKind.CPU

    def locations(self) -> list[GroupLocation]:
        """Every cache group, node by node."""
        return [
            GroupLocation(node, device, group)
            for node, described in enumerate(self.nodes)
            for device, unit in enumerate(described.devices)
            for group in range(len(unit.groups))
        ]
