"""The command line of benchmarks that optimize subjects: which, how long, resumed from what."""

from __future__ import annotations

import argparse
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from lib.programs.contest import Limits, Outcome, contest
from lib.programs.subject import Subject, subjects
from lib.programs.summary import as_table, resumed, tell, tell_all
from lib.programs.trial import Setting

from aiosearch.optimizer.effort import Effort

Named = TypeVar("Named", Subject, Outcome)

QUICK_SECONDS = 0.3
"""For each way of calling, with `--quick`."""
QUICK_COUNT = 2
"""Subjects, with `--quick`."""


def run(
    benchmark: str,
    about: str,
    targets: Mapping[str, Mapping[str, float]],
    parts: Mapping[str, Sequence[str]] | None = None,
) -> None:
    """Measures the subjects of the group `benchmark`.

    `parts` names subjects that are summed up apart, and `targets` has the targets of each sum.
    """
    options, group = parsed(about), benchmark
    # An ended run ends the process that it waits for, in `child`.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    known = {subject.name: subject for subject in subjects(group)}
    if strangers := set(options.only) - set(known):
        sys.exit(f"no function {', '.join(sorted(strangers))}; there are {', '.join(known)}")
    chosen = [known[name] for name in options.only] or list(known.values())
    missing = [subject for subject in chosen if not subject.installed]
    for origin in dict.fromkeys(subject.origin for subject in missing):
        sys.stderr.write(f"{origin} is not installed: run with --group third-party for its part\n")
    present = [subject for subject in chosen if subject not in missing]
    present = present[: options.limit or (QUICK_COUNT if options.quick else None)]
    outcomes = measured(benchmark, group, present, options)
    for name, part in summed(benchmark, outcomes, parts or {}).items():
        # A target is for all of a group: a part of it may be the easier one.
        whole = len(part) == len(summed(benchmark, list(known.values()), parts or {})[name])
        tell_all(name, part, dict(targets.get(name, {})) if whole else {})
    sys.stderr.write(as_table(outcomes) + "\n")


def summed(
    benchmark: str, outcomes: Sequence[Named], parts: Mapping[str, Sequence[str]]
) -> dict[str, list[Named]]:
    """What is summed up together: the parts, and whatever is in none."""
    apart = {name for names in parts.values() for name in names}
    return {
        benchmark: [outcome for outcome in outcomes if outcome.name not in apart],
        **{
            part: [outcome for outcome in outcomes if outcome.name in names]
            for part, names in parts.items()
        },
    }


def measured(
    benchmark: str, group: str, chosen: Sequence[Subject], options: argparse.Namespace
) -> list[Outcome]:
    """Measures one after the other, until the time is up; what was measured before stays."""
    earlier = resumed(options.resume, benchmark) if options.resume else []
    before = {outcome.name: outcome for outcome in earlier}
    seconds = QUICK_SECONDS if options.quick else options.seconds
    setting = Setting(options.effort, seconds)
    limits = Limits(options.wall, options.wall)
    end = time.monotonic() + 60 * options.minutes
    outcomes = []
    for subject in chosen:
        if subject.name not in before and time.monotonic() > end:
            sys.stderr.write(
                f"the time is up before {subject.name}: resume from what was printed\n"
            )
            continue
        outcome = before.get(subject.name) or contest(group, subject, setting, limits)
        tell(benchmark, outcome)
        outcomes.append(outcome)
    return outcomes


def count(text: str) -> int:
    """A number of functions, of which there is at least one; raises `ArgumentTypeError`."""
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(
            f"{text!r} is no number of functions: give 1 or more, or leave it out for all"
        )
    return int(text)


def parsed(about: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME", help="these alone")
    parser.add_argument("--limit", type=count, help="no more than so many functions")
    parser.add_argument("--effort", default="quick", choices=[effort.value for effort in Effort])
    parser.add_argument("--seconds", type=float, default=2.0, help="for each way of calling")
    parser.add_argument("--wall", type=float, default=120.0, help="seconds for a search at most")
    parser.add_argument("--minutes", type=float, default=600.0, help="begin nothing after these")
    parser.add_argument("--resume", type=Path, metavar="FILE", help="what an earlier run printed")
    parser.add_argument("--quick", action="store_true", help="a sanity size")
    return parser.parse_args()
