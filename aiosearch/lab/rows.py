"""The results of each arm beside its base, as figures and as JSON or CSV.

The figures as plain values, for JSON and CSV.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

import msgspec
from msgspec import Struct

from ..orders import find_order
from .arms import Arm
from .intervals import Interval, interval, ratio
from .trial import TrialOutcome


class ArmRow(Struct, frozen=True, kw_only=True):
    """One arm; figures are means of its complete runs, and None where it has none."""

    arm: Arm
    runs: int
    """Complete ones."""
    trouble: str = ""
    """Why the arm does not count: a wrong answer, a limit, an error."""
    wrong: bool = False
    """Whether that is a wrong answer, or an error."""
    seconds: Interval | None = None
    speedup: Interval | None = None
    """Over the base, by rounds."""
    efficiency: float | None = None
    cpu_efficiency: float | None = None
    """CPU seconds of the base over those of this arm: what distribution itself costs."""
    cpu_speedup: float | None = None
    """CPU seconds of the base's busiest process over those of this arm's, be it a worker or a z3:
    about the speed-up, had every process a processor of its own."""
    balance: float | None = None
    cpu_balance: float | None = None
    """The same of their CPU seconds, which neighbours change little; `balance` is of busy time."""
    cpu_least: float | None = None
    """Least over most of the workers' CPU seconds."""
    idle_share: float | None = None
    contention: float | None = None
    """The share of the workers' time in which they waited for the verification service."""
    queue_seconds: float | None = None
    """How long a question waited for a z3 process, on average."""
    nodes: int | None = None
    solutions: int | None = None
    checks: float | None = None
    redundant: float | None = None
    """Checks beyond those of the base, which asks each question once."""
    messages: float | None = None
    bytes: float | None = None
    steals: float | None = None
    memory: float | None = None


def rows(
    problem: Any, arms: Sequence[Arm], outcomes: Sequence[TrialOutcome], failures: Mapping[Arm, str]
) -> list[ArmRow]:
    """A row for each arm, in their order."""
    judge = ArmJudge(problem, outcomes)
    return [
        ArmRow(arm=arm, runs=0, trouble=failures[arm], wrong=True)
        if arm in failures
        else _row(arm, judge, outcomes)
        for arm in arms
    ]


class ArmJudge:
    """Says which runs gave another answer than the rest."""

    def __init__(self, problem: Any, outcomes: Sequence[TrialOutcome]) -> None:
        self._problem = problem
        complete = [one for one in outcomes if one.complete]
        # A base first: it is one worker with the strategy that everybody knows
        complete.sort(key=lambda one: one.arm != one.arm.base)
        self._best = complete[0].best_cost if complete else None
        exhaustive = [one for one in complete if not self.prunes(one.arm)]
        self._first = exhaustive[0] if exhaustive else None

    def prunes(self, arm: Arm) -> bool:
        return find_order(arm.order, self._problem).prunes

    def difference(self, outcome: TrialOutcome) -> str:
        """How it differs from the rest; empty where it does not."""
        if outcome.best_cost != self._best:
            return f"best cost {outcome.best_cost}, not {self._best}"
        first = self._first
        if first is None or self.prunes(outcome.arm):
            return ""
        if outcome.answer != first.answer:
            return f"other solutions: {outcome.solutions}, against {first.solutions}"
        if outcome.nodes != first.nodes and not hasattr(self._problem, "key"):
            return f"{outcome.nodes} nodes, not {first.nodes}"
        return ""


def _row(arm: Arm, judge: ArmJudge, outcomes: Sequence[TrialOutcome]) -> ArmRow:
    mine = {one.round: one for one in outcomes if one.arm == arm}
    complete = {round: one for round, one in mine.items() if one.complete}
    for one in complete.values():
        if difference := judge.difference(one):
            return ArmRow(arm=arm, runs=len(complete), trouble=f"wrong: {difference}", wrong=True)
    if len(complete) < len(mine):
        return ArmRow(arm=arm, runs=len(complete), trouble="stopped at the limit")
    if not complete:
        return ArmRow(arm=arm, runs=0, trouble="not run")
    bases = {one.round: one for one in outcomes if one.arm == arm.base and one.complete}
    return _figures(arm, list(complete.values()), _pairs(bases, complete))


def _pairs(
    bases: dict[int, TrialOutcome], mine: dict[int, TrialOutcome]
) -> list[tuple[TrialOutcome, TrialOutcome]]:
    return [(bases[round], one) for round, one in mine.items() if round in bases]


def _figures(
    arm: Arm, mine: list[TrialOutcome], pairs: list[tuple[TrialOutcome, TrialOutcome]]
) -> ArmRow:
    base, paired = [first for first, _ in pairs], [second for _, second in pairs]
    speedup = (
        ratio([one.seconds for one in base], [one.seconds for one in paired]) if pairs else None
    )
    spent = sum(one.cpu for one in paired)
    longest = sum(one.busiest for one in paired)
    checks = fmean(one.checks for one in mine)
    return ArmRow(
        arm=arm,
        runs=len(mine),
        seconds=interval([one.seconds for one in mine]),
        speedup=speedup,
        efficiency=speedup.mean / arm.workers if speedup else None,
        cpu_efficiency=sum(one.cpu for one in base) / spent if spent else None,
        cpu_speedup=sum(one.busiest for one in base) / longest if longest else None,
        balance=fmean(one.balance for one in mine),
        cpu_balance=fmean(one.cpu_balance for one in mine),
        cpu_least=fmean(one.cpu_least for one in mine),
        idle_share=fmean(one.idle_share for one in mine),
        contention=fmean(one.contention for one in mine),
        queue_seconds=sum(one.queue_seconds for one in mine) / len(mine) / checks
        if checks
        else 0.0,
        nodes=mine[0].nodes,
        solutions=mine[0].solutions,
        checks=checks,
        redundant=fmean(second.checks - first.checks for first, second in pairs) if pairs else None,
        messages=fmean(one.messages for one in mine),
        bytes=fmean(one.bytes for one in mine),
        steals=fmean(one.steals for one in mine),
        memory=fmean(one.memory for one in mine),
    )


pass


def facts(row: ArmRow) -> dict[str, Any]:
    """One row as flat values: the arm's fields, and three for a figure with an interval."""
    found: dict[str, Any] = {**msgspec.to_builtins(row.arm), "switches": row.arm.switched}
    for name in row.__struct_fields__[1:]:
        value = getattr(row, name)
        found[name] = value
        if name in ("seconds", "speedup"):
            ends = value or Interval(0.0)
            found[name] = value and value.mean
            found |= {f"{name}_low": ends.low, f"{name}_high": ends.high}
    return found


def to_csv(rows: Sequence[ArmRow]) -> str:
    """A line for each row, below a line of names; what is not known is empty."""
    written = io.StringIO()
    lines = [facts(row) for row in rows]
    writer = csv.DictWriter(written, list(lines[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(lines)
    return written.getvalue()
