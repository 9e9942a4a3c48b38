"""What subjects came to: a figure for each, figures for all, and a table for people."""

from __future__ import annotations

import json
import re
import statistics
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
from lib.figures import figure, versions
from lib.programs.contest import Outcome
from lib.programs.ways import Calling

from aiosearch.display.tables import table
from aiosearch.measure.ratios import LOUD

LIBRARIES = (
    *("jax", "jaxlib", "chex", "distrax", "dm-haiku", "dm-pix", "einops", "equinox", "flax"),
    *("numpyro", "optax", "rlax", "tinygp"),
)
INSTALLED = re.compile(r"/[^\s:]*/(?:site-packages|benchmarks)/")
"""Where libraries and benchmarks lie, before the part of a path that says something."""
HEAD = (
    *("function", "from", "jit us", "waited", "flight", "altern.", "noise", "p10", "cpu"),
    *("claimed", "s", ""),
)
TEXT = {0, 1, len(HEAD) - 1}


def tell(benchmark: str, outcome: Outcome) -> None:
    """Prints the figure of one subject; its line is enough to resume from."""
    told, measured = outcome.told, outcome.measured
    figure(
        f"{benchmark}: {outcome.name}",
        outcome.ratio,
        "times as fast as jax.jit",
        **{name: value for name, value in outcome.wall.items() if name in ("low", "high", "noise")},
        origin=outcome.origin,
        claimed=outcome.claimed,
        faster=outcome.faster,
        slower=list(outcome.slower),
        right=measured.right if measured else None,
        seconds=round(told.seconds, 1),
        cpu_seconds=round(outcome.cpu, 1),
        programs=told.programs,
        not_answered=told.error or outcome.why_not,
        unjudged=list(told.unjudged),
        left_alone=[INSTALLED.sub("", why) for why in told.left_alone],
        ways=measured.ways if measured else {},
        out=msgspec.to_builtins(outcome),
    )


def resumed(path: Path, benchmark: str) -> list[Outcome]:
    """The outcomes of an earlier run, from the lines that it printed; the last of a name counts."""
    outcomes: dict[str, Outcome] = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        # A run that was cut may have left half a line.
        try:
            parsed = json.loads(line)
        except json.JSONDecodeError:
            continue
        if parsed["figure"].startswith(f"{benchmark}: ") and "out" in parsed:
            outcome = msgspec.convert(parsed["out"], Outcome)
            outcomes[outcome.name] = outcome
    return list(outcomes.values())


def tell_all(benchmark: str, outcomes: Sequence[Outcome], targets: dict[str, float]) -> None:
    """Prints the figures of all; `targets` has those that are set."""
    for name, value, unit, more in totals(outcomes):
        target = {"target": targets[name]} if name in targets else {}
        compared = versions(*LIBRARIES)
        figure(
            f"{benchmark}: {name}",
            value,
            unit,
            **target,
            **more,
            of=len(outcomes),
            compared=compared,
        )


def totals(outcomes: Sequence[Outcome]) -> Iterator[tuple[str, float, str, dict[str, Any]]]:
    """The name, value and unit of each figure of all, and what stands beside it."""
    if not outcomes:
        return

    def count(name: str, having: list[Outcome]) -> tuple[str, float, str, dict[str, Any]]:
        return name, len(having), "functions", {"names": [each.name for each in having]}

    yield count("faster beyond noise", [each for each in outcomes if each.faster])
    yield "geomean over jax.jit", geomean([each.ratio for each in outcomes]), "times", {}
    for way in Calling:
        ratios = [each.measured.ways[way]["over_jit"] for each in outcomes if has(each, way)]
        if ratios:
            yield f"geomean, {way.value}", geomean(ratios), "times", {"measured": len(ratios)}
    measured = [each for each in outcomes if each.wall]
    if measured:
        heads = geomean([each.wall["p10_over_jit"] for each in measured])
        yield "geomean of the fastest tenth of calls", heads, "times", {"measured": len(measured)}
        cpu = geomean([each.wall["cpu_over_jit"] for each in measured])
        yield "geomean by CPU time", cpu, "times", {"measured": len(measured)}
    yield count("too noisy to tell", [each for each in measured if each.wall["noise"] > LOUD])
    yield count("slower in any way", [each for each in outcomes if each.slower])
    wrong = [each for each in outcomes if each.measured and each.measured.right is False]
    yield count("wrong", wrong)
    yield count("no answer within the limit", [each for each in outcomes if each.told.error])
    yield count("refused", [each for each in outcomes if each.refused and not each.told.error])
    yield count("with candidates not judged", [each for each in outcomes if each.told.unjudged])
    yield count("in doubt", [each for each in outcomes if each.told.in_doubt])
    claiming = [each for each in outcomes if each.claimed and each.wall]
    name, value, unit, more = count(
        "claims above 1.25 times the measurement", [each for each in claiming if each.overclaimed]
    )
    yield name, value, unit, {**more, "claims": len(claiming)}
    seconds = sorted(each.told.seconds for each in outcomes)
    yield "seconds to the answer, median", statistics.median(seconds), "s", {}
    yield "seconds to the answer, 90 %", seconds[int(0.9 * (len(seconds) - 1))], "s", {}
    yield "seconds to the answer, most", seconds[-1], "s", {}
    yield "CPU seconds to the answer, median", statistics.median(e.cpu for e in outcomes), "s", {}
    noises = [each.wall["noise"] for each in measured]
    if noises:
        yield "noise, median", statistics.median(noises), "of a ratio", {"most": max(noises)}


def has(outcome: Outcome, way: Calling) -> bool:
    return outcome.measured is not None and way in outcome.measured.ways


def geomean(ratios: Sequence[float]) -> float:
    return statistics.geometric_mean(ratios)


def as_table(outcomes: Sequence[Outcome]) -> str:
    """A row for each subject."""
    rows = [HEAD, *map(row, outcomes)]
    return table(rows, right=frozenset(set(range(len(HEAD))) - TEXT))


def row(outcome: Outcome) -> tuple[str, ...]:
    def of(way: Calling) -> str:
        return f"{outcome.measured.ways[way]['over_jit']:.2f}" if has(outcome, way) else ""

    wall = outcome.wall
    return (
        outcome.name,
        outcome.origin,
        f"{wall['jit_us']:,.0f}" if wall else "",
        *map(of, Calling),
        f"{wall['noise']:.1%}" if wall else "",
        f"{wall['p10_over_jit']:.2f}" if wall else "",
        f"{wall['cpu_over_jit']:.2f}" if wall else "",
        f"{outcome.claimed:.2f}" if outcome.claimed else "",
        f"{outcome.told.seconds:.0f}",
        remark(outcome),
    )


def remark(outcome: Outcome) -> str:
    """What a reader should see first."""
    measured, told = outcome.measured, outcome.told
    if measured is not None and measured.right is False:
        return "WRONG"
    if told.error or outcome.why_not:
        return (told.error or outcome.why_not).replace("\n", " ")[:60]
    if outcome.slower:
        return f"slower {' and '.join(outcome.slower)}"
    if outcome.refused:
        return "refused"
    if told.unjudged:
        return "not judged"
    return "in doubt" if told.in_doubt else ""
