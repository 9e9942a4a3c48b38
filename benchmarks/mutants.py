"""Programs with one mistake: which of them does the verifier take for the right one?

Every built-in program, every rewrite of the tests and every saved graph that is right is changed
in one place, in every way. The float64 referee says which mutants differ, and then the verifier is
asked. None that differs may be accepted, none that is equal may be refuted. A proof is asked for
also where the fields have spoken already: none may be found for what differs on ordinary inputs.

In half types some equal programs are refuted for floats: they overflow where the original does not.
So are those of a rewrite that loses digits itself, which are counted and no violation either.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from lib.figures import figure

from aiosearch.equivalence import Status, Verdict, prove, verify
from aiosearch.equivalence.counterexample import CounterexampleKind
from aiosearch.equivalence.float_referee import DRAWS, FloatReferee
from aiosearch.equivalence.inputs.distributions import DISTRIBUTIONS
from aiosearch.tensor import DType
from aiosearch.tensor.analysis.generalise import generalise
from aiosearch.testing.mutants import Change, Mutant, mutants

sys.path.append(str(Path(__file__).parents[1] / "tests" / "support"))

from right_programs import Case, cases

TRUTHS = {True: "differ", False: "equal", None: "close"}
UNLIKE_REALS = (CounterexampleKind.OVERFLOW, CounterexampleKind.DOMAIN)
ALL = tuple(dict.fromkeys((*DRAWS, *DISTRIBUTIONS)))
ORDINARY = ("normal", "positive", "small")
"""Inputs on which floats and real numbers agree."""


@dataclass
class Tally:
    """How many mutants of one truth got which verdict."""

    verdicts: Counter[str] = field(default_factory=Counter)
    violations: int = 0


def spelled(verdict: Verdict) -> str:
    """The status; what is right but for floats is told apart from what is wrong."""
    if verdict.status is Status.REFUTED and (
        verdict.counterexample is None or verdict.counterexample.kind in UNLIKE_REALS
    ):
        return "refuted for floats"
    return verdict.status.value


def exact(case: Case, seed: int) -> bool:
    """Whether floats leave the right program alone: no half types, and none that loses digits."""
    wide = all(term.dtype is DType.F64 for term in case.original.inputs)
    return wide and verify(case.original, case.right, seed=seed).status.accepted


def chosen(case: Case, limit: int | None, seed: int) -> list[Mutant]:
    found = list(mutants(case.right))
    if limit is None or len(found) <= limit:
        return found
    return random.Random(f"{seed} {case.name}").sample(found, limit)


class Run:
    """All that is counted."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.tallies = {(what, truth): Tally() for what in Change for truth in TRUTHS.values()}
        self.seconds = Counter[str]()
        self.slowest = (0.0, "")
        self.proved_wrong = 0

    def judge(
        self, case: Case, referees: tuple[FloatReferee, FloatReferee], exact: bool, mutant: Mutant
    ) -> None:
        referee, ordinary = referees
        start = time.perf_counter()
        truth = TRUTHS[referee.differs(mutant.program)]
        classified = time.perf_counter()
        verdict = verify(case.original, mutant.program, seed=self.seed)
        judged = time.perf_counter()
        self.seconds["referee"] += classified - start
        self.seconds["verify"] += judged - classified
        told = f"{case.name}: {mutant.description}"
        self.slowest = max(self.slowest, (judged - classified, told))
        tally = self.tallies[mutant.what, truth]
        tally.verdicts[spelled(verdict)] += 1
        if (truth == "differ" and verdict.status.accepted) or (
            truth == "equal"
            and (spelled(verdict) == "refuted" or (exact and verdict.status is Status.REFUTED))
        ):
            tally.violations += 1
            show(case, mutant, truth, "\n".join(verdict.summary()))
        if truth == "differ" and ordinary.differs(mutant.program):
            self.prove(case, mutant)

    def prove(self, case: Case, mutant: Mutant) -> None:
        """Asks the second layer alone about a mutant that differs."""
        general = generalise([case.original, mutant.program])
        proof = prove(*general.programs, general.values)
        if proof.proved:
            self.proved_wrong += 1
            show(case, mutant, "differ", f"proof {proof}")

    def total(self, truth: str) -> Tally:
        whole = Tally()
        for (_, own), tally in self.tallies.items():
            if own == truth:
                whole.verdicts += tally.verdicts
                whole.violations += tally.violations
        return whole

    def report(self) -> None:
        for what in Change:
            told = {truth: self.tallies[what, truth].verdicts for truth in TRUTHS.values()}
            count = sum(verdicts.total() for verdicts in told.values())
            figure(f"mutants.{what}", count, "programs", **told)
        totals = {truth: self.total(truth) for truth in TRUTHS.values()}
        count = sum(tally.verdicts.total() for tally in totals.values())
        told = {truth: tally.verdicts for truth, tally in totals.items()}
        figure("mutants.all", count, "programs", target=10_000, **told)
        figure("mutants.accepted_wrong", totals["differ"].violations, "programs", target=0)
        figure("mutants.refuted_right", totals["equal"].violations, "programs", target=0)
        figure("mutants.proved_wrong", self.proved_wrong, "programs", target=0)
        for name, seconds in self.seconds.items():
            figure(f"mutants.{name}_time", 1e3 * seconds / max(count, 1), "ms", target=30)
        figure("mutants.slowest", 1e3 * self.slowest[0], "ms", program=self.slowest[1])


def show(case: Case, mutant: Mutant, truth: str, found: str) -> None:
    sys.stderr.write(
        f"VIOLATION in {case.name}: {mutant.what}, {mutant.description}: {truth}, but {found}\n"
        f"original:\n{case.original}\nmutant:\n{mutant.program}\n"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--limit", type=int, help="mutants of each program, drawn at random")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", action="append", help="programs whose name holds this")
    parser.add_argument("--dtype", default="f64")
    parser.add_argument("--minutes", type=float, default=600.0, help="begin nothing after these")
    parser.add_argument("--quick", action="store_true", help="a sanity size")
    arguments = parser.parse_args()
    run = Run(arguments.seed)
    end = time.monotonic() + 60 * arguments.minutes
    for case in cases(arguments.dtype):
        if arguments.only and not any(name in case.name for name in arguments.only):
            continue
        if time.monotonic() > end:
            sys.stderr.write(f"the time is up before {case.name}\n")
            break
        referees = (
            FloatReferee(case.original, arguments.seed, ALL),
            FloatReferee(case.original, arguments.seed, ORDINARY),
        )
        kept = exact(case, arguments.seed)
        for mutant in chosen(case, 3 if arguments.quick else arguments.limit, arguments.seed):
            run.judge(case, referees, kept, mutant)
    run.report()
    sys.exit(bool(run.proved_wrong) or any(one.violations for one in run.tallies.values()))


if __name__ == "__main__":
    main()
