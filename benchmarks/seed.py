"""Mirage's experiment, repeated on every strategy: run here with z3, and simulated far beyond.

    python benchmarks/seed.py                    # twenty minutes
    python benchmarks/seed.py --quick            # five minutes, without Ray
    python benchmarks/seed.py --only measured    # or simulated: the other half is left out

Mirage's search of a block, which asks z3 of every prefix, is shared out in every way there is: by
each strategy that is installed, and dealt out once at depth one, as Mirage did it. Verdicts are
known to all; or to the process alone that asked; or to all, of one z3 behind a lock. Each is
run with 1, 2 and 4 workers, in turns, and replayed with 1 to 128 on a virtual clock. Beside stand
the figures of the study of Mirage's parallel search, where it has some for that way.

Machines of `sockets` and nodes of `ray` are processes on loopback with one worker each. A worker
and its z3 are two processes, so with more workers than half the processors a speed-up tells of the
machine. `busiest` is that of the CPU seconds of whichever process spent most, about what it would
be with a processor for each; `cpu`, what one worker of `queue` and its z3 spent over what all did.
Simulated workers and z3 processes have a processor each.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import lib.engine.published as published
from lib.engine.ray_cluster import has_ray, ray_nodes
from lib.engine.replays import DEPTH, WORKERS, Curve, Replays, recorded
from lib.figures import figure
from msgspec import Struct
from msgspec.structs import replace

from aiosearch.lab.arms import Arm, with_bases
from aiosearch.lab.ladder import RUNGS, Rung
from aiosearch.lab.rows import ArmRow, rows
from aiosearch.lab.simulated_arms import Replayed
from aiosearch.lab.trial import ArmContest, TrialOutcome
from aiosearch.remote.links import has_transport
from aiosearch.strategies import list_strategies
from aiosearch.workloads import Blocks, Kernels

HERE = (1, 2, 4)
"""Workers that are run; more are simulated."""
BASE = Arm("queue", DEPTH, 1)
DEALT = Arm("queue", DEPTH, 0, split="height1")
RAY = "ray"
CACHES: Mapping[str, dict[str, Any]] = {
    "shared": {},
    "per process": {"verdicts": "private"},
    "one lock": {"solver": "locked"},
}
ASKING = {
    name: rung.problem for name, rung in RUNGS.items() if isinstance(rung.problem, Blocks | Kernels)
}
"""Mirage's searches on the ladder."""
STUDIED = "gqa"
"""The program of the study whose questions were counted."""


class Way(Struct, frozen=True):
    """A strategy, and who knows what z3 said."""

    strategy: str
    cache: str
    arm: Arm
    """Without its workers."""

    def __str__(self) -> str:
        return f"{self.strategy}, {self.cache}"


class Found(Struct, frozen=True):
    """What one way came to, by workers; nothing where that was left out."""

    way: Way
    rung: str
    task: str
    base: ArmRow | None
    here: Mapping[int, ArmRow]
    beyond: Curve | None

    def tell(self) -> None:
        self._tell(
            ("speed-up of", "T1 / Tn"),
            lambda row: row.speedup and row.speedup.mean,
            lambda row: row.speedup,
            seed=_speedups(self.task, self.way.cache),
            busiest=self._each(lambda row: row.cpu_speedup),
            cpu=self._each(lambda row: row.cpu_efficiency),
        )
        self._tell(
            ("balance of", "mean over maximum of the workers' CPU seconds"),
            lambda row: row.cpu_balance,
            lambda row: row.balance,
            seed=_balances(self.task, self.way.cache),
            least_over_most=self._each(lambda row: row.cpu_least),
            least_simulated=self._all(lambda row: row.least),
            idle=self._each(lambda row: row.idle_share),
        )
        self._tell(
            ("contention of", "share of the workers' time in which they wait for z3"),
            lambda row: row.contention,
            lambda row: row.contention,
            seed=_waits(self.task, self.way.cache),
            queued_ms=self._each(lambda row: 1e3 * (row.queue_seconds or 0.0)),
        )
        self._tell(
            ("questions of", "asked over those of one worker, who asks each once"),
            self._over_once,
            lambda row: self.beyond.redundancy(row) if self.beyond else None,
            seed=_asked(self.way.cache),
            again=self._each(lambda row: row.redundant),
        )

    def _tell(
        self,
        what: tuple[str, str],
        measured: Callable[[ArmRow], float | None],
        simulated: Callable[[Replayed], float | None],
        **more: Any,
    ) -> None:
        name, unit = what
        here = self._each(measured)
        figure(
            f"{name} {self.way}: {self.rung}",
            here.get(max(HERE)),
            f"{unit}, {max(HERE)} workers",
            measured=here,
            simulated=self._all(simulated),
            **{key: each for key, each in more.items() if each},
        )

    def _over_once(self, row: ArmRow) -> float | None:
        once = self.base.checks if self.base else None
        return row.checks / once if row.checks and once else None

    def _each(self, get: Callable[[ArmRow], float | None]) -> dict[int, float]:
        return _rounded({workers: get(row) for workers, row in self.here.items()})

    def _all(self, get: Callable[[Replayed], float | None]) -> dict[int, float]:
        rows = self.beyond.rows if self.beyond else ()
        return _rounded({row.workers: get(row) for row in rows})


def _rounded(figures: Mapping[int, float | None]) -> dict[int, float]:
    return {key: round(each, 3) for key, each in figures.items() if each is not None}


def _speedups(task: str, cache: str) -> Mapping[int, float]:
    """Threads had one z3 with a lock; processes, which shared nothing, were dealt out to."""
    tables = {"one lock": published.THREADS, "per process": published.RANKS}
    found = tables.get(cache, {}).get(task, ())
    return dict(zip(published.WORKERS, found, strict=False))


def _balances(task: str, cache: str) -> Mapping[str, float]:
    """Of eight to whom it was dealt: of threads, and of the program on which it was worst."""
    processes, threads = published.BALANCE
    if cache == "per process":
        return {f"{STUDIED} 8 processes": processes}
    least = {f"{task} least of 8": published.LEAST[task]} if task in published.LEAST else {}
    return {f"{STUDIED} 8 threads": threads, **least} if cache == "shared" else {}


def _waits(task: str, cache: str) -> Mapping[int, float]:
    return dict(published.WAITING) if cache == "one lock" and task == "rms_norm" else {}


def _asked(cache: str) -> Mapping[int, float]:
    once = published.QUESTIONS[1]
    asked = published.QUESTIONS if cache == "per process" else {}
    return {workers: round(each / once, 2) for workers, each in asked.items()}


def ways() -> list[Way]:
    """Every strategy that is installed, and the seed's own split, by every cache."""
    names = [info.name for info in list_strategies() if not info.error]
    lines = {name: Arm(name, DEPTH, 0) for name in names}
    return [
        Way(name, cache, replace(line, **switches))
        for name, line in {"dealt once": DEALT, **lines}.items()
        for cache, switches in CACHES.items()
    ]


async def measured(rung: Rung, every: Sequence[Way], repeats: int, ray: bool) -> dict[Arm, ArmRow]:
    """Runs all ways on each number of workers; those of Ray on a cluster of so many nodes.

    A node of Ray brings a z3 process, so that there none can be locked.
    """
    usual = [way.arm for way in every if way.arm.strategy != RAY]
    found = await _contest(rung, _with_workers(usual, HERE), repeats)
    on_ray = [way.arm for way in every if way.arm.strategy == RAY and way.arm.solver == "pooled"]
    for workers in HERE if ray and on_ray else ():
        with ray_nodes(workers):
            rayed = await _contest(rung, _with_workers(on_ray, (workers,)), repeats)
        found |= {arm: row for arm, row in rayed.items() if arm.strategy == RAY}
    return found


def _with_workers(arms: Sequence[Arm], numbers: Sequence[int]) -> list[Arm]:
    return [replace(arm, workers=workers) for workers in numbers for arm in arms]


async def _contest(rung: Rung, arms: Sequence[Arm], repeats: int) -> dict[Arm, ArmRow]:
    """Every way has to give the same answer; one whose workers do not come is left out."""
    contest = ArmContest(
        rung.problem, with_bases(arms), repeats, ended=_ended, on_unknown=rung.on_unknown
    )
    await contest.run()
    for arm, reason in contest.failures.items():
        _say(f"left out: {arm}: {reason}")
    found = rows(rung.problem, contest.arms, contest.outcomes, contest.failures)
    whole = [row for row in found if row.arm not in contest.failures]
    assert not [row for row in whole if row.trouble], [(row.arm, row.trouble) for row in whole]
    return {row.arm: row for row in whole}


def _ended(outcome: TrialOutcome) -> None:
    _say(f"round {outcome.round + 1}: {outcome.arm}: {outcome.seconds:.1f} s")


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")


def simulated(rung: str, every: Sequence[Way]) -> dict[Way, Curve]:
    """Replays all ways; machines have one worker each, as here."""
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "blocks.tree"
        recorded(rung, path)
        replays = Replays(path)
    for way in every:
        hosts = max(WORKERS) if has_transport(way.arm.strategy) else 1
        found[way] = replays.curve(str(way), way.arm, {"hosts": hosts})
        _say(f"simulated: {way}")
    return found


def main() -> None:
    options = _options()
    name = options.rung or ("blocks-second" if options.quick else "blocks-some")
    rung, every = RUNGS[name], ways()
    here: dict[Arm, ArmRow] = {}
    beyond: dict[Way, Curve] = {}
    if options.only != "simulated":
        repeats = options.repeats or (1 if options.quick else 2)
        here = asyncio.run(measured(rung, every, repeats, ray=has_ray() and not options.quick))
    if options.only != "measured":
        beyond = simulated(name, every)
    task = ASKING[name].task.replace("-", "_")
    for way in every:
        mine = {row.arm.workers: row for row in here.values() if row.arm.line == way.arm}
        Found(way, name, task, here.get(BASE), mine, beyond.get(way)).tell()


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rung", choices=ASKING, help="another search")
    parser.add_argument("--repeats", type=int)
    parser.add_argument("--only", choices=("measured", "simulated"))
    parser.add_argument("--quick", action="store_true")
    return parser.parse_args()


if __name__ == "__main__":
    main()
