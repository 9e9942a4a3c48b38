"""Every drawn µgraph that the referee finds equal is among what the superoptimizer finds.

The draws know nothing of the search. What is not found is outside the declared space, for a reason
that is named, or missed. Some programs that the search stands for are judged by the referee too.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import time
from collections import Counter
from pathlib import Path
from random import Random

from lib.figures import figure

from aiosearch.superoptimizer.space import Space

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))

from drawn import NAMES, drawn, equal, small
from right_programs import saved_cases
from testkit.superoptimizer.membership import Answer, Members, Membership
from testkit.superoptimizer.samples import samples


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"one of {', '.join(NAMES)}")
    parser.add_argument("--draws", type=int, default=10_000)
    parser.add_argument("--samples", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kernels", type=int, default=Space.kernels)
    parser.add_argument("--mirage", type=Path, metavar="FOLDER", help="graphs that Mirage saved")
    asked = parser.parse_args()
    space = Space(kernels=asked.kernels)
    for name in asked.names:
        against_draws(name, space, asked.draws, asked.seed)
        right(name, space, asked.samples, asked.seed)
    if asked.mirage:
        against_mirage(asked.mirage, space)


def against_draws(name: str, space: Space, count: int, seed: int) -> None:
    """How many draws there are, are equal, are found, and what becomes of the others."""
    began = time.process_time()
    reference = small(name)
    programs = itertools.islice(drawn(reference, seed, space.block_operators), count)
    own = [program for program in programs if equal(reference, program, seed)]
    drew = time.process_time() - began
    members = Members(reference, space)
    judged = [members.judge(program) for program in own]
    figure(f"completeness: {name}, drawn", count, "programs", cpu=round(drew, 1))
    figure(f"completeness: {name}, equal", len(own), f"of {count}")
    spent = time.process_time() - began - drew
    report(name, judged, cpu=round(spent, 1))


def report(name: str, judged: list[Membership], **more: float) -> None:
    answers = Counter(one.answer for one in judged)
    reasons = Counter((one.answer, one.reason) for one in judged)
    figure(f"completeness: {name}, found", answers[Answer.FOUND], f"of {len(judged)}", **more)
    for (answer, reason), own in sorted(reasons.items(), key=lambda pair: -pair[1]):
        if reason and answer is not Answer.MISSED:
            figure(f"completeness: {name}, {answer.value}: {reason}", own, f"of {len(judged)}")
    missed = [one.reason for one in judged if one.answer is Answer.MISSED]
    figure(f"completeness: {name}, missed", len(missed), f"of {len(judged)}", target=0)
    for reason in missed[:3]:
        sys.stderr.write(f"{name}: missed {reason}\n")


def right(name: str, space: Space, count: int, seed: int) -> None:
    """Programs that the search stands for, with numbers at random: none may be wrong."""
    reference = small(name)
    found = list(samples(Members(reference, space), Random(seed), count))
    wrong = sum(not equal(reference, program, seed) for program in found)
    figure(f"completeness: {name}, wrong", wrong, f"of {len(found)} samples", target=0)


def against_mirage(folder: Path, space: Space) -> None:
    """The right graphs that Mirage saved."""
    judged: dict[str, list[Membership]] = {}
    for name, case in saved_cases(folder):
        judged.setdefault(name, []).append(Members(case.original, space).judge(case.right))
    for name, own in judged.items():
        report(f"{name} by Mirage", own)


if __name__ == "__main__":
    main()
