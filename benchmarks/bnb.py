"""The ladder's searches on pybnb, for `speedup.py`: mpiexec -n 3 python bnb.py SECONDS NUMBER.

pybnb is a parallel branch-and-bound engine for Python. It runs on MPI, with one more process than
workers, which deals out the nodes; alone, it is serial. Where nothing is pruned its nested solver
makes larger tasks of them; in branch and bound it does not, for there it may take for ever.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from typing import Any

import pybnb
from lib.engine.sized_searches import Rung, ladder

TASK_SECONDS = 0.25


class Adapted(pybnb.Problem):
    """A problem of ours as pybnb wants it; without a bound, everything is explored."""

    def __init__(self, problem: Any) -> None:
        self._problem = problem
        self._node = problem.root()
        self._bound = getattr(problem, "bound", None)

    def sense(self) -> Any:
        return pybnb.minimize

    def objective(self) -> float:
        found = self._problem.solutions(self._node)
        if self._bound is None or not found:
            return float(self.infeasible_objective())
        return float(min(map(self._problem.cost, found)))

    def bound(self) -> float:
        return float(self._bound(self._node) if self._bound else self.unbounded_objective())

    def save_state(self, node: Any) -> None:
        node.state = self._node

    def load_state(self, node: Any) -> None:
        self._node = node.state

    def branch(self) -> Iterator[Any]:
        for child in self._problem.expand(self._node):
            node = pybnb.Node()
            node.state = child
            yield node


def solve(rung: Rung, serial: bool) -> dict[str, Any]:
    """Solves and says what rank 0 knows; the clock starts when all processes are there."""
    problem = Adapted(rung.problem)
    if serial:
        solver = pybnb.Solver(comm=None)
    else:
        solver = pybnb.Solver()
        solver.comm.Barrier()
        if not hasattr(rung.problem, "bound"):
            problem = pybnb.futures.NestedSolver(problem, time_limit=TASK_SECONDS)
    started = time.perf_counter()
    results = solver.solve(problem, queue_strategy="depth", log=None)
    seconds = time.perf_counter() - started
    return {
        "seconds": seconds,
        "nodes": results.nodes,
        "best": results.objective,
        "dispatcher": bool(solver.is_dispatcher),
    }


def main() -> None:
    seconds, number, serial = float(sys.argv[1]), int(sys.argv[2]), "--serial" in sys.argv
    outcome = solve(ladder(seconds)[number], serial)
    if outcome.pop("dispatcher"):
        sys.stdout.write(json.dumps(outcome) + "\n")


if __name__ == "__main__":
    main()
