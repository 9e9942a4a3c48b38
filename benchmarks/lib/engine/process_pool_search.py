"""The ladder's searches as a competent user would write them with ProcessPoolExecutor.

The tree is cut at a fixed depth and every subtree there is a task. In branch and bound the best
cost is shared by a multiprocessing.Value that every node looks at.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from typing import Any

from lib.engine.sized_searches import Rung
from msgspec import Struct

_problem: Any = None
_best: Any = None


class ByHand(Struct, frozen=True):
    """What one run came to."""

    seconds: float
    nodes: int
    tasks: int
    cpu: float
    """CPU seconds of the workers."""
    best: float


def run(rung: Rung, workers: int) -> ByHand:
    """Searches on so many processes, which are up and warm when the clock starts."""
    context = get_context("spawn")
    shared = context.Value("d", float("inf"))
    given = (dataclasses.replace(rung.problem), shared)
    with ProcessPoolExecutor(workers, context, _begin, given) as executor:
        list(executor.map(_warm, range(workers)))
        started = time.perf_counter()
        above, roots = cut(rung)
        search = below_best if hasattr(rung.problem, "bound") else below
        futures = [executor.submit(search, root) for root in roots]
        results = [future.result() for future in as_completed(futures)]
        seconds = time.perf_counter() - started
    nodes = above + sum(nodes for nodes, _ in results)
    return ByHand(seconds, nodes, len(roots), sum(cpu for _, cpu in results), shared.value)


def cut(rung: Rung) -> tuple[int, list[Any]]:
    """Expands down to the depth of the cut; the most promising subtrees go first."""
    level, above = [rung.problem.root()], 0
    for _ in range(rung.cut):
        above += len(level)
        level = [child for node in level for child in rung.problem.expand(node)]
    bound = getattr(rung.problem, "bound", None)
    return above, sorted(level, key=bound) if bound else level


def below(root: Any) -> tuple[int, float]:
    """Explores a subtree."""
    started = time.process_time()
    nodes, waiting = 0, [root]
    expand, solutions = _problem.expand, _problem.solutions
    while waiting:
        node = waiting.pop()
        nodes += 1
        solutions(node)
        waiting.extend(expand(node))
    return nodes, time.process_time() - started


def below_best(root: Any) -> tuple[int, float]:
    """Explores a subtree, without what cannot beat the best tour that anybody has found."""
    started = time.process_time()
    nodes, waiting = 0, [root]
    bound = _problem.bound
    while waiting:
        node = waiting.pop()
        if bound(node) >= _best.value:
            continue
        nodes += 1
        _improve(map(_problem.cost, _problem.solutions(node)))
        waiting.extend(sorted(_problem.expand(node), key=bound, reverse=True))
    return nodes, time.process_time() - started


def _improve(costs: Iterable[float]) -> None:
    for cost in costs:
        with _best.get_lock():
            _best.value = min(_best.value, cost)


def _begin(problem: Any, best: Any) -> None:
    global _problem, _best
    _problem, _best = problem, best


def _warm(number: int) -> None:
    """Computes what the problem keeps, and leaves the other tasks to the other workers."""
    _problem.expand(_problem.root())
    time.sleep(0.2)
