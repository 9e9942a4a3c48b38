"""Programs compared with themselves: which cannot be judged, and what a comparison takes?

`uv run --group third-party python benchmarks/selfjudged.py [--random 10000] [--only NAME ...]`

A program that does not agree with itself under the judge of floats can have no answer, whatever is
found for it. That both are the same terms plays no part, as it would be no help to a rewritten
program; `verify` does accept equal terms. Where rounding does decide, as between two equal places
of an `argmax`, the evidence has to name the value.

Compared are the regions of the forty functions, of the models and training steps, and of the
third-party functions that are installed, and random programs. A comparison that takes longer than
`--seconds` of CPU counts as not judged.
"""

from __future__ import annotations

import argparse
import signal
import statistics
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from corpus import CORPUS
from lib.figures import figure
from lib.programs.subject import ORIGINS, subjects

from aiosearch.equivalence.floats import compare_floats
from aiosearch.errors import AiosearchError
from aiosearch.optimizer.trace.traced import cut
from aiosearch.tensor import Program

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))

from testkit.programs.random_programs import random_program  # found in the tests' folder

AGREES = "agree"
MOST_NAMES = 40
"""Programs that a figure names."""


class LateError(Exception):
    """A comparison took longer than it may."""


@dataclass(frozen=True)
class Comparison:
    name: str
    outcome: str
    """`AGREES`, or why it cannot be judged."""
    named: bool
    """Whether that names the value that says nothing, where it does not agree."""
    seconds: float
    """Of CPU."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--random", type=int, default=10_000, metavar="COUNT")
    parser.add_argument("--seconds", type=float, default=60.0, help="of CPU for a comparison")
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME", help="these alone")
    options = parser.parse_args()
    signal.signal(signal.SIGPROF, late)
    groups = {"corpus": of_corpus(), **{name: of_subjects(name) for name in ORIGINS}}
    for name, programs in groups.items():
        chosen = (each for each in programs if not options.only or each[0] in options.only)
        tell(name, [compared(*each, options.seconds) for each in chosen])
    if not options.only:
        drawn = ((str(seed), random_program(seed)) for seed in range(options.random))
        tell("random programs", [compared(*each, options.seconds) for each in drawn])


def of_corpus() -> Iterator[tuple[str, Program]]:
    """The regions of the forty functions, each with the name of its function."""
    for case in CORPUS.values():
        for subject in cut(case.function, *case.types).subjects:
            yield case.name, subject.program


def of_subjects(group: str) -> Iterator[tuple[str, Program]]:
    """The regions of subjects whose libraries are installed."""
    for subject in subjects(group):
        if not subject.installed:
            sys.stderr.write(f"{subject.name}: {subject.origin} is not installed\n")
            continue
        function, arguments = subject.made()
        for part in cut(function, *arguments).subjects:
            yield subject.name, part.program


def compared(name: str, program: Program, seconds: float) -> Comparison:
    """Compares a program with itself."""
    started = time.process_time()
    signal.setitimer(signal.ITIMER_PROF, seconds)
    named = False
    try:
        evidence = compare_floats(program, program)
        named = bool(evidence.remark)
        outcome = AGREES if evidence.outcome == AGREES else str(evidence)
    except LateError as error:
        outcome = str(error)
    except AiosearchError as error:
        outcome = f"{type(error).__name__}: {error}"
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    return Comparison(name, outcome, named, time.process_time() - started)


def late(number: int, frame: FrameType | None) -> None:
    raise LateError("it takes longer than it may")


def tell(group: str, comparisons: Iterable[Comparison]) -> None:
    """Prints the figures of a group."""
    compared = list(comparisons)
    if not compared:
        return
    without = [each for each in compared if each.outcome != AGREES]
    figure(
        f"programs not judged against themselves: {group}",
        len(without),
        "programs",
        target=0,
        of=len(compared),
        reasons=[f"{each.name}: {each.outcome}" for each in without[:MOST_NAMES]],
    )
    figure(
        f"not judged, and no value is named: {group}",
        sum(not each.named for each in without),
        "programs",
        target=0,
        of=len(without),
    )
    seconds = [each.seconds for each in compared]
    slowest = max(compared, key=lambda each: each.seconds)
    figure(
        f"comparison of a program with itself: {group}",
        statistics.median(seconds),
        "CPU s",
        most=round(slowest.seconds, 1),
        slowest=slowest.name,
    )


if __name__ == "__main__":
    main()
