"""What each way of distributing a search is worth, and how the ways of Mirage's search compare.

    python benchmarks/strategies.py              # a minute of one worker for each search
    python benchmarks/strategies.py --quick      # two seconds

All ways run in turns on processes of their own, from cold; machines for `sockets` are processes on
loopback with one worker each. Wall time on a busy machine measures the neighbours: `cpu` is what
one worker spent over what all spent together, times the share of time that they had work.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Sequence
from typing import Any

from lib.engine.sized_searches import Rung, ladder
from lib.figures import figure
from msgspec.structs import replace

from aiosearch.lab.arms import Arm, with_bases
from aiosearch.lab.ladder import RUNGS
from aiosearch.lab.rows import ArmRow, Interval, ratio, rows
from aiosearch.lab.trial import ArmContest, TrialOutcome

ORDER = "depth-first"
TARGETS = {"queue": 0.95, "stealing": 0.95, "sockets": 0.93}
OURS = tuple(Arm(strategy, ORDER, 2) for strategy in TARGETS)
BALANCE = 0.95
STATIC = ({"split": "height1"},)
SWITCHED: tuple[dict[str, Any], ...] = (
    {"verdicts": "private"},
    {"solver": "locked"},
    {"split": "height1"},
    {"verdicts": "private", "solver": "locked", "split": "height1"},
)
"""The arms of Mirage's search, one by one and all together."""


def others(switches: Sequence[dict[str, Any]]) -> list[Arm]:
    return [replace(arm, **each) for arm in OURS for each in switches]


async def compared(problem: Any, arms: Sequence[Arm], repeats: int) -> ArmContest:
    """Runs all arms and their base; every one has to give the same answer."""
    contest = ArmContest(problem, with_bases(arms), repeats)
    await contest.run()
    found = rows(problem, contest.arms, contest.outcomes, contest.failures)
    assert not [row for row in found if row.trouble], [(row.arm, row.trouble) for row in found]
    return contest


def figures_of(contest: ArmContest, problem: Any) -> dict[Arm, ArmRow]:
    found = rows(problem, contest.arms, contest.outcomes, {})
    return {row.arm: row for row in found}


def ends(found: Interval | None) -> list[float | None]:
    """The ends of an interval, as JSON."""
    if found is None or found.low is None or found.high is None:
        return [None, None]
    return [round(found.low, 4), round(found.high, 4)]


def show_efficiency(name: str, row: ArmRow) -> None:
    assert row.seconds is not None
    assert row.speedup is not None
    assert row.cpu_efficiency is not None
    figure(
        f"efficiency of {row.arm}: {name}",
        row.efficiency,
        "T1 of queue / (2 T2)",
        target=TARGETS[row.arm.strategy],
        interval=[end and end / row.arm.workers for end in ends(row.speedup)],
        cpu=round(row.cpu_efficiency * (1 - (row.idle_share or 0.0)), 4),
        idle_share=round(row.idle_share or 0.0, 4),
        balance=round(row.balance or 0.0, 4),
        seconds=round(row.seconds.mean, 3),
        messages=row.messages,
        bytes=row.bytes,
        steals=row.steals,
        memory=row.memory,
        repeats=row.runs,
    )


def show_balance(name: str, row: ArmRow) -> None:
    figure(
        f"balance of {row.arm}: {name}",
        row.balance,
        "mean over maximum of busy time",
        target=None if row.arm.split == "height1" else BALANCE,
        idle_share=round(row.idle_share or 0.0, 4),
        repeats=row.runs,
    )


def show_checks(name: str, row: ArmRow, base: ArmRow) -> None:
    assert row.checks is not None
    assert base.checks
    figure(
        f"z3 checks of {row.arm} over one worker: {name}",
        row.checks / base.checks,
        "ratio",
        target=1.0 if row.arm.verdicts == "shared" else None,
        checks=row.checks,
        contention=round(row.contention or 0.0, 4),
        queue_ms=round(1e3 * (row.queue_seconds or 0.0), 3),
        repeats=row.runs,
    )


def show_gain(name: str, contest: ArmContest, arm: Arm, found: dict[Arm, ArmRow]) -> None:
    """How much longer another arm takes than the same strategy as it is."""
    ours = Arm(arm.strategy, arm.order, arm.workers)
    gain = ratio(_seconds(contest.outcomes, arm), _seconds(contest.outcomes, ours))
    rows = found[arm], found[ours]
    figure(
        f"time of {arm} over {ours.strategy} as it is: {name}",
        gain.mean,
        "ratio",
        target="above 1",
        interval=ends(gain),
        cpu=round(_without_neighbours(rows[0]) / _without_neighbours(rows[1]), 4),
        idle_shares=[round(row.idle_share or 0.0, 4) for row in rows],
        contention=[round(row.contention or 0.0, 4) for row in rows],
        repeats=len(_seconds(contest.outcomes, arm)),
    )


def _without_neighbours(row: ArmRow) -> float:
    """The time it would take on a quiet machine, over the CPU seconds of its base."""
    assert row.cpu_efficiency is not None
    return 1 / (row.cpu_efficiency * (1 - (row.idle_share or 0.0)) * row.arm.workers)


def _seconds(outcomes: Sequence[TrialOutcome], arm: Arm) -> list[float]:
    found = sorted((one.round, one.seconds) for one in outcomes if one.arm == arm)
    return [seconds for _, seconds in found]


async def measure_tree(rung: Rung, repeats: int, lopsided: bool) -> None:
    static = others(STATIC)
    contest = await compared(rung.problem, [*OURS, *static], repeats)
    found = figures_of(contest, rung.problem)
    for arm in OURS:
        show_efficiency(rung.name, found[arm])
    for arm in (*OURS, *static) if lopsided else ():
        show_balance(rung.name, found[arm])
    for arm in static:
        show_gain(rung.name, contest, arm, found)


async def measure_questions(name: str, repeats: int) -> None:
    problem = RUNGS[name].problem
    switched = others(SWITCHED)
    contest = await compared(problem, [*OURS, *switched], repeats)
    found = figures_of(contest, problem)
    for arm in (*OURS, *switched):
        show_checks(f"z3 rung {name}", found[arm], found[arm.base])
    for arm in switched:
        show_gain(f"z3 rung {name}", contest, arm, found)


async def run(seconds: float, questions: str, repeats: int, only: str) -> None:
    geometric, _, lopsided, _ = ladder(seconds)
    if only in ("", "tree"):
        await measure_tree(geometric, repeats, lopsided=False)
    if only in ("", "lopsided"):
        await measure_tree(lopsided, repeats, lopsided=True)
    if only in ("", "questions"):
        await measure_questions(questions, repeats)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, help="of one worker, for each tree")
    parser.add_argument("--questions", help="a rung of z3's ladder")
    parser.add_argument("--repeats", type=int)
    parser.add_argument("--only", default="", choices=("tree", "lopsided", "questions"))
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    asyncio.run(
        run(
            options.seconds or (2.3 if options.quick else 60.0),
            options.questions or ("second" if options.quick else "refuted"),
            options.repeats or (2 if options.quick else 5),
            options.only,
        )
    )


if __name__ == "__main__":
    main()
