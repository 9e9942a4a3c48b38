"""How large the superoptimizer's searches are that nobody waits for: sizes by random dives.

    python benchmarks/sampled.py                 # some minutes
    python benchmarks/sampled.py --quick         # the small ones
    python benchmarks/sampled.py --dives 5000

From the root one child after the other is drawn until a leaf. A node that was met counts as often
as there were children to draw from on the way to it: the mean over the dives is the size of the
tree, and with a node's CPU seconds its work (Knuth, 1975). Some kernel graphs come about in two
ways, and count twice here; a search explores them once. Tables, and the counts of block graphs that
are made once in a process, are not in it.
"""

from __future__ import annotations

import argparse
import time
from random import Random
from statistics import mean, quantiles, stdev

from lib.engine.sized_searches import FUSED, Rung
from lib.figures import figure
from msgspec import Struct

from aiosearch.workloads.fused import Fused

QUICK = 60.0
"""Seconds of a search that is sampled by default where it has to be quick."""


class Dive(Struct):
    """What one dive stands for, and what its nodes took."""

    nodes: float
    seconds: float
    taken: list[float]
    """What each node took."""
    leaves: float
    programs: list[float]
    """What each leaf took that is a program."""


def dive(problem: Fused, random: Random) -> Dive:
    """Goes down to a leaf, a random child at a time."""
    node, weight, found = problem.root(), 1.0, Dive(0, 0, [], 0, [])
    while True:
        problem.expand(node)
        began = time.process_time()
        problem.solutions(node)
        children = problem.expand(node)
        taken = time.process_time() - began
        found.nodes += weight
        found.seconds += weight * taken
        found.taken.append(taken)
        if not children:
            if node.graphs:
                found.leaves, found.programs = weight, [taken]
            return found
        weight *= len(children)
        node = random.choice(children)


def sampled(rung: Rung, dives: int) -> None:
    """Prints a rung's size."""
    began = time.process_time()
    rung.problem.expand(rung.problem.root())
    begin = time.process_time() - began
    random = Random(1)
    found = [dive(rung.problem, random) for _ in range(dives)]
    seconds = [one.seconds for one in found]
    taken = sorted(taken for one in found for taken in one.taken)
    programs = [taken for one in found for taken in one.programs]
    figure(
        f"the whole search, sampled: {rung.name}",
        mean(seconds),
        "CPU s",
        standard_error=round(stdev(seconds) / dives**0.5, 1),
        nodes=round(mean(one.nodes for one in found)),
        dives=dives,
        begin_seconds=round(begin, 2),
        programs=round(mean(one.leaves for one in found)),
        node_milliseconds=[round(1e3 * part, 3) for part in quantiles(taken, n=10)[::4]],
        program_milliseconds=round(1e3 * mean(programs), 2),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--dives", type=int, default=2_000)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", default="", help="those with this in their names")
    options = parser.parse_args()
    for rung in (rung for rung in FUSED if options.only in rung.name):
        if not options.quick or rung.seconds < QUICK:
            sampled(rung, 200 if options.quick else options.dives)


if __name__ == "__main__":
    main()
