"""For those who write strategies, problems or executors: simulation, conformance, leaks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._lazy import lazily

if TYPE_CHECKING:
    from .conformance import check_strategy, strategy_suite
    from .executors import check_executor, executor_suite
    from .expectation import Expected, expected
    from .leaks import no_leaks
    from .simulation import Simulation, simulate
    from .simulator import Death

__all__ = [
    "Death",
    "Expected",
    "Simulation",
    "check_executor",
    "check_strategy",
    "executor_suite",
    "expected",
    "no_leaks",
    "simulate",
    "strategy_suite",
]

__getattr__ = lazily(
    __name__,
    {
        "Death": ".simulator",
        "Expected": ".expectation",
        "Simulation": ".simulation",
        "check_executor": ".executors",
        "check_strategy": ".conformance",
        "executor_suite": ".executors",
        "expected": ".expectation",
        "no_leaks": ".leaks",
        "simulate": ".simulation",
        "strategy_suite": ".conformance",
    },
)
