"""Measures what `detection` can only assume: streams from memory and cache, operations, dispatch.

Streams are those of a triad, a = b + s * c, in this process: of a core alone, and of all cores at
once, over arrays four times as large as the last-level cache for memory, and an eighth of it for
the cache. Operations are those of a product of matrices, which is the fastest that XLA does. Each
figure is the best of several runs, as whatever else runs can only make it lower; run it on an idle
machine. What `aiosearch cluster measure` measured is kept for later plans.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from msgspec import Struct, structs

from ..capture.jax_types import NumpyArray
from ..folders import cache_folder, make_folder
from .clusterfiles import read_cluster, write_cluster
from .clusters import MEGA, Cluster, ProcessorKind
from .detection import detect_cluster
from .errors import ClusterError

RUNS = 5
SIDE, PRODUCTS = 384, 40


class Calibration(Struct, frozen=True, kw_only=True):
    """Figures of the processor, in a second or seconds."""

    core_stream: float
    """Bytes per second between memory and a core that is alone."""
    machine_stream: float
    """Bytes per second between memory and all cores together."""
    cache_stream: float
    """Bytes per second between the last-level cache and a core."""
    operations: float
    """Floating-point operations of a core per second."""
    dispatch: float
    """Seconds from calling a compiled function that does nothing to its result."""


def calibrate(cluster: Cluster) -> tuple[Cluster, Calibration]:
    """Measures the CPU of the first node, and gives the cluster with its figures put in."""
    node = cluster.nodes[0]
    position, cpu = next(
        (number, device)
        for number, device in enumerate(node.devices)
        if device.kind is ProcessorKind.CPU
    )
    cache = cpu.groups[0].last_level.size * MEGA
    cores = len(os.sched_getaffinity(0))
    core_stream = _stream(int(4 * cache), 1)
    figures = Calibration(
        core_stream=core_stream,
        machine_stream=max(core_stream, _stream(int(4 * cache), cores)),
        cache_stream=max(core_stream, _stream(int(min(cache / 8, 2e6)), 1)),
        operations=_operations(),
        dispatch=_dispatch(),
    )
    groups = tuple(
        structs.replace(
            group,
            arithmetic_units=figures.operations / (group.frequency * MEGA),
            caches=tuple(
                structs.replace(level, bandwidth=figures.cache_stream / MEGA)
                for level in group.caches
            ),
        )
        for group in cpu.groups
    )
    measured = structs.replace(
        cpu,
        bandwidth=figures.core_stream / MEGA,
        max_bandwidth=figures.machine_stream / MEGA / len(cpu.groups),
        groups=groups,
    )
    devices = (*node.devices[:position], measured, *node.devices[position + 1 :])
    nodes = (structs.replace(node, devices=devices), *cluster.nodes[1:])
    return structs.replace(cluster, nodes=nodes), figures


def _best(run: Callable[[], object], runs: int = RUNS) -> float:
    run()
    laps = []
    for _ in range(runs):
        begun = time.perf_counter()
        run()
        laps.append(time.perf_counter() - begun)
    return min(laps)


def _stream(size: int, threads: int) -> float:
    """Bytes per second of a triad over arrays of `size` bytes in all, on so many threads."""
    length = max(1024, size // 8 // threads // 3)
    arrays = [tuple(np.ones(length) for _ in range(3)) for _ in range(threads)]
    repeats = max(1, int(2e7) // (24 * length * threads))

    def triad(operands: tuple[NumpyArray, ...]) -> None:
        a, b, c = operands
        for _ in range(repeats):
            np.multiply(c, 0.5, out=a)
            np.add(a, b, out=a)

    with ThreadPoolExecutor(threads) as pool:
        seconds = _best(lambda: list(pool.map(triad, arrays)))
    # Two passes: the first reads an array and writes one, the second reads two and writes one.
    return 5 * 8 * length * repeats * threads / seconds


def _operations() -> float:
    """Operations of a core per second, in a product of matrices that fit a cache.

    Per second of CPU time, so that neither how many threads XLA takes nor what else runs matters.
    """
    x = jnp.ones((SIDE, SIDE), jnp.float32)
    product = jax.jit(lambda x: x @ x)

    def run() -> None:
        for _ in range(PRODUCTS):
            product(x).block_until_ready()

    run()
    laps = []
    for _ in range(RUNS):
        begun = time.process_time()
        run()
        laps.append(time.process_time() - begun)
    return 2 * SIDE**3 * PRODUCTS / min(laps)


def _dispatch() -> float:
    nothing = jax.jit(lambda x: x + 1)
    x = jnp.zeros(())
    return _best(lambda: nothing(x).block_until_ready(), 50)


def kept_cluster_path() -> Path:
    """The file in the user's cache folder."""
    return cache_folder() / "cluster.json"


def keep_cluster(cluster: Cluster) -> Path:
    """Writes a measured description where `this_machine` finds it, and gives the path."""
    path = kept_cluster_path()
    make_folder(path.parent)
    write_cluster(cluster, path)
    return path


def this_machine() -> Cluster:
    """What was measured, as long as it is of the cores that this process may use now.

    Otherwise what is detected, with assumed speeds.
    """
    detected = detect_cluster()
    with suppress(ClusterError):
        measured = read_cluster(kept_cluster_path())
        if _core_names(measured) == _core_names(detected):
            return measured
    return detected


def _core_names(cluster: Cluster) -> list[tuple[str, str, int]]:
    return [
        (node.identifier, group.identifier, group.cores)
        for node in cluster.nodes
        for device in node.devices
        for group in device.groups
    ]
