"""How little of a space branch and bound looks at, to find the program predicted to be fastest.

    python benchmarks/bound.py             # in spaces that can be gone through as a whole
    python benchmarks/bound.py --quick
    python benchmarks/bound.py --only      # in whole default spaces, with the bound alone

Each search is run best-first with the bound, and depth-first without: then every program is priced.
Both have to find the same least time.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

from lib.figures import figure

from aiosearch import Result, SearchStatus, solve
from aiosearch.orders import BestFirst
from aiosearch.superoptimizer.enumeration.branch_and_bound import Priced
from aiosearch.workloads.fused import Fused

NAMES = ("rms_norm", "gated_mlp", "lora", "gqa")
BOUND = BestFirst(prune=True)


def searched(problem: Fused, order: Any) -> tuple[Result[Priced], float]:
    """What came of it, and the CPU seconds without the tables."""
    problem.expand(problem.root())
    began = time.process_time()
    found: Result[Priced] = solve(problem, workers=0, order=order, cache=None)
    assert found.status is SearchStatus.COMPLETE
    return found, time.process_time() - began


def told(name: str, problem: Fused, beside: bool) -> None:
    """Prints what it takes with the bound, and without where that is run too."""
    found, seconds = searched(problem, BOUND)
    assert found.best is not None
    more: dict[str, Any] = {}
    if beside:
        every, whole = searched(problem, "depth-first")
        least = min(one.seconds for one in every.solutions)
        assert found.best.seconds == least, (found.best.seconds, least)
        more = {"nodes_of_all": every.statistics.nodes, "seconds_of_all": round(whole, 2)}
    figure(
        f"nodes to the fastest program: {name}",
        found.statistics.nodes,
        "nodes",
        cpu_seconds=round(seconds, 2),
        predicted_microseconds=round(1e6 * found.best.seconds, 3),
        bound_microseconds=round(1e6 * problem.bound(problem.root()), 3),
        block_operators=problem.block_operators,
        kernels=problem.kernels,
        **more,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", action="store_true", help="with the bound alone")
    options = parser.parse_args()
    for name in NAMES:
        if options.only:
            told(name, Fused(name, 9, 3), beside=False)
        else:
            told(name, Fused(name, 6 if options.quick else 8), beside=True)


if __name__ == "__main__":
    main()
