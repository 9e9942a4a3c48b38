"""From a JAX function to a plan that runs: traced, cut into rows, scheduled by measuring, verified.

The whole way for one machine with a CPU. The function is traced once; demands for rows are pulled
back through its equations (`rows.demands`); schedules, which are teams and block sizes, are
measured and raced against `jax.jit` (`rows.schedule_race`); the winner is compared with the
original (`rows.evidence`), and proved equal where that can be done (`rows.proof`). Where nothing is
faster, or anything differs, the plan is the original, and says why.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ParamSpec, TypeAlias, TypeVar

import jax
from anyio import to_thread

from ..arguments import is_positive, is_whole, require
from ..capture.jax_types import Function, Leaf, PyTree
from .calibration import this_machine
from .clusterfiles import read_cluster
from .clusters import MEGA, Cluster, ProcessorKind
from .device_steps import (
    DeviceSteps,
    described_devices,
    jax_devices,
    predicted_speeds,
    shared_out,
)
from .errors import ClusterError, PatternError, PlanError
from .jaxpr_patterns import patterns_of
from .plans import (
    TRANSCENDENTAL,
    PlacementPlan,
    describe_plan,
    function_name,
    on_first_cpu,
    predict_devices,
    predict_teams,
)
from .rows.blocked import RowBlocks, RowRunner, memory_of
from .rows.choice import choose_rows
from .rows.demands import Pulled
from .rows.equations import Flat, trace
from .rows.evidence import compare
from .rows.proof import prove_rows
from .rows.schedule_race import LEAST_GAIN, Choice, choose_schedule, race_pair, timed

P = ParamSpec("P")
R = TypeVar("R")

LEAST_SHARE = 0.5
"""How much of a program must be computed by rows for that to be tried."""
SHARINGS = 4
"""How often rows are shared out among devices at most, each time by the speeds measured before."""

AnyPlan: TypeAlias = PlacementPlan[Any, Any]
"""A plan of a function of which no types are known."""


async def place(
    function: Callable[P, R],
    /,
    *args: PyTree,
    cluster: Cluster | str | Path = "auto",
    teams: int | None = None,
    memory: int | None = None,
    seconds: float = 30.0,
    seed: int = 0,
    **kwargs: PyTree,
) -> PlacementPlan[P, R]:
    """Finds how a function runs fastest on this machine's cores, and gives it as a plan.

    - `cluster`: this machine's description, a file of it, or `auto` for what was measured or is
      detected. Devices in it whose identifiers are those of devices of jax, such as `cpu:1` or
      `gpu:0`, share the function's rows by their speeds, each with a program of its own.
    - `teams`: how many teams may share the rows; by default as many as there are cores.
    - `memory`: bytes that a plan may need, on each device, beside its arguments and results.
    - `seconds`: for how long schedules are measured.

    The plan is called as the function is, and gives what it gives: it is the original where no
    schedule is verified and measured faster. Raises PlanError where the function cannot be traced,
    takes keyword arguments, or no plan fits the memory.
    """
    require(
        {
            "teams": ("a whole number above 0", lambda n: n is None or (is_whole(n) and n > 0)),
            "memory": ("a number of bytes above 0", lambda n: n is None or (is_whole(n) and n > 0)),
            "seconds": ("a number above 0", is_positive),
            "seed": ("a whole number", is_whole),
        },
        teams=teams,
        memory=memory,
        seconds=seconds,
        seed=seed,
    )
    if kwargs:
        raise PlanError(
            f"place takes positional arguments of the function only, not {', '.join(kwargs)}; bind "
            "them with functools.partial"
        )
    machine = find_cluster(cluster)
    # Traced here, under this thread's settings of jax; what is measured does not hold up the loop.
    flat, out = trace(function, args)
    leaves, tree = jax.tree_util.tree_flatten(args)
    if any(isinstance(leaf, jax.ShapeDtypeStruct) for leaf in leaves):
        raise PlanError("place runs the function, so it takes arrays, not their types alone")
    cores = sum(
        group.cores
        for device in machine.nodes[0].devices
        if device.kind is ProcessorKind.CPU
        for group in device.groups
    )
    placer = _Placer(function, leaves, (tree, out), machine, memory, seed)
    # Where this is cancelled, the thread ends behind the run that it is timing.
    try:
        return await to_thread.run_sync(
            lambda: placer.place(flat, teams or cores, seconds), abandon_on_cancel=True
        )
    finally:
        placer.stop.set()


def find_cluster(cluster: Cluster | str | Path) -> Cluster:
    """A description as it is, from its file, or of this machine where it is `auto`."""
    if isinstance(cluster, Cluster):
        return cluster
    if not isinstance(cluster, str | Path):
        raise ClusterError(f"a cluster is a description, its file, or 'auto', not {cluster!r}")
    return this_machine() if cluster == "auto" else read_cluster(cluster)


class _Placer:
    """What is fixed while a function is placed."""

    def __init__(
        self,
        function: Function,
        leaves: list[Leaf],
        trees: tuple[PyTree, PyTree],
        cluster: Cluster,
        memory: int | None,
        seed: int,
    ) -> None:
        self.function = function
        self.leaves = [jax.numpy.asarray(leaf) for leaf in leaves]
        self.trees = trees
        self.cluster = cluster
        self.memory = memory
        self.seed = seed
        self.stop = threading.Event()
        self._compiled = jax.jit(self._flat)

    def _flat(self, *values: Leaf) -> list[Leaf]:
        result = self.function(*jax.tree_util.tree_unflatten(self.trees[0], values))
        return jax.tree_util.tree_leaves(result)

    def original(self, values: Sequence[Leaf]) -> list[Leaf]:
        return list(self._compiled(*values))

    def place(self, flat: Flat, teams: int, seconds: float) -> AnyPlan:
        devices = jax_devices(described_devices(self.cluster))
        if devices and list(devices.values()) != jax.devices("cpu")[:1]:
            return self._place_on(devices, flat, seconds)
        pulled = choose_rows(flat)
        if pulled is None or pulled.share < LEAST_SHARE:
            return self._as_it_is(pulled, "its rows depend on each other")
        if not all(map(on_first_cpu, self.leaves)):
            return self._as_it_is(pulled, "its arguments are not on the first CPU device")
        blocks = RowBlocks(pulled)
        # An original that does not fit is no alternative, however fast it is.
        needed = self._needed()
        least_gain = LEAST_GAIN if self.memory is None or needed <= self.memory else 0.0
        choice = choose_schedule(
            self.original,
            blocks,
            self.leaves,
            teams=teams,
            seconds=seconds,
            fits=self._fits,
            least_gain=least_gain,
            stop=self.stop,
        )
        if choice.winner is None:
            fitting = any(math.isfinite(lap.seconds) for lap in choice.tried)
            reason = "was faster than jax.jit" if fitting else "fits the memory"
            return self._as_it_is(pulled, f"no schedule {reason}", choice)
        evidence = compare(
            self.original, RowRunner(blocks, choice.winner), self.leaves, seed=self.seed
        )
        if not evidence.holds:
            return self._as_it_is(pulled, f"the fastest schedule is {evidence}", choice)
        args = jax.tree_util.tree_unflatten(self.trees[0], self.leaves)
        proof = prove_rows(self.function, args, pulled)
        if proof.startswith("refuted"):
            return self._as_it_is(pulled, f"computed by rows it is {proof}", choice)
        operations, size = self._work()
        team_list = predict_teams(self.cluster, choice.winner, blocks.rows, operations, size)
        description = describe_plan(
            self.function, self.leaves, pulled, choice.winner, choice=choice,
            evidence=f"{evidence}; {proof}", teams=team_list,
        )  # fmt: skip
        plan: AnyPlan = PlacementPlan(self.function, description, blocks, self.trees, choice)
        return plan.measure(*args)

    def _place_on(self, devices: dict[str, jax.Device], flat: Flat, seconds: float) -> AnyPlan:
        """Shares rows out among devices by speeds that are predicted first and then measured."""
        deadline = time.monotonic() + seconds
        try:
            patterns = patterns_of(flat, function_name(self.function), recurrences=False)
        except PatternError as error:
            return self._as_it_is(None, str(error))
        speeds = predicted_speeds(patterns, self.cluster, next(iter(devices)))
        best: tuple[float, DeviceSteps] | None = None
        for _ in range(SHARINGS):
            across = DeviceSteps(patterns, shared_out(patterns, speeds), devices)
            if not self._holds(across):
                break
            timed(across, self.leaves)  # compiles
            lap = min(timed(across, self.leaves) for _ in range(2))
            if best is None or lap < best[0]:
                best = lap, across
            if time.monotonic() > deadline or self.stop.is_set():
                break
            speeds = self._measured_speeds(across, speeds)
        if best is None:
            return self._as_it_is(None, "no sharing among the devices fits their memory")
        across = best[1]
        gains = race_pair(self.original, across, self.leaves, deadline, self.stop)
        fits = self.memory is None or self._needed() <= self.memory
        choice = Choice(
            winner=None, original_seconds=gains.usual, seconds=gains.seconds, gain=gains.gain,
            tried=(),
        )  # fmt: skip
        if fits and gains.gain < LEAST_GAIN:
            return self._as_it_is(
                None, "no sharing among the devices was faster than jax.jit", choice
            )
        evidence = compare(self.original, across, self.leaves, seed=self.seed)
        if not evidence.holds:
            return self._as_it_is(None, f"what the devices compute is {evidence}", choice)
        description = describe_plan(
            self.function, self.leaves, None, None, choice=choice, evidence=str(evidence),
            teams=predict_devices(self.cluster, across), across=across,
        )  # fmt: skip
        plan: AnyPlan = PlacementPlan(self.function, description, None, self.trees, choice, across)
        return plan.measure(*jax.tree_util.tree_unflatten(self.trees[0], self.leaves))

    def _holds(self, across: DeviceSteps) -> bool:
        """Whether each device has room for what it would hold, and all of it fits the limit."""
        described = described_devices(self.cluster)
        held = across.device_bytes()
        if any(size > described[device].size * MEGA for device, size in held.items()):
            return False
        return self.memory is None or across.temporary_bytes(self.leaves) <= self.memory

    def _measured_speeds(self, across: DeviceSteps, speeds: dict[str, float]) -> dict[str, float]:
        """Rows a second of each device, over all steps; as before where it computed none."""
        across.laps(self.leaves)
        laps = across.laps(self.leaves)
        spent, rows = dict.fromkeys(speeds, 0.0), dict.fromkeys(speeds, 0)
        for number, step in enumerate(across.steps):
            for device in {part.device for part in step}:
                spent[device] += laps[number, device]
            for part in step:
                rows[part.device] += part.rows
        measured = {device: rows[device] / spent[device] for device in speeds if spent[device]}
        least = min(measured.values())
        return {device: measured.get(device, least) for device in speeds}

    def _needed(self) -> int:
        """Bytes that the original needs beside its arguments and results."""
        return memory_of(self._compiled.lower(*self.leaves).compile()).temporary

    def _fits(self, runner: RowRunner) -> bool:
        return self.memory is None or runner.temporary_bytes(self.leaves) <= self.memory

    def _as_it_is(
        self, pulled: Pulled | None, reason: str, choice: Choice | None = None
    ) -> AnyPlan:
        if self.memory is not None and (needed := self._needed()) > self.memory:
            raise PlanError(
                f"no plan fits {self.memory:,} bytes: {reason}, and the original needs "
                f"{needed:,}; allow more memory"
            )
        description = describe_plan(
            self.function, self.leaves, pulled, None, choice=choice, reason=reason
        )
        blocks = RowBlocks(pulled) if pulled else None
        return PlacementPlan(self.function, description, blocks, self.trees, choice)

    def _work(self) -> tuple[float, float]:
        """Operations of the program, and bytes of its arguments and results, as XLA counts them."""
        compiled = self._compiled.lower(*self.leaves).compile()
        analysis = compiled.cost_analysis() or {}
        operations = analysis.get("flops", 0.0)
        operations += TRANSCENDENTAL * analysis.get("transcendentals", 0.0)
        memory = memory_of(compiled)
        return float(operations), float(memory.arguments + memory.results)
