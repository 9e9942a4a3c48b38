"""What the searches over whole-tensor programs find, by rules, bottom up, and both by turns.

`uv run --group bench python benchmarks/algebra.py [--seconds S] [FUNCTION ...]`

Gains are those that the cost model estimates, of the best answer that `verify` accepts: what is
measured on a device is in `benchmarks/optimize.py`.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from corpus import CORPUS, Case
from lib.figures import figure

from aiosearch.equivalence import verify
from aiosearch.limits import Limits
from aiosearch.optimizer.algebra import (
    EnumerationSearch,
    RewriteSearch,
    estimate,
    improve,
    searchable,
)
from aiosearch.optimizer.algebra.rules.simplification import Tidier
from aiosearch.optimizer.trace.traced import cut
from aiosearch.orders import BestFirst
from aiosearch.search import solve
from aiosearch.tensor import Program
from aiosearch.tensor.files import from_json, to_json

LOOKED_AT = 8
"""Answers that are verified, the cheapest first."""


@dataclass
class Way:
    """A way of searching, and what it came to over all programs."""

    name: str
    gains: list[float] = field(default_factory=list)
    """Of each program."""
    nodes: int = 0
    seconds: float = 0.0
    refused: int = 0

    def note(self, program: Program, found: list[Program]) -> None:
        """Takes what was found for a program; the gain is that of the best that is accepted."""
        accepted = [one for one in found if self._accepts(program, one)]
        cost = estimate(program)
        self.gains.append(max((cost / estimate(one) for one in accepted), default=1.0))

    def _accepts(self, program: Program, found: Program) -> bool:
        accepted = verify(program, found, floats=False).status.accepted
        self.refused += not accepted
        return accepted


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=2.0, help="for each search")
    parser.add_argument("functions", nargs="*", default=list(CORPUS))
    given = parser.parse_args()
    ways = [Way("rules"), Way("enumeration"), Way("both")]
    tally = Counter[str]()
    for name in given.functions:
        for number, program in enumerate(programs(CORPUS[name])):
            compare(name if not number else f"{name}, {number + 1}", program, ways, tally, given)
    summary(ways, tally)


def programs(case: Case) -> Iterator[Program]:
    for program in dict.fromkeys(one.program for one in cut(case.function, *case.types).regions):
        if program is not None and searchable(program):
            yield program


def compare(
    name: str, program: Program, ways: list[Way], tally: Counter[str], given: argparse.Namespace
) -> None:
    """Searches in each way, and prints a figure."""
    rules, enumeration, both = ways
    before = enumeration.nodes, enumeration.seconds
    rules.note(program, by_rules(rules, program, given.seconds))
    enumeration.note(program, bottom_up(enumeration, program, given.seconds, tally))
    both.note(program, improve(program, seconds=given.seconds, most=LOOKED_AT))
    figure(
        f"algebra: {name}, estimated gain",
        both.gains[-1],
        "times",
        rules=round(rules.gains[-1], 2),
        enumeration=round(enumeration.gains[-1], 2),
        terms=sum(1 for _ in program.terms()),
        nodes=enumeration.nodes - before[0],
        seconds=round(enumeration.seconds - before[1], 2),
    )


def by_rules(way: Way, program: Program, seconds: float) -> list[Program]:
    """What rewriting alone finds."""
    problem, limits = RewriteSearch(to_json(program)), Limits(seconds=seconds)
    started = time.process_time()
    result = solve(problem, order="best-first", workers=0, limits=limits, cache=None)
    return noted(way, started, result.statistics.nodes, [one.program for one in result.solutions])


def bottom_up(way: Way, program: Program, seconds: float, tally: Counter[str]) -> list[Program]:
    """What enumeration alone finds."""
    problem, limits = EnumerationSearch(to_json(program)), Limits(seconds=seconds)
    started, order = time.process_time(), BestFirst(prune=True)
    result = solve(problem, order=order, workers=0, limits=limits, cache=None)
    tally.update(problem.tally)
    tally["pruned"] += result.statistics.pruned
    return noted(way, started, result.statistics.nodes, [one.program for one in result.solutions])


def noted(way: Way, started: float, nodes: int, found: list[bytes]) -> list[Program]:
    way.nodes += nodes
    way.seconds += time.process_time() - started
    tidy = {Tidier().program(from_json(one)) for one in found}
    return sorted(tidy, key=estimate)[:LOOKED_AT]


def summary(ways: list[Way], tally: Counter[str]) -> None:
    for way in ways:
        figure(
            f"algebra: programs improved by {way.name}",
            sum(gain > 1 for gain in way.gains),
            f"of {len(way.gains)} programs",
            geomean=round(statistics.geometric_mean(way.gains), 3),
            refused=way.refused,
        )
    for way in ways[:2]:
        rate = way.nodes / way.seconds if way.seconds else None
        figure(f"algebra: nodes of {way.name}", rate, "per CPU second")
    tried = sum(tally[kind] for kind in ("new", "known", "dear", "undefined"))
    for kind, text in (("known", "fingerprint"), ("dear", "bound"), ("undefined", "no value")):
        share = tally[kind] / tried if tried else None
        figure(f"algebra: steps dropped by {text}", share, "share", of=tried)


if __name__ == "__main__":
    main()
