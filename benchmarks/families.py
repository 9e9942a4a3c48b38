"""Pairs of programs with one mistake that hardly any input shows: how many are accepted?

Of each family `--count` seeded pairs are verified. One differs at singularities that the original
does not have, at ties of equal numbers, or where whole numbers leave their type: accepted are to be
none. Another one of the same seed is right: refuted are to be none of those.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from lib.figures import figure

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))

from testkit.programs.family_pairs import FAMILIES

from aiosearch.equivalence import Status


def main(count: int, seed: int, only: list[str]) -> None:
    for name, verdicts in FAMILIES.items():
        if only and name not in only:
            continue
        started = time.process_time()
        accepted, refuted, unjudged = [], [], [0, 0]
        for at in range(seed, seed + count):
            wrong, right = verdicts(at)
            accepted += [at] * wrong.status.accepted
            refuted += [at] * (right.status is Status.REFUTED)
            for place, verdict in enumerate((wrong, right)):
                unjudged[place] += verdict.status is Status.CANNOT_JUDGE
        seconds = round(time.process_time() - started, 1)
        figure(
            f"families.{name}: wrong pairs accepted",
            len(accepted),
            "programs",
            target=0,
            pairs=count,
            seeds=accepted,
            not_judged=unjudged[0],
            cpu_seconds=seconds,
        )
        figure(
            f"families.{name}: right pairs refuted",
            len(refuted),
            "programs",
            target=0,
            pairs=count,
            seeds=refuted,
            not_judged=unjudged[1],
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=1000, help="pairs of each family")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", action="append", default=[], help="families of this name")
    options = parser.parse_args()
    main(options.count, options.seed, options.only)
