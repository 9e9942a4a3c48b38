"""Compares strategies on a virtual clock: the engine's own code, and no processes.

How much of the time of 16 workers is spent exploring, in a tree whose nodes take 20 µs each:

    Queue: ... of the time, ... messages, 16 workers are ... times as fast as one
    Newest: ... of the time, ... messages, 16 workers are ... times as fast as one
"""

from __future__ import annotations

from aiosearch.strategies import Strategy
from aiosearch.strategies.queue import Queue
from aiosearch.testing import simulate
from aiosearch.workloads.shapes import Lopsided
from aiosearch_newest import Newest

PROBLEM = Lopsided(height=30)
NODE_SECONDS = 20e-6


def show(strategy: Strategy) -> None:
    run = simulate(strategy, PROBLEM, workers=16, node_seconds=NODE_SECONDS)
    faster = PROBLEM.nodes * NODE_SECONDS / run.seconds
    print(
        f"{type(strategy).__name__}: {run.efficiency:.0%} of the time, {run.messages} messages, "
        f"16 workers are {faster:.1f} times as fast as one"
    )


if __name__ == "__main__":
    show(Queue())
    show(Newest())
