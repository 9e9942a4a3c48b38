"""The results of each arm beside its base, as figures and as plain values for JSON or CSV.

How sure a mean of repeats is: intervals of 95 % for means of logarithms, by Student's t.
"""

from __future__ import annotations

import csv
import io
import math
import statistics
from collections.abc import Mapping, Sequence
from statistics import fmean

import msgspec
from msgspec import Struct

from ..orders import find_order
from ..problem import AnyProblem
from .arms import Arm
from .trial import TrialOutcome

T95 = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
    2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086,
    2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
)  # fmt: skip
"""Student's 97.5 % points for 1 to 30 degrees of freedom; for more, the last one is a little wide.
"""


class Interval(Struct, frozen=True):
    """A geometric mean; one value has no interval, and `low` and `high` are None then."""

    mean: float
    low: float | None = None
    high: float | None = None


def interval(values: Sequence[float]) -> Interval:
    """The geometric mean of positive values, with its 95 % interval: of 1.0 and 1.21, 1.1
    between 0.33 and 3.7."""
    # Ratios multiply: their logarithms are what adds up, and nearly normal
    logs = [math.log(value) for value in values]
    middle = statistics.fmean(logs)
    if len(logs) < 2:
        return Interval(math.exp(middle))
    # Degrees of freedom: one fewer than the values, for their mean is estimated too
    t = T95[min(len(logs) - 1, len(T95)) - 1]
    reach = t * statistics.stdev(logs) / math.sqrt(len(logs))
    return Interval(math.exp(middle), math.exp(middle - reach), math.exp(middle + reach))


def ratio(base: Sequence[float], challenger: Sequence[float]) -> Interval:
    """How many times as fast as `base` the challenger is; the times of a round belong together."""
    return interval([first / second for first, second in zip(base, challenger, strict=True)])


class ArmRow(Struct, frozen=True, kw_only=True):
    """One arm; figures are means of its complete runs, and None where it has none."""

    arm: Arm
    runs: int
    """Runs that are complete."""
    trouble: str = ""
    """Why the arm does not count: a wrong answer, a limit, an error; empty where it does."""
    wrong: bool = False
    """Whether `trouble` is a wrong answer, or an error."""
    seconds: Interval | None = None
    speedup: Interval | None = None
    """Over the `base`, by rounds."""
    efficiency: float | None = None
    cpu_efficiency: float | None = None
    """CPU seconds of the base over those of this arm: what distribution itself costs."""
    cpu_speedup: float | None = None
    """CPU seconds of the base's busiest process over those of this arm's, be it a worker or a
    z3: about the speed-up, had every process a processor of its own."""
    balance: float | None = None
    cpu_balance: float | None = None
    """Mean over maximum of the workers' CPU seconds, which neighbours change little; `balance`
    is of busy time."""
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
    problem: AnyProblem,
    arms: Sequence[Arm],
    outcomes: Sequence[TrialOutcome],
    failures: Mapping[Arm, str],
) -> list[ArmRow]:
    """A row for each arm, in the order of `arms`."""
    judge = ArmJudge(problem, outcomes)
    return [
        ArmRow(arm=arm, runs=0, trouble=failures[arm], wrong=True)
        if arm in failures
        else _row(arm, judge, outcomes)
        for arm in arms
    ]


class ArmJudge:
    """Says which runs gave another answer than the `base`'s."""

    def __init__(self, problem: AnyProblem, outcomes: Sequence[TrialOutcome]) -> None:
        self._problem = problem
        complete = [outcome for outcome in outcomes if outcome.complete]
        # A base first: it is one worker with the strategy that everybody knows
        complete.sort(key=lambda outcome: outcome.arm != outcome.arm.base)
        self._best = complete[0].best_cost if complete else None
        exhaustive = [outcome for outcome in complete if not self.prunes(outcome.arm)]
        self._first = exhaustive[0] if exhaustive else None

    def prunes(self, arm: Arm) -> bool:
        return find_order(arm.order, self._problem).prunes

    def difference(self, outcome: TrialOutcome) -> str:
        """How a run's answer differs from the first one's; empty where it does not."""
        if outcome.best_cost != self._best:
            return f"best cost {outcome.best_cost}, not {self._best}"
        first = self._first
        if first is None or self.prunes(outcome.arm):
            return ""
        if outcome.answer != first.answer:
            return f"other solutions: {outcome.solutions}, against {first.solutions}"
        # With keys the number of nodes depends on who comes first
        if outcome.nodes != first.nodes and not hasattr(self._problem, "key"):
            return f"{outcome.nodes} nodes, not {first.nodes}"
        return ""


def _row(arm: Arm, judge: ArmJudge, outcomes: Sequence[TrialOutcome]) -> ArmRow:
    mine = {outcome.round: outcome for outcome in outcomes if outcome.arm == arm}
    complete = {round: outcome for round, outcome in mine.items() if outcome.complete}
    for outcome in complete.values():
        if difference := judge.difference(outcome):
            return ArmRow(arm=arm, runs=len(complete), trouble=f"wrong: {difference}", wrong=True)
    if len(complete) < len(mine):
        return ArmRow(arm=arm, runs=len(complete), trouble="stopped at the limit")
    if not complete:
        return ArmRow(arm=arm, runs=0, trouble="not run")
    bases = {
        outcome.round: outcome
        for outcome in outcomes
        if outcome.arm == arm.base and outcome.complete
    }
    return _figures(arm, list(complete.values()), _pairs(bases, complete))


def _pairs(
    bases: dict[int, TrialOutcome], mine: dict[int, TrialOutcome]
) -> list[tuple[TrialOutcome, TrialOutcome]]:
    return [(bases[round], outcome) for round, outcome in mine.items() if round in bases]


def _figures(
    arm: Arm, mine: list[TrialOutcome], pairs: list[tuple[TrialOutcome, TrialOutcome]]
) -> ArmRow:
    base, paired = [first for first, _ in pairs], [second for _, second in pairs]
    speedup = (
        ratio([outcome.seconds for outcome in base], [outcome.seconds for outcome in paired])
        if pairs
        else None
    )
    # Sums over sums, not means of ratios: a short run must not count as much as a long one
    spent = sum(outcome.cpu for outcome in paired)
    longest = sum(outcome.busiest for outcome in paired)
    checks = fmean(outcome.checks for outcome in mine)
    return ArmRow(
        arm=arm,
        runs=len(mine),
        seconds=interval([outcome.seconds for outcome in mine]),
        speedup=speedup,
        efficiency=speedup.mean / arm.workers if speedup else None,
        cpu_efficiency=sum(outcome.cpu for outcome in base) / spent if spent else None,
        cpu_speedup=sum(outcome.busiest for outcome in base) / longest if longest else None,
        balance=fmean(outcome.balance for outcome in mine),
        cpu_balance=fmean(outcome.cpu_balance for outcome in mine),
        cpu_least=fmean(outcome.cpu_least for outcome in mine),
        idle_share=fmean(outcome.idle_share for outcome in mine),
        contention=fmean(outcome.contention for outcome in mine),
        queue_seconds=sum(outcome.queue_seconds for outcome in mine) / len(mine) / checks
        if checks
        else 0.0,
        nodes=mine[0].nodes,
        solutions=mine[0].solutions,
        checks=checks,
        redundant=fmean(second.checks - first.checks for first, second in pairs) if pairs else None,
        messages=fmean(outcome.messages for outcome in mine),
        bytes=fmean(outcome.bytes for outcome in mine),
        steals=fmean(outcome.steals for outcome in mine),
        memory=fmean(outcome.memory for outcome in mine),
    )


def facts(row: ArmRow) -> dict[str, object]:
    """One row as flat values: the arm's fields, and three for a figure with an `Interval`."""
    values: dict[str, object] = {**msgspec.to_builtins(row.arm), "switches": row.arm.switched}
    for name in row.__struct_fields__[1:]:
        value = getattr(row, name)
        values[name] = value
        if name in ("seconds", "speedup"):
            ends = value or Interval(0.0)
            values[name] = value and value.mean
            values |= {f"{name}_low": ends.low, f"{name}_high": ends.high}
    return values


def to_csv(rows: Sequence[ArmRow]) -> str:
    """A line for each row of `facts`, below a line of names; what is not known is empty."""
    written = io.StringIO()
    lines = [facts(row) for row in rows]
    writer = csv.DictWriter(written, list(lines[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(lines)
    return written.getvalue()
