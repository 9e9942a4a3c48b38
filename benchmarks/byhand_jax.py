"""What can be won on the corpus in plain JAX: functions as written against spellings by hand.

`python benchmarks/byhand_jax.py [--seconds N] [NAME ...]`

Rounds run the function, its spelling and the function again, one after the other. Ratios are
medians over all pairs of a round; `a/a` is what the function won against itself, the noise.
"""

from __future__ import annotations

import argparse
import math
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import lib.optimizer.handwritten_jax as spellings
import numpy as np
from corpus import CORPUS, Case, Function
from lib.figures import figure, versions

from aiosearch.capture import CaptureError, capture
from aiosearch.equivalence import verify
from aiosearch.measure.worker.timing import cpu_ns

SAMPLE = 1e-3
"""A sample lasts at least so many seconds, by calls in a row."""
ROUNDS = 15
"""The fewest rounds."""
WORTH = 1.3
"""A ratio from here on counts as won."""


@dataclass(frozen=True)
class Sample:
    """Seconds of one call."""

    wall: float
    cpu: float


@dataclass(frozen=True)
class Comparison:
    """What the rounds of one function came to."""

    wall: float
    """Microseconds of the function as written."""
    wall_ratio: float
    cpu_ratio: float
    noise: float
    """The wall ratio of the function to itself."""
    rounds: int


def main() -> None:
    options = _options()
    sys.stdout.write(_line("function", "as written", "wall", "cpu", "a/a", "equal?"))
    found = {}
    for name in options.names or CORPUS:
        case = CORPUS[name]
        spelling = getattr(spellings, name, None)
        comparison = compared(case, spelling or case.function, options.seconds)
        found[name] = comparison
        sys.stdout.write(_row(name, comparison, _equal(case, spelling)))
        sys.stdout.flush()
    report(found)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--seconds", type=float, default=2.0, help="for each function")
    options = parser.parse_args()
    if unknown := set(options.names) - set(CORPUS):
        parser.error(f"no function {', '.join(sorted(unknown))}")
    return options


def compared(case: Case, spelling: Function, seconds: float) -> Comparison:
    """Runs a function and its spelling in turns; the function alone where there is none."""
    values = case.values()
    written, by_hand = jax.jit(case.function), jax.jit(spelling)
    calls = max(_calls(written, values), 1)
    hand_calls = max(_calls(by_hand, values), 1)
    rounds: list[tuple[Sample, Sample, Sample]] = []
    end = time.perf_counter() + seconds
    while len(rounds) < ROUNDS or time.perf_counter() < end:
        rounds.append(
            (
                sample(written, values, calls),
                sample(by_hand, values, hand_calls),
                sample(written, values, calls),
            )
        )
    pairs = [(turn, hand) for first, hand, last in rounds for turn in (first, last)]
    return Comparison(
        statistics.median(turn.wall for turn, _ in pairs) * 1e6,
        statistics.median(turn.wall / hand.wall for turn, hand in pairs),
        statistics.median(turn.cpu / hand.cpu for turn, hand in pairs),
        statistics.median(first.wall / last.wall for first, _, last in rounds),
        len(rounds),
    )


def sample(function: Callable[..., Any], values: Sequence[Any], calls: int) -> Sample:
    cpu, wall = cpu_ns(), time.perf_counter_ns()
    for _ in range(calls):
        jax.block_until_ready(function(*values))
    wall, cpu = time.perf_counter_ns() - wall, cpu_ns() - cpu
    return Sample(wall / 1e9 / calls, cpu / 1e9 / calls)


def _calls(function: Callable[..., Any], values: Sequence[Any]) -> int:
    """How many calls make a sample, of a function that is compiled and warm after this."""
    sample(function, values, 3)
    return math.ceil(SAMPLE / sample(function, values, 3).wall)


def _equal(case: Case, spelling: Function | None) -> str:
    """What is known of the spelling: a verdict, or how far its numbers are off."""
    if spelling is None:
        return "as fast as it can be said"
    try:
        one, two = (capture(each, *case.types).program for each in (case.function, spelling))
    except CaptureError as error:
        return f"{error}; {_distance(case, spelling)}"
    verdict = verify(one, two)
    if verdict.status.accepted:
        return f"{verdict.status}, {verdict.scope}"
    return f"{verdict.status}; {_distance(case, spelling)}"


def _distance(case: Case, spelling: Function) -> str:
    values = case.values()
    expected, found = (
        np.asarray(function(*values), np.float64) for function in (case.function, spelling)
    )
    off = np.max(np.abs(expected - found)) / np.max(np.abs(expected))
    return f"off by {off:.1e} of the largest element"


def report(found: dict[str, Comparison]) -> None:
    """Prints what the functions come to together; what has no spelling counts as 1x and noise."""
    spelled = [one for name, one in found.items() if hasattr(spellings, name)]
    as_they_are = [one for name, one in found.items() if not hasattr(spellings, name)]
    ratios = [one.wall_ratio for one in spelled] + [1.0] * len(as_they_are)
    cpu = [one.cpu_ratio for one in spelled] + [1.0] * len(as_they_are)
    ones = [one.noise for one in found.values()] + [one.wall_ratio for one in as_they_are]
    noises = [abs(math.log(one)) for one in ones]
    more = {"of": len(found), "jax": versions("jax", "jaxlib")}
    figure("corpus by hand: geomean", statistics.geometric_mean(ratios), "x of wall time", **more)
    figure("corpus by hand: geomean", statistics.geometric_mean(cpu), "x of CPU time", **more)
    figure("corpus by hand: median", statistics.median(ratios), "x of wall time", **more)
    for kind, own in (("wall", ratios), ("CPU", cpu)):
        won = sum(ratio >= WORTH for ratio in own)
        figure(f"corpus by hand: from {WORTH}x of {kind} time on", won, "functions", **more)
    figure("corpus by hand: A/A noise", math.exp(statistics.median(noises)), "x, median", **more)
    figure("corpus by hand: A/A noise", math.exp(max(noises)), "x, the most", **more)


def _row(name: str, found: Comparison, equal: str) -> str:
    return _line(
        name,
        f"{found.wall:,.0f} us",
        f"{found.wall_ratio:.2f}x",
        f"{found.cpu_ratio:.2f}x",
        f"{found.noise:.2f}x",
        equal,
    )


def _line(name: str, written: str, wall: str, cpu: str, noise: str, equal: str) -> str:
    return f"{name:24}{written:>12}{wall:>9}{cpu:>9}{noise:>8}  {equal}\n"


if __name__ == "__main__":
    main()
