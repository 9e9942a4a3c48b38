"""Checks on the virtual clock: what would take many machines, or bad luck, to see for real."""

from __future__ import annotations

from functools import partial
from itertools import product
from typing import Any

from ...problem import AnyProblem
from ...workloads.shapes import Tiny
from ..problems import Balanced, Grid, Plenty, Random, Spine
from ..virtual.simulator import Death
from .subject import StrategyUnderTest, agree, agree_on_answers, expected

SLOW_NODES = 100e-6
LONG_NODES = (1e-3, 60e-3)
"""Node times in seconds; with the longer ones, each node is followed by a report, if it has a
solution."""
WORKERS = 4
FAIR = 0.1
"""The share of the nodes that each worker has to explore where there is plenty for all."""
ORDERS = ("depth-first", "breadth-first", "best-first")
# Five and eight have no common factor, so every seat has its turn
DEATHS = tuple(Death(0.003 + 0.004 * number, number * 5 % 8) for number in range(12))
"""Deaths spread over eight workers, some in the same seat again."""


async def repeatable(subject: StrategyUnderTest) -> None:
    """Simulates twice: the same happens at the same times, with deaths and without."""
    for order in ORDERS:
        for faults in ((), DEATHS):
            run = partial(
                subject.simulate,
                Random(),
                8,
                order=order,
                node_seconds=SLOW_NODES,
                faults=faults,
                seed=3,
            )
            first, again = run(), run()
            agree(f"the trace of a {order} search, simulated twice, is", again.trace, first.trace)
            agree(f"a {order} search, simulated twice, is", again, first)
            agree_on_answers(f"{order} with {len(faults)} deaths", first, expected(Random()))


async def any_number_of_seats(subject: StrategyUnderTest) -> None:
    """Simulates one worker, a few, and far more than there are subtrees."""
    for workers in (1, 2, 3, 17, 512):
        _rehearse(subject, Random(), workers, node_seconds=SLOW_NODES)
        _rehearse(subject, Spine(depth=40), workers, node_seconds=SLOW_NODES)
    # Subtrees that cost less than a message: dealing them out one by one would take for ever
    _rehearse(subject, Tiny(10_000), 16)


async def everybody_works(subject: StrategyUnderTest) -> None:
    """Simulates wide trees, with solutions everywhere and with none: nobody is left out."""
    trees = (Balanced(4, 5, every=10_000), Plenty(4, 5))
    for problem, node_seconds in product(trees, LONG_NODES):
        run = subject.simulate(problem, WORKERS, node_seconds=node_seconds)
        what = f"{problem} with nodes of {node_seconds} s"
        agree_on_answers(what, run, expected(problem))
        for seat, worker in enumerate(run.workers):
            if worker.nodes < FAIR * run.nodes:
                raise AssertionError(
                    f"{what}: worker {seat} of {WORKERS} explored {worker.nodes} of {run.nodes} "
                    "nodes, and there was work for all"
                )


async def any_latency(subject: StrategyUnderTest) -> None:
    """Simulates messages that take no time, and messages that always come too late."""
    for order in ORDERS:
        # The last one is as long as three hundred nodes: whatever is asked for comes too late
        for latency in (0.0, 1e-5, 0.03):
            options = {"order": order, "latency": latency, "node_seconds": SLOW_NODES}
            _rehearse(subject, Random(), 5, **options)


async def any_death(subject: StrategyUnderTest) -> None:
    """Simulates workers that die at many times: before, while and after they get work."""
    # In milliseconds: before the first task arrives, with the first tasks, and in the middle
    for worker, when in product(range(3), (0, 2, 9, 25, 60)):
        fault = Death(when * 1e-3, worker, back=0.01)
        _rehearse(subject, Random(), 3, node_seconds=SLOW_NODES, faults=(fault,))
    _rehearse(subject, Random(), 8, node_seconds=SLOW_NODES, faults=DEATHS)
    _rehearse(subject, Grid(), 8, node_seconds=SLOW_NODES, faults=DEATHS)


async def any_limit(subject: StrategyUnderTest) -> None:
    """Simulates `node_limit`s below what each seat gets and far above: they hold to the node."""
    whole = expected(Random()).nodes
    # 63 and 65 are on either side of the smallest grant of a coordinator
    for workers, limit in product((1, 3, 8), (1, 2, 63, 65, 500, 777, 2_000, whole, 2 * whole)):
        run = partial(subject.simulate, Random(), workers, node_limit=limit)
        what = f"nodes explored by {workers} virtual workers, limited to {limit},"
        agree(what, run().nodes, min(limit, whole))
        agree(what, run(node_seconds=SLOW_NODES).nodes, min(limit, whole))


def _rehearse(
    subject: StrategyUnderTest, problem: AnyProblem, workers: int, **options: Any
) -> None:
    said = ", ".join(f"{name}={value}" for name, value in options.items())
    what = f"{problem} on {workers} virtual workers, {said}"
    agree_on_answers(what, subject.simulate(problem, workers, **options), expected(problem))
