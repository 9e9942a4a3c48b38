"""Kills searches a thousand times, and shows that no solution is lost and none counted twice.

    python tests/soak/chaos.py                           # 1,000 faults
    python tests/soak/chaos.py --faults 100 --seed 7
    python tests/soak/chaos.py --seed 7 --only 42        # one trial again

A trial is one search of about a second with a journal. Whatever strikes it, it is taken up again,
four times at most, with another order, strategy and number of workers, and must then report what a
plain walk of the same tree finds.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from pathlib import Path

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))

from chaos_trial import KEPT, Report, run_trial
from expected_answers import answers, verdicts
from kill_plan import GROUP, PLACES, SOLVER, WORKER, Plan, plan
from killable_problems import SUBJECTS
from lib.figures import figure

KINDS = (*PLACES, GROUP, WORKER, SOLVER)


def reports(plans: Iterator[Plan], faults: int, parallel: int) -> Iterator[Report]:
    """Runs trials side by side until so many faults have struck."""
    struck = 0
    with ThreadPoolExecutor(parallel) as executor:
        running: set[Future[Report]] = set()
        while struck < faults or running:
            while struck < faults and len(running) < parallel:
                running.add(executor.submit(run_trial, next(plans)))
            done, running = wait(running, return_when=FIRST_COMPLETED)
            for report in (future.result() for future in done):
                struck += report.struck.total()
                yield report


def repeat(seed: int, number: int) -> str:
    return f"python tests/soak/chaos.py --seed {seed} --only {number}"


def show_failure(report: Report, seed: int) -> None:
    figure(
        f"chaos: trial {report.plan.number} failed ({report.plan.about}, {report.plan.subject})",
        len(report.failures),
        "failures",
        failures=report.failures[:8],
        files=str(KEPT / str(report.plan.number)),
        repeat=repeat(seed, report.plan.number),
    )


def show(struck: Counter[str], failed: Counter[str], trials: int, seconds: float) -> None:
    for kind in KINDS:
        figure(
            f"chaos: survived, {kind}",
            struck[kind] - failed[kind],
            f"of {struck[kind]} faults",
            target=struck[kind],
        )
    figure(
        "chaos: faults survived",
        struck.total() - failed.total(),
        f"of {struck.total()} faults",
        target=struck.total(),
        trials=trials,
        minutes=round(seconds / 60, 1),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--faults", type=int)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", type=int, metavar="TRIAL")
    parser.add_argument("--parallel", type=int, default=3, help="trials side by side")
    parser.add_argument("--quick", action="store_true", help="40 faults")
    options = parser.parse_args()
    faults = options.faults or (40 if options.quick else 1_000)
    numbers: Iterator[int] = itertools.count()
    if options.only is not None:
        numbers, faults = iter([options.only]), 1
    plans = (plan(options.seed, number) for number in numbers)
    for subject in SUBJECTS:
        answers(subject), verdicts(subject)  # computed once, before threads share them
    struck: Counter[str] = Counter()
    failed: Counter[str] = Counter()
    started, trials = time.monotonic(), 0
    for report in reports(plans, faults, 1 if options.only is not None else options.parallel):
        trials += 1
        struck += report.struck
        if report.failures:
            failed += report.struck or Counter({report.plan.about: 1})
            show_failure(report, options.seed)
    show(struck, failed, trials, time.monotonic() - started)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
