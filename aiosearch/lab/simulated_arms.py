"""Arms on a virtual clock: a recording replayed with any number of workers, under the switches."""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from ..testing import Simulation, simulate
from .arms import BASE, Arm, Solver, Split, Verdicts
from .recording.replay import Recorded, RecordedWithQuestions
from .static_split import strategy_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..strategies import Command, Event, Plan, Strategy


class ThinkingStopwatch:
    """A strategy, and the time that it takes for its decisions."""

    def __init__(self, strategy: Strategy) -> None:
        self.api = strategy.api
        self.events = 0
        self.spent = 0
        """Nanoseconds of this process."""
        self._strategy = strategy

    def __getattr__(self, name: str) -> Any:
        """Has what the strategy has beside its methods, such as an exchange."""
        return getattr(self._strategy, name)

    def start(self, plan: Plan) -> None:
        self._strategy.start(plan)

    def handle(self, event: Event) -> Iterable[Command]:
        began = time.perf_counter_ns()
        commands = tuple(self._strategy.handle(event))
        self.spent += time.perf_counter_ns() - began
        self.events += 1
        return commands

    @property
    def seconds(self) -> float:
        """An event, on average."""
        return self.spent / self.events / 1e9 if self.events else 0.0


class SimulationSetting(Struct, frozen=True, kw_only=True):
    """What all runs have in common. Times are in seconds."""

    hosts: int = 1
    latency: float = 200e-6
    """Seconds of a message to another machine, one way."""
    local_latency: float = 15e-6
    host_cost: float = 16e-6
    """Seconds that a message costs the host; benchmarks/simulated.py measures it."""
    checkers: int = 0
    """z3 processes where they are pooled; 0 for one for each worker."""
    locked: float = 1.0
    """The share of a check that a `locked` z3 can do for one worker only."""
    contention: float = 0.0
    """The share by which each waiting z3 makes the locked part take longer; see `Gate`."""
    scale: float = 1.0
    """Multiplies the times of nodes and checks, before `host_cost` and latencies, which stay."""
    longest: float = float("inf")
    """Seconds that a node may take at most, before `scale`: what struck a longer one was the
    machine."""


class Replayed(Struct, frozen=True):
    """What an arm came to; the median of all repeats."""

    strategy: str
    verdicts: Verdicts
    solver: Solver
    split: Split
    workers: int
    hosts: int
    seconds: float
    speedup: float
    """Over one worker of `BASE`, without switches."""
    efficiency: float
    balance: float
    least: float
    """Least over most of the workers' busy time."""
    idle: float
    """The share of the workers' time in which they held nothing."""
    contention: float
    """The share of the workers' time in which they had nothing to do but wait for verdicts."""
    checks: int
    redundant: int
    """Checks beyond those of one worker, who asks each question once; with `private` verdicts."""
    messages: int
    tasks: int
    host: float
    """The share of the time in which the host was at work."""
    thinking: float
    """Seconds that an event really took the strategy, here."""

    @property
    def name(self) -> str:
        """The strategy and the switches that are not as usual."""
        return Arm(self.strategy, "", 0, self.verdicts, self.solver, self.split).name


class Replay:
    """Replays one recording, and compares every run with one worker of `BASE`."""

    def __init__(
        self, recorded: Recorded, setting: SimulationSetting, order: str = "depth-first"
    ) -> None:
        self._recorded = recorded
        self._setting = setting
        # On the same clock and with the same costs, or a speed-up would compare two machines
        self.alone, _ = self._run(Arm(BASE, order, 1), 0)

    def run(self, arm: Arm, repeat: int = 1) -> Replayed:
        """Simulates an arm, `repeat` times, with another seed each time."""
        return _median([self._told(arm, *self._run(arm, seed)) for seed in range(repeat)])

    def _run(self, arm: Arm, seed: int) -> tuple[Simulation, ThinkingStopwatch]:
        recorded, setting = self._recorded, self._setting
        watch = ThinkingStopwatch(strategy_of(arm))
        locked = arm.solver == "locked"
        verdict = None
        if isinstance(recorded, RecordedWithQuestions):
            verdict = recorded.verdict_after(setting.scale)
        simulation = simulate(
            watch,
            recorded,
            arm.workers,
            order=arm.order,
            hosts=min(setting.hosts, arm.workers),
            latency=setting.latency,
            local_latency=setting.local_latency,
            node_seconds=self._node_seconds(),
            host_seconds=setting.host_cost,
            checkers=arm.workers if locked or not setting.checkers else setting.checkers,
            verdict=verdict,
            shared_verdicts=arm.verdicts == "shared",
            locked=setting.locked if locked else 0.0,
            contention=setting.contention,
            seed=seed,
        )
        return simulation, watch

    def _node_seconds(self) -> Callable[[int], float]:
        seconds, scale, longest = self._recorded.seconds, self._setting.scale, self._setting.longest
        if scale == 1.0 and longest == float("inf"):
            return seconds
        return lambda node: min(seconds(node), longest) * scale

    def _told(self, arm: Arm, simulation: Simulation, watch: ThinkingStopwatch) -> Replayed:
        speedup = self.alone.seconds / simulation.seconds
        return Replayed(
            strategy=arm.strategy,
            verdicts=arm.verdicts,
            solver=arm.solver,
            split=arm.split,
            workers=arm.workers,
            hosts=min(self._setting.hosts, arm.workers),
            seconds=simulation.seconds,
            speedup=speedup,
            efficiency=speedup / arm.workers,
            balance=simulation.balance,
            least=_least(simulation),
            idle=sum(worker.idle for worker in simulation.workers)
            / arm.workers
            / simulation.seconds,
            contention=simulation.contention,
            checks=simulation.checks,
            redundant=simulation.checks - self.alone.checks,
            messages=simulation.messages,
            tasks=simulation.tasks,
            host=simulation.host / simulation.seconds,
            thinking=watch.seconds,
        )


def _least(simulation: Simulation) -> float:
    busy = [worker.busy for worker in simulation.workers]
    return min(busy) / max(busy) if any(busy) else 1.0


_FIGURES = Replayed.__struct_fields__[Replayed.__struct_fields__.index("seconds") :]


def _median(rows: list[Replayed]) -> Replayed:
    """Takes each figure's median; the `Arm` is the same in all."""
    if len(rows) == 1:
        return rows[0]
    figures = {name: median(getattr(row, name) for row in rows) for name in _FIGURES}
    return msgspec.convert(msgspec.to_builtins(rows[0]) | figures, Replayed, strict=False)
