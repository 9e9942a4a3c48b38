"""Node rate of one worker against plain recursion over the same `expand` and `solutions`.

CPU time of one process each, in turns, so that a busy machine slows both. The ratio is the median
of the pairs; A/A is the recursion against itself.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable
from typing import Any

from lib.figures import cpu_seconds, figure, spread

from aiosearch.engine.explore.bundles import ROOT, Codec
from aiosearch.engine.explore.explorer import DepthFirstExplorer, Explorer, clock
from aiosearch.engine.explore.heap_explorer import HeapExplorer
from aiosearch.engine.wire.reference import return_type
from aiosearch.orders import DepthFirst
from aiosearch.workloads.queens import Queens
from aiosearch.workloads.uts import TREES

SLICE_NS = 2_000_000
REPEATS = 5


def recursion(problem: Any) -> int:
    """What a user would write: the same calls, without an engine."""
    expand, solutions = problem.expand, problem.solutions
    found: list[Any] = []

    def walk(node: Any) -> int:
        nodes = 1
        for solution in solutions(node):
            found.append(solution)
        for child in expand(node):
            nodes += walk(child)
        return nodes

    return walk(problem.root())


def engine(problem: Any) -> int:
    """The engine's own loop, in the slices that a worker takes."""
    return explored(DepthFirstExplorer(problem, codec_of(problem)))


def heap(problem: Any) -> int:
    """The explorer that serves every other order, here in depth-first order."""
    return explored(
        HeapExplorer(
            problem,
            codec_of(problem),
            skip_errors=False,
            order=DepthFirst(),
            claims=None,
            ask=lambda *question: None,
            digest=lambda obligation: b"",
            on_unknown="defer",
        )
    )


def codec_of(problem: Any) -> Codec[Any]:
    return Codec(type(problem).__qualname__, return_type(problem, "root"))


def explored(explorer: Explorer[Any]) -> int:
    explorer.load(ROOT)
    while not explorer.empty:
        explorer.run(clock() + SLICE_NS, 1 << 60)
    return explorer.counts.nodes


def compare(name: str, problem: Any, explore: Callable[[Any], int], target: float) -> None:
    nodes = recursion(problem)
    assert explore(problem) == nodes
    ratios, noise, rates = [], [], []
    for _ in range(REPEATS):
        plain = cpu_seconds(lambda: recursion(problem))
        ours = cpu_seconds(lambda: explore(problem))
        again = cpu_seconds(lambda: recursion(problem))
        ratios.append((plain + again) / 2 / ours)
        noise.append(plain / again)
        rates.append(nodes / ours)
    figure(
        f"nodes per CPU second, one worker, against plain recursion: {name}",
        statistics.median(ratios),
        "ratio",
        target=target,
        ratio=spread(ratios),
        noise=spread(noise),
        nodes=nodes,
        nodes_per_second=round(statistics.median(rates)),
    )


def main() -> None:
    sys.setrecursionlimit(10_000)
    compare("UTS T1 (geometric, 4.1 million nodes)", TREES["T1"].problem, engine, 0.90)
    compare("UTS T3 (binomial, 4.1 million nodes)", TREES["T3"].problem, engine, 0.90)
    compare("11 queens", Queens(11), engine, 0.90)
    compare("11 queens, on the heap", Queens(11), heap, 0.20)


if __name__ == "__main__":
    main()
