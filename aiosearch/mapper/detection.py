"""Describes this machine as a cluster of one node: its cores by shared caches, and its GPUs.

What Linux says in /sys is taken from there: which cores share a last-level cache, sizes of caches,
NUMA nodes. What it does not say, bandwidths and latencies, is assumed here and measured by
`calibrate`; where /sys says nothing, all cores are one cache group.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from .clusters import MEGA, CacheGroup, CacheLevel, Cluster, ComputeDevice, Node, ProcessorKind

if TYPE_CHECKING:
    import jax

SYSTEM = Path("/sys/devices/system")
ASSUMED_FREQUENCY = 2500.0
ASSUMED_STREAM = 10_000.0
ASSUMED_LATENCY = 90.0
ASSUMED_CACHE = CacheLevel(15.0, 20_000.0, 8.0)
ASSUMED_LINK = 12_000.0
ASSUMED_LINK_LATENCY = 7_000.0
GPU_FREQUENCY = 1_400.0
GPU_STREAM = 1_000_000.0


def detect_cluster(*, gpus: bool = True, system: Path = SYSTEM) -> Cluster:
    """Describes the cores that this process may use, and, through jax, the GPUs it sees."""
    devices = [_cpu(sorted(os.sched_getaffinity(0)), system)]
    if gpus:
        devices += [_gpu(number, device) for number, device in enumerate(_jax_gpus())]
    size = len(devices)
    node = Node(
        identifier=platform.node() or "localhost",
        address="127.0.0.1",
        kind="numa" if len(list((system / "node").glob("node[0-9]*"))) > 1 else "uma",
        bandwidth=_matrix(size, ASSUMED_LINK),
        latency=_matrix(size, ASSUMED_LINK_LATENCY),
        devices=tuple(devices),
    )
    return Cluster(topology="one machine", bandwidth=((0.0,),), latency=((0.0,),), nodes=(node,))


def cache_groups(cores: Sequence[int], system: Path = SYSTEM) -> list[tuple[int, ...]]:
    """The cores that share a last-level cache, group by group."""
    groups: dict[tuple[int, ...], None] = {}
    for core in cores:
        shared = _last_level(core, system)
        members = _cores(shared / "shared_cpu_list") if shared else list(cores)
        usable = tuple(member for member in members if member in cores)
        groups[usable or (core,)] = None
    return list(groups)


def _cpu(cores: list[int], system: Path) -> ComputeDevice:
    groups = cache_groups(cores, system)
    frequency = _frequency(cores[0], system)
    return ComputeDevice(
        identifier="cpu",
        kind=ProcessorKind.CPU,
        latency=ASSUMED_LATENCY,
        bandwidth=ASSUMED_STREAM,
        max_bandwidth=ASSUMED_STREAM * max(len(group) for group in groups),
        size=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / MEGA,
        groups=tuple(
            CacheGroup(
                identifier=f"cores {_ranges(group)}",
                cores=len(group),
                frequency=frequency,
                caches=_caches(group[0], system),
            )
            for group in groups
        ),
    )


def _caches(core: int, system: Path) -> tuple[CacheLevel, ...]:
    described = []
    for folder in _levels(core, system):
        size = _text(folder / "size")
        kilobytes = float(size.rstrip("KMG") or 0) * {"M": 1024, "G": 1024**2}.get(size[-1:], 1)
        level = int(_text(folder / "level") or 1)
        latency = {1: 1.5, 2: 5.0}.get(level, ASSUMED_CACHE.latency)
        described.append(CacheLevel(latency, ASSUMED_CACHE.bandwidth, kilobytes * 1024 / MEGA))
    return tuple(cache for cache in described if cache.size) or (ASSUMED_CACHE,)


def _levels(core: int, system: Path) -> list[Path]:
    """The folders of the caches that hold data, the first level first."""
    folders = (system / f"cpu/cpu{core}/cache").glob("index[0-9]*")
    data = [folder for folder in folders if _text(folder / "type") != "Instruction"]
    return sorted(data, key=lambda folder: int(_text(folder / "level") or 0))


def _last_level(core: int, system: Path) -> Path | None:
    levels = _levels(core, system)
    return levels[-1] if levels else None


def _frequency(core: int, system: Path) -> float:
    kilohertz = _text(system / f"cpu/cpu{core}/cpufreq/cpuinfo_max_freq")
    if kilohertz.isdigit():
        return float(kilohertz) / 1e3
    for line in _text(Path("/proc/cpuinfo")).splitlines():
        name, _, value = line.partition(":")
        if name.strip() == "cpu MHz":
            return float(value)
    return ASSUMED_FREQUENCY


def _jax_gpus() -> list[jax.Device]:
    try:
        import jax

        return list(jax.devices("gpu"))
    except (ImportError, RuntimeError):
        return []


def _gpu(number: int, device: jax.Device) -> ComputeDevice:
    """A GPU is one cache group: its multiprocessors cannot be addressed one by one from jax."""
    statistics = getattr(device, "memory_stats", lambda: None)() or {}
    units = int(getattr(device, "core_count", 0) or 1)
    size = float(statistics.get("bytes_limit", 16e9)) / MEGA
    return ComputeDevice(
        identifier=f"gpu{number} {device.device_kind}",
        kind=ProcessorKind.GPU,
        latency=500.0,
        bandwidth=GPU_STREAM / (units * 64),
        max_bandwidth=GPU_STREAM,
        size=size,
        groups=(
            CacheGroup(
                identifier=f"{units} multiprocessors",
                cores=units * 64,
                frequency=GPU_FREQUENCY,
                warp_size=32,
                caches=(CacheLevel(200.0, GPU_STREAM / (units * 64), 40.0),),
            ),
        ),
    )


def _matrix(size: int, value: float) -> tuple[tuple[float, ...], ...]:
    return tuple(tuple(0.0 if a == b else value for b in range(size)) for a in range(size))


def _text(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""


def _cores(path: Path) -> list[int]:
    """Reads a list of cores such as `0-3,8`."""
    cores: list[int] = []
    for part in filter(None, _text(path).split(",")):
        low, _, high = part.partition("-")
        cores.extend(range(int(low), int(high or low) + 1))
    return cores


def _ranges(cores: Sequence[int]) -> str:
    """Writes cores as a list such as `0-3,8`."""
    runs: list[list[int]] = []
    for core in cores:
        if runs and core == runs[-1][1] + 1:
            runs[-1][1] = core
        else:
            runs.append([core, core])
    return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in runs)
