"""Portfolios: few configurations that serve many shapes nearly as well as each shape's own best.

Compiled kernels are kept, warmed up and shipped, so a serving stack wants three of them for its
forty batch sizes, and not forty. Each shape is searched for a while; what came out best anywhere is
then timed on every shape that it fits, and the best few are chosen together.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TypeVar

from ..measure import Executor
from .errors import RequirementFailed, SpaceError, TunerError
from .kernels import KernelCall
from .pipeline import TuningSession
from .records import TuningRecord
from .reports import TuningProgress, TuningReport
from .timing import TuningBudget, device_executor
from .tunables import AnyTunable
from .types import Configuration, Options, Pytree

ShapeT = TypeVar("ShapeT", bound=Hashable)
ConfigT = TypeVar("ConfigT", bound=Hashable)

MOST_SUBSETS = 200_000
"""As many choices are all compared; of more, one configuration at a time is added."""


@dataclass(frozen=True)
class Portfolio:
    """Which configuration serves which call."""

    records: tuple[TuningRecord, ...]
    worst: float
    """How many times slower than its own best the worst served shape is."""
    mean: float
    """The same, as the geometric mean of all shapes."""

    @property
    def configurations(self) -> list[Configuration]:
        """The distinct ones, by how many shapes they serve."""
        serving: dict[str, list[TuningRecord]] = {}
        for record in self.records:
            serving.setdefault(str(record.configuration), []).append(record)
        ordered = sorted(serving.values(), key=lambda records: -len(records))
        return [dict(records[0].configuration) for records in ordered]

    def __str__(self) -> str:
        lines = [
            f"{len(self.configurations)} configurations serve {len(self.records)} shapes, at"
            f" {self.mean:.3f}x their own best on average and {self.worst:.3f}x at worst"
        ]
        for configuration in self.configurations:
            served = [r for r in self.records if r.configuration == configuration]
            names = "; ".join(", ".join(record.arguments) for record in served)
            lines.append(f"  {configuration} for {names}")
        return "\n".join(lines)


def choose(seconds: Mapping[ShapeT, Mapping[ConfigT, float]], most: int) -> dict[ShapeT, ConfigT]:
    """At most so many configurations, and which of them serves each shape.

    Problem: a table of seconds, with holes where a configuration does not fit a shape. Wanted are
    `most` columns so that every row has one, and the worst ratio to the row's own best is least;
    of those alike the geometric mean decides, then the order of the columns.

        >>> choose({"small": {"a": 1.0, "b": 2.0}, "large": {"a": 9.0, "b": 3.0}}, 2)
        {'small': 'a', 'large': 'b'}

    Up to 200,000 subsets are all compared; beyond, columns are added one by one, each the one that
    helps most, and then exchanged while that helps. Cost of the first: subsets x rows.
    """
    if most < 1:
        raise TunerError(f"a portfolio has at least one configuration, not {most}")
    columns = list(dict.fromkeys(name for row in seconds.values() for name in row))
    ratios = {
        shape: {name: value / min(row.values()) for name, value in row.items()}
        for shape, row in seconds.items()
        if row
    }
    if len(ratios) < len(seconds):
        absent = next(shape for shape, row in seconds.items() if not row)
        raise TunerError(f"no configuration was timed for {absent}")

    def loss(chosen: Sequence[ConfigT]) -> tuple[float, float]:
        best = [min(row.get(name, math.inf) for name in chosen) for row in ratios.values()]
        total = sum(math.log(ratio) if ratio < math.inf else math.inf for ratio in best)
        return max(best), total

    size = min(most, len(columns))
    if math.comb(len(columns), size) <= MOST_SUBSETS:
        chosen = min(combinations(columns, size), key=loss)
    else:
        chosen = _exchanged(columns, size, loss)
    if loss(chosen)[0] == math.inf:
        raise TunerError(f"no {most} configurations fit all {len(seconds)} shapes")
    return {
        shape: min((name for name in chosen if name in row), key=lambda name: row[name])
        for shape, row in ratios.items()
    }


def _exchanged(
    columns: Sequence[ConfigT], size: int, loss: Callable[[Sequence[ConfigT]], tuple[float, float]]
) -> tuple[ConfigT, ...]:
    """Adds the column that helps most, then exchanges single ones while that helps."""
    chosen: list[ConfigT] = []
    for _ in range(size):
        left = [name for name in columns if name not in chosen]
        chosen.append(min(left, key=lambda name: _uncovered(loss, [*chosen, name])))
    while True:
        exchanges = [
            [*chosen[:at], name, *chosen[at + 1 :]]
            for at in range(size)
            for name in columns
            if name not in chosen
        ]
        better = min(exchanges, key=loss, default=chosen)
        if loss(better) >= loss(chosen):
            return tuple(chosen)
        chosen = better


def _uncovered(
    loss: Callable[[Sequence[ConfigT]], tuple[float, float]], chosen: Sequence[ConfigT]
) -> tuple[float, float]:
    return loss(chosen)


async def tune_portfolio(
    kernel: AnyTunable,
    calls: Sequence[Sequence[Pytree]],
    *,
    configurations: int = 3,
    seconds: float | None = None,
    trials: int | None = None,
    candidates: int = 4,
    seed: int = 0,
    executor: Executor | None = None,
    on_progress: Callable[[TuningProgress], None] | None = None,
) -> Portfolio:
    """Tunes for many calls at once, so that at most `configurations` serve all of them.

    Each call is a tuple of arguments; budgets are for each. The best `candidates` of every search
    are timed on all shapes that they fit, and a record for each call is written to the table.
    """
    if not calls:
        raise TunerError("a portfolio needs the arguments of one call at least")
    if executor is None:
        async with device_executor() as device:
            return await tune_portfolio(
                kernel, calls, configurations=configurations, seconds=seconds, trials=trials,
                candidates=candidates, seed=seed, executor=device, on_progress=on_progress,
            )  # fmt: skip
    budget = TuningBudget(20.0 if seconds is None and trials is None else seconds, trials)
    searches = [
        TuningSession(
            kernel, KernelCall(tuple(arguments)), executor, budget, seed=seed, again=True,
            on_progress=on_progress,
        )
        for arguments in calls
    ]  # fmt: skip
    reports = [await search.run() for search in searches]
    contenders = _contenders(reports, candidates)
    table: dict[int, dict[str, float]] = {}
    for number, search in enumerate(searches):
        table[number] = await _timed(search, contenders)
    chosen = choose(table, configurations)
    records = [
        _record(search, report, contenders[chosen[number]], table[number][chosen[number]])
        for number, (search, report) in enumerate(zip(searches, reports, strict=True))
    ]
    await asyncio.to_thread(kernel.table.put, *records)
    ratios = [row[chosen[number]] / min(row.values()) for number, row in table.items()]
    mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
    return Portfolio(tuple(records), max(ratios), mean)


def _contenders(reports: Sequence[TuningReport], count: int) -> dict[str, Configuration]:
    """The decisions of the best points of every search, by their keys."""
    contenders: dict[str, Configuration] = {}
    for report in reports:
        timed = [entry for entry in report.measurements if entry.seconds is not None]
        for entry in sorted(timed, key=lambda entry: entry.seconds or 0.0)[:count]:
            contenders.setdefault(entry.trace.key, entry.trace.decisions)
    return contenders


async def _timed(search: TuningSession, contenders: Mapping[str, Options]) -> dict[str, float]:
    """Seconds of each contender that fits a call and passes the gates, from one race."""
    traces = {}
    for name, decisions in contenders.items():
        try:
            traces[name] = search.space.replay(decisions)
        except (RequirementFailed, SpaceError):
            continue
    return await search.race(traces)


def _record(
    search: TuningSession, report: TuningReport, decisions: Options, seconds: float
) -> TuningRecord:
    from msgspec.structs import replace

    trace = search.space.replay(decisions)
    baseline = report.record.baseline_seconds
    return replace(
        report.record,
        winner="tuned",
        configuration=search.keywords(trace),
        decisions=trace.decisions,
        checked="tested",
        evidence=search.evidence,
        seconds=seconds,
        speedup=None if baseline is None else (baseline / seconds,) * 3,
        tied=0,
    )
