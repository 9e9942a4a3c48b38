"""What the functions came to: a figure for each, figures for all, and a table for people."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

import lib.optimizer.builtin_cases as layers
import msgspec
from corpus import CORPUS
from lib.figures import figure, versions
from lib.optimizer.contest import Outcome, is_kernel
from lib.optimizer.paired_timing import Compared

from aiosearch.display.tables import table
from aiosearch.measure.ratios import LEAST_GAIN
from aiosearch.optimizer.outcomes.report import Found

FASTER = 1.3
"""A ratio from here on counts as won."""
PACKAGES = ("jax", "jaxlib", "torch")
HEAD = ("function", "family", "jit us", "found us", "ratio", "low", "high", "noise", "over torch")
TEXT_COLUMNS = 2


def tell(one: Outcome) -> None:
    """Prints the figures of one function."""
    name = f"optimize: {one.case.name}"
    figure(
        name,
        one.times.ratio.median,
        "times as fast as jax.jit",
        **_target(layers.target(one.case.name)),
        **one.times.facts(),
        family=one.case.family,
        right=one.right,
        claimed=[round(each.answer.speedup, 2) for each in one.report.found],
        how=[how(each) for each in one.report.found],
        ways=[msgspec.to_builtins(each.answer.evidence.ways) for each in one.report.found],
        left_alone=list(one.report.left_alone),
        seconds=round(one.report.seconds, 1),
        kernels=[is_kernel(each) for each in one.report.found],
        torch=shown(one.torch),
        compared=versions(*PACKAGES),
    )
    if one.again is not None:
        _compared(f"{name}, in a fresh process", one.again)
    if one.over_plain is not None:
        _compared(f"{name}, kernels over plain JAX", one.over_plain, "plain JAX")
    if one.by_hand is not None:
        spelling = layers.BY_HAND[one.case.name].__name__.replace("_", " ")
        _compared(f"{name}, by hand: {spelling}", one.by_hand)


def how(found: Found) -> str:
    """In which way the winner is written."""
    if not found.answer.faster:
        return "as it is"
    unbeaten = [one for one in found.tried if one.speedup is not None and not one.note]
    return max(unbeaten, key=lambda one: one.speedup or 0.0).how if unbeaten else "found before"


def tell_all(outcomes: Sequence[Outcome]) -> None:
    """Prints the figures of the corpus, and of the built-in programs."""
    layered = [one for one in outcomes if one.case.family == layers.FAMILY]
    rest = [one for one in outcomes if one.case.family != layers.FAMILY]
    if rest:
        whole = len(rest) == len(CORPUS)
        _group("optimize", rest, *((1.5, 14) if whole else (None, None)))
    if layered:
        _group("optimize, built-in programs", layered)


def _group(
    name: str,
    outcomes: Sequence[Outcome],
    geomean: float | None = None,
    won: int | None = None,
) -> None:
    ratios = [one.times.ratio.median for one in outcomes]
    slower = [one.case.name for one in outcomes if one.slower]
    seeming = [one for one in outcomes if _seems_slower(one.times) and not one.slower]
    wrong = [one.case.name for one in outcomes if not one.right]
    noises = [one.times.noise for one in outcomes]
    more: dict[str, Any] = {"of": len(outcomes), "compared": versions(*PACKAGES)}
    times = statistics.geometric_mean(ratios)
    figure(f"{name}: geomean over jax.jit", times, "times", **_target(geomean), **more)
    faster = sum(ratio > FASTER for ratio in ratios)
    figure(f"{name}: over {FASTER} times as fast", faster, "functions", **_target(won), **more)
    told = {"names": slower, "seem_so_within_the_noise": [one.case.name for one in seeming]}
    figure(f"{name}: slower than the original", len(slower), "functions", target=0, **told, **more)
    figure(f"{name}: wrong", len(wrong), "functions", target=0, names=wrong, **more)
    middle = statistics.median(noises)
    figure(f"{name}: noise, median", middle, "of a ratio", most=round(max(noises), 4), **more)
    with_kernels = [one for one in outcomes if any(map(is_kernel, one.report.found))]
    worse = [one.case.name for one in with_kernels if one.over_plain and one.over_plain.slower]
    chosen = {"names": [one.case.name for one in with_kernels]}
    figure(f"{name}: answered by kernels", len(with_kernels), "functions", **chosen, **more)
    told = {"names": worse}
    figure(f"{name}: slower than in plain JAX", len(worse), "functions", target=0, **told, **more)
    beside = [one.torch for one in outcomes if isinstance(one.torch, Compared)]
    if beside:
        over = statistics.geometric_mean([each.ratio.median for each in beside])
        more["of"] = len(beside)
        figure(f"{name}: geomean over torch.compile, max-autotune", over, "times", **more)


def as_table(outcomes: Sequence[Outcome]) -> str:
    """A row for each function."""
    rows = [HEAD, *map(_row, outcomes)]
    return table(rows, right=frozenset(range(TEXT_COLUMNS, len(HEAD))))


def _row(one: Outcome) -> tuple[str, ...]:
    times = one.times
    numbers = (times.ratio.median, times.ratio.low, times.ratio.high)
    return (
        one.case.name,
        one.case.family,
        f"{times.base * 1e6:,.0f}",
        f"{times.other * 1e6:,.0f}",
        *(f"{number:.2f}" for number in numbers),
        f"{times.noise:.1%}",
        f"{one.torch.ratio.median:.2f}" if isinstance(one.torch, Compared) else "",
    )


def _seems_slower(times: Compared) -> bool:
    return times.ratio.median < 1 - LEAST_GAIN


def _compared(name: str, times: Compared, base: str = "jax.jit") -> None:
    figure(name, times.ratio.median, f"times as fast as {base}", **times.facts())


def shown(one: Compared | str) -> dict[str, float] | str:
    """A comparison inside of another figure, or why there is none."""
    if isinstance(one, str):
        return one
    return {"ratio": round(one.ratio.median, 4), **one.facts()}


def _target(wanted: float | None) -> dict[str, float]:
    return {} if wanted is None else {"target": wanted}
