"""How fast questions to z3 are answered: cold, from disk, from memory; beside it z3 itself.

    python benchmarks/checks.py [--quick]

Then the number of checks that a search needs, which must not depend on the number of workers.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import msgspec
import z3
from lib.engine.z3_goals import AXIOMS, HARD, equalities, hackers_delight
from lib.figures import figure, spread, versions

from aiosearch import Obligation, Search
from aiosearch.checks import Verifier, z3_version
from aiosearch.checks.questions import digest
from aiosearch.lab.ladder import RUNGS, Rung

RLIMIT = 400_000
"""A pool's default."""
SECONDS = 10.0
REPEATS = 3
AXIOM_SETS = {"algebra": AXIOMS}


class Passes(msgspec.Struct):
    """What one process saw that asked every goal twice."""

    first: float
    again: float
    checks: int
    disk_hits: int
    proved: int
    refuted: int
    unknown: int


async def ask_all(verifier: Verifier, goals: list[Obligation]) -> float:
    """Asks everything at once, as a search would; gives the seconds until the last answer."""
    started = time.perf_counter()
    await asyncio.gather(*map(verifier.check, goals))
    return time.perf_counter() - started


async def two_passes(goals: list[Obligation], cache: Path, processes: int) -> Passes:
    async with Verifier(processes, cache=cache, rlimit=RLIMIT, seconds=SECONDS) as verifier:
        warm = [Obligation(f"(declare-const x{i} Bool)(assert x{i})") for i in range(processes)]
        await asyncio.gather(*map(verifier.check, warm))  # z3 is loaded with the first question
        before = verifier.statistics()
        first, again = await ask_all(verifier, goals), await ask_all(verifier, goals)
        after = verifier.statistics()
    return Passes(
        first,
        again,
        after.checks - before.checks,
        after.disk_hits - before.disk_hits,
        after.proved - before.proved,
        after.refuted - before.refuted,
        after.unknown - before.unknown,
    )


def in_new_process(goals: Path, cache: Path, processes: int) -> Passes:
    command = [sys.executable, __file__, "--child", str(goals), str(cache), str(processes)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE)
    return msgspec.json.decode(done.stdout, type=Passes)


def by_hand(goals: list[Obligation], axioms: str = "") -> float:
    """What a user would write: a fresh solver for every goal, in this very process."""
    started = time.perf_counter()
    for goal in goals:
        solver = z3.Solver()
        solver.set(rlimit=RLIMIT, timeout=int(SECONDS * 1000))
        solver.from_string(axioms + goal.query.replace(_symbols(axioms), ""))
        solver.check()
    return time.perf_counter() - started


def _symbols(axioms: str) -> str:
    return "".join(line for line in axioms.splitlines() if line.startswith("(declare")) or "\0"


def rates(name: str, goals: list[Obligation], processes: int, repeats: int) -> None:
    """Cold, warm and cached in turns with z3 asked directly."""
    colds, warms, hands = [], [], []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "goals"
        path.write_bytes(msgspec.msgpack.encode(goals))
        for repeat in range(repeats):
            cache = Path(folder) / f"cache{repeat}"
            colds.append(in_new_process(path, cache, processes))
            warms.append(in_new_process(path, cache, processes))
            hands.append(by_hand(goals))
    last = colds[-1]
    direct = spread([len(goals) / seconds for seconds in hands])
    mix = {"proved": last.proved, "refuted": last.refuted, "unknown": last.unknown}
    show_rate(f"{name}, cold", colds, len(goals), mix=mix, processes=processes, z3_directly=direct)
    show_rate(f"{name}, warm, in a new process", warms, len(goals), disk_hits=warms[-1].disk_hits)
    again = [len(goals) / run.again for run in colds]
    figure(
        f"answers per second: {name}, cached", statistics.median(again), "1/s", runs=spread(again)
    )


def show_rate(name: str, runs: list[Passes], goals: int, **more: Any) -> None:
    values = [goals / run.first for run in runs]
    figure(
        f"answers per second: {name}",
        statistics.median(values),
        "1/s",
        runs=spread(values),
        goals=goals,
        checks=runs[-1].checks,
        **more,
        compared=versions("z3-solver"),
    )


async def preloaded(count: int) -> None:
    """One goal after the other on axioms that the z3 process has parsed before."""
    goals = equalities(count)
    async with Verifier(1, cache=None, axioms=AXIOM_SETS, rlimit=RLIMIT) as verifier:
        await verifier.check(goals[0])
        trips, own = [], []
        for goal in goals[1:]:
            started = time.perf_counter()
            verdict = await verifier.check(goal)
            trips.append((time.perf_counter() - started) * 1e3)
            own.append(verdict.seconds * 1e3)
            assert verdict.status == "proved", verdict
    figure(
        "a proved goal on preloaded axioms",
        statistics.median(trips),
        "ms",
        target=0.5,
        z3_cpu_ms=round(statistics.median(own), 4),
        runs=spread(trips),
        z3_directly_ms=round(by_hand(goals[:50], AXIOMS) / 50 * 1e3, 3),
        compared=versions("z3-solver"),
    )


async def cached(goals: list[Obligation]) -> None:
    """What an answer from memory costs whoever asks."""
    version = z3_version()
    known = {digest(goal, "", version): goal for goal in goals}
    runs = [per_goal(goals, lambda goal: known.get(digest(goal, "", version))) for _ in range(9)]
    async with Verifier(2, cache=None, rlimit=RLIMIT) as verifier:
        await ask_all(verifier, goals)

        def ask(goal: Obligation) -> None:
            verifier.ask(digest(goal, "", version), goal, print)

        asks = [per_goal(goals, ask) for _ in range(9)]
    name = "a cached answer in the process that asks"
    figure(f"{name}, digest and dict", statistics.median(runs), "us", target=5, runs=spread(runs))
    figure(f"{name}, Verifier.ask", statistics.median(asks), "us", runs=spread(asks))


def per_goal(goals: list[Obligation], work: Any) -> float:
    """CPU microseconds, so that the neighbours do not count."""
    started = time.process_time()
    for goal in goals:
        work(goal)
    return (time.process_time() - started) / len(goals) * 1e6


async def same_checks(name: str, rung: Rung) -> None:
    """An exhaustive search asks every question once, however many workers ask."""
    found, seconds, solutions = {}, {}, set()
    for workers in (1, 2, 4, 8):
        async with Search(rung.problem, workers=workers, cache=None) as search:
            result = await search.wait()
        assert result.statistics.checks is not None
        found[workers] = result.statistics.checks.checks
        seconds[workers] = round(result.statistics.seconds, 2)
        solutions.add(frozenset(result.solutions))
        assert result.statistics.nodes == rung.nodes - result.statistics.refuted, workers
    figure(
        f"z3 checks with 8 workers over those with 1: rung {name}",
        found[8] / found[1],
        "ratio",
        target=1.0,
        checks=found,
        published=rung.checks,
        same_solutions=len(solutions) == 1,
        solutions=[len(each) for each in solutions],
        seconds=seconds,
    )


def child(goals: str, cache: str, processes: str) -> None:
    """The process that `in_new_process` starts."""
    asked = msgspec.msgpack.decode(Path(goals).read_bytes(), type=list[Obligation])
    passes = asyncio.run(two_passes(asked, Path(cache), int(processes)))
    sys.stdout.buffer.write(msgspec.json.encode(passes))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--child", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        child(*options.child)
        return
    each, repeats = (6, 1) if options.quick else (60, REPEATS)
    goals = hackers_delight(each)
    everything = [goal for task in goals.values() for goal in task]
    easy = [goal for task in goals if task not in HARD for goal in goals[task]]
    for processes in (1, 2):
        where = f"on {processes} z3 process{'es' * (processes > 1)}"
        rates(f"P1 to P25 {where}", everything, processes, repeats)
        rates(f"without {' and '.join(HARD)} {where}", easy, processes, repeats)
    asyncio.run(preloaded(200 if options.quick else 2_000))
    asyncio.run(cached(easy))
    name = "second" if options.quick else "refuted"
    asyncio.run(same_checks(name, RUNGS[name]))


if __name__ == "__main__":
    main()
