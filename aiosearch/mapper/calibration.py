"""Measures what `detection` can only assume: streams from memory and cache, operations, dispatch.

Streams are those of a triad, a = b + s * c, in this process: of a core alone, and of all cores at
once, over arrays four times as large as the last-level cache for memory, and an eighth of it for
the cache. Operations are those of a product of matrices, which is the fastest that XLA does. Each
figure is the best of several runs, as whatever else runs can only make it lower; run it on an idle
machine. What `aiosearch cluster measure` measured is kept for later plans.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from msgspec import Struct, structs

from ..capture.jax_types import Function, Leaf, NumpyArray
from ..folders import cache_folder, make_folder
from .clusterfiles import read_cluster, write_cluster
from .clusters import MEGA, Cluster, ProcessorKind
from .detection import detect_cluster
from .errors import ClusterError, PlanError
from .jaxpr_patterns import DEAR, VIEWS
from .layouts import MeshCosts
from .rows.blocked import RowSchedule
from .rows.demands import Pulled, work_of
from .rows.equations import FlatValue

RUNS = 5
SIDE, PRODUCTS = 384, 40
FRESH_SIZES = (1 << 20, 1 << 22, 1 << 24, 1 << 25, 1 << 26)
"""Bytes of the new arrays that are timed. Small ones get memory that the process has kept; those of
32 MB and more are pages of the system each time, which it zeroes first."""


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
    simple: float
    """Additions and their like that a core does a second on what its cache holds."""
    divisions: float
    """Divisions and roots, likewise."""
    dear: float
    """Exponentials and their like, likewise, in a block that XLA compiles by itself."""
    dear_fused: float
    """The same where XLA fuses the block with writing it, and so without vector instructions."""
    dear_behind: float
    """The same of what a product gives, which is still at hand."""
    block: float
    """Seconds that a loop takes for a turn, beside what it computes."""
    fresh: tuple[float, ...]
    """Seconds for a new array of each of `FRESH_SIZES` bytes, which XLA fills."""
    cache_size: float
    """Bytes of the last-level cache that a core has to itself."""

    def filled(self, size: float) -> float:
        """Seconds of a core for a new array of so many bytes, between those that were measured."""
        if size <= FRESH_SIZES[0] or size >= FRESH_SIZES[-1]:
            nearest = 0 if size <= FRESH_SIZES[0] else -1
            return self.fresh[nearest] * size / FRESH_SIZES[nearest]
        return float(np.interp(size, FRESH_SIZES, self.fresh))


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
        simple=_elementwise(lambda x: x * 0.5 + 1.0, fence=True) * 2,
        divisions=_elementwise(lambda x: 1.0 / (x + 1.0), fence=True),
        dear=_elementwise(jnp.tanh, fence=True),
        dear_fused=_elementwise(jnp.tanh, fence=False),
        dear_behind=_behind_products(),
        block=_block(),
        fresh=tuple(map(_fresh, FRESH_SIZES)),
        cache_size=cache / cpu.groups[0].cores,
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


MESH_BYTES, MESH_SIDE = 1 << 22, 256


def measure_mesh(devices: Sequence[jax.Device]) -> MeshCosts:
    """What each of these devices computes and moves in a second while all of them do, for `shard`.

    A chain of products, a pass through memory, a sum over all devices of little and of much, and
    the way to the memory of the host. Takes seconds. Raises PlanError where there is no device.
    """
    count = len(devices)
    if not count:
        raise PlanError("there is no device of which a mesh could be measured")
    mesh = jax.sharding.Mesh(np.array(devices), ("all",))
    spec: Function = jax.sharding.PartitionSpec  # which jax leaves without annotations
    add: Function = lax.psum

    def timed(run: Function, size: Sequence[int]) -> float:
        """Seconds of a program on all devices, each of which has an array of this size."""
        mapped = jax.shard_map(
            run, mesh=mesh, in_specs=spec("all"), out_specs=spec("all"), check_vma=False
        )
        shape = (count * size[0], *size[1:])
        array = jax.device_put(np.ones(shape, np.float32), jax.NamedSharding(mesh, spec("all")))
        compiled = jax.jit(mapped)
        return _best(lambda: compiled(array).block_until_ready())

    def products(x: Leaf) -> Leaf:
        for _ in range(8):
            x = x @ x
        return x

    length = MESH_BYTES // 4
    start = timed(lambda x: x + 1, (1,))
    latency = max(timed(lambda x: add(x, "all"), (1,)) - start, 1e-7)
    computing = timed(products, (MESH_SIDE, MESH_SIDE)) - start
    streaming = timed(lambda x: x * 2 + 1, (length,)) - start
    summing = timed(lambda x: add(x, "all"), (length,)) - start - latency
    away = timed(lambda x: jax.device_put(x, jax.memory.Space.Host), (length,)) - start
    return MeshCosts(
        operations=8 * 2 * MESH_SIDE**3 / max(computing, 1e-9),
        memory=2 * MESH_BYTES / max(streaming, 1e-9),
        # A ring passes everything around twice.
        links=2 * MESH_BYTES * max(1, count - 1) / count / max(summing, 1e-9),
        host=MESH_BYTES / max(away, 1e-9),
        latency=latency,
    )


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


CHAIN, ELEMENTS = 32, 16_384
"""How often a function is applied in a row, to how many numbers, when it is timed."""


def _elementwise(function: Function, *, fence: bool) -> float:
    """How many numbers a core computes in a second, of a chain of a function on what a cache holds.

    In a loop of blocks, as rows run, and by CPU time.
    """
    x = jnp.linspace(0.0, 1.0, ELEMENTS * 64).reshape(64, ELEMENTS)

    def chain(block: Leaf) -> Leaf:
        for _ in range(CHAIN):
            block = function(block)
        return block

    def fenced(block: Leaf, true: Leaf) -> Leaf:
        return lax.cond(true, chain, jnp.zeros_like, block) if fence else chain(block)

    run = jax.jit(lambda x, true: lax.map(lambda block: fenced(block, true), x))
    run(x, True).block_until_ready()
    laps = []
    for _ in range(RUNS):
        begun = time.process_time()
        run(x, True).block_until_ready()
        laps.append(time.process_time() - begun)
    return x.size * CHAIN / min(laps)


def _behind_products() -> float:
    """How many numbers a second are computed of what products give: that of layers, less that of
    the products alone."""
    x, w = jnp.ones((64, 512, 64)), jnp.full((64, 64), 0.02)

    def layers(last: Function) -> float:
        def run(rows: Leaf) -> Leaf:
            for _ in range(4):
                rows = last(rows @ w)
            return rows

        compiled = jax.jit(lambda x: lax.map(run, x))
        compiled(x).block_until_ready()
        laps = []
        for _ in range(RUNS):
            begun = time.process_time()
            compiled(x).block_until_ready()
            laps.append(time.process_time() - begun)
        return min(laps)

    products, both = layers(lambda rows: rows), layers(jnp.tanh)
    # Noise may exceed what a product alone takes: then nothing is known but that it is fast.
    return 4 * x.size / max(both - products, both / 10)


def _block(turns: int = 10_000) -> float:
    x = jnp.zeros((turns, 8))
    run = jax.jit(lambda x: lax.map(lambda row: row + 1, x))
    return _best(lambda: run(x).block_until_ready()) / turns


def _fresh(size: int) -> float:
    """Seconds of a core for a new array of so many bytes that XLA fills.

    Of XLA's, as NumPy asks the system for large pages, which cost a third.
    """
    fill = jax.jit(lambda value: jnp.full(size // 4, value, jnp.float32))
    repeats = max(1, FRESH_SIZES[-1] // size // 4)
    fill(1.0).block_until_ready()
    laps = []
    for _ in range(RUNS):
        begun = time.process_time()
        for _ in range(repeats):
            fill(1.0).block_until_ready()
        laps.append(time.process_time() - begun)
    return min(laps) / repeats


DIVISIONS = frozenset({"div", "rsqrt", "sqrt"})
"""Of the dear primitives those that processors have an instruction for."""


class RowPrediction(Struct, frozen=True, kw_only=True):
    """Seconds of the team that takes longest, by what they are for."""

    dispatch: float
    products: float
    simple: float
    divisions: float
    dear: float
    streaming: float
    fresh: float
    """New arrays, which are filled before rows are written into them."""
    joining: float
    turns: float
    share: float
    """Which share of all rows it has."""

    @property
    def seconds(self) -> float:
        return sum(self.parts().values())

    @property
    def cpu_seconds(self) -> float:
        """Seconds of all teams together, which other work on the machine does not change."""
        apart = self.dispatch + self.joining
        return apart + (self.seconds - apart) / self.share

    @property
    def binding(self) -> str:
        """What most of the time is for."""
        parts = self.parts()
        return max(parts, key=lambda name: parts[name])

    def parts(self) -> dict[str, float]:
        return {name: part for name, part in structs.asdict(self).items() if name != "share"}


def predict_rows(
    pulled: Pulled, schedule: RowSchedule, rows: int, figures: Calibration
) -> RowPrediction:
    """What a program takes by a schedule, by what was measured of this machine.

    A block's products, simple functions, divisions and dear functions take their time one after
    another. What goes in and out streams from memory; so does what lies between where a block does
    not fit a cache. Each team has new arrays for its results, which are filled before, and those of
    teams are joined.
    """
    cores = len(os.sched_getaffinity(0))
    products = simple = divisions = dear = between = 0.0
    for equation in pulled.flat.equations:
        value = equation.outputs[0]
        work = work_of(equation, value)
        if equation.name == "dot_general":
            products += 2 * work
            between += math.prod(value.shape) * np.dtype(value.dtype).itemsize
        elif equation.name in DIVISIONS:
            divisions += work
        elif equation.name in DEAR:
            dear += work
        elif equation.name not in VIEWS:
            simple += work
    inputs = [(value, pulled.inputs[value.number]) for value in pulled.flat.inputs]
    moved = float(
        sum(
            math.prod(value.shape) * np.dtype(value.dtype).itemsize
            for value, asked in inputs
            if any(demand is not None for demand in asked)
        )
    )
    results = [
        math.prod(atom.shape) * np.dtype(atom.dtype).itemsize
        for atom in pulled.flat.outputs
        if isinstance(atom, FlatValue)
    ]
    written = sum(results)
    moved += written
    widest = max(
        (
            math.prod(value.shape) * np.dtype(value.dtype).itemsize
            for equation in pulled.flat.equations
            if equation.name not in VIEWS
            for value in equation.outputs
        ),
        default=0,
    )
    if widest * schedule.block / rows > figures.cache_size:
        moved += 2 * between
    slowest = max(count for _, count in schedule.runs(rows))
    share = slowest / rows
    vectors = schedule.fence or schedule.block >= slowest
    rate = figures.dear if vectors else figures.dear_fused
    # Only what is written is fused with writing: behind a product, that is the last function.
    rate = figures.dear_behind if products else rate
    teams = min(schedule.teams, cores)
    stream = min(figures.core_stream, figures.machine_stream / teams)
    turns = -(-slowest // schedule.block)
    # What teams give is copied into one array at the end.
    is_joined = len(schedule.runs(rows)) > 1
    return RowPrediction(
        dispatch=figures.dispatch,
        products=share * products / figures.operations,
        simple=share * simple / figures.simple,
        divisions=share * divisions / figures.divisions,
        dear=share * dear / rate,
        streaming=share * moved / stream,
        fresh=sum(figures.filled(share * size) for size in results),
        joining=is_joined
        * (sum(map(figures.filled, results)) + 2 * written / figures.machine_stream),
        turns=turns * figures.block,
        share=share,
    )


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
