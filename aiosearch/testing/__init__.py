"""For tests: `assert_equal` of two functions; and for those who write strategies, problems or
executors, `simulate`, conformance suites and `no_leaks`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._lazy import lazily

if TYPE_CHECKING:
    from .equality import assert_equal
    from .leaks import no_leaks
    from .suites.conformance import check_strategy, strategy_suite
    from .suites.executors import check_executor, executor_suite
    from .suites.subject import Expected, expected
    from .virtual.simulation import Simulation, simulate
    from .virtual.simulator import Death

__all__ = [
    "Death",
    "Expected",
    "Simulation",
    "assert_equal",
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
        "Death": ".virtual.simulator",
        "Expected": ".suites.subject",
        "Simulation": ".virtual.simulation",
        "assert_equal": ".equality",
        "check_executor": ".suites.executors",
        "check_strategy": ".suites.conformance",
        "executor_suite": ".suites.executors",
        "expected": ".suites.subject",
        "no_leaks": ".leaks",
        "simulate": ".virtual.simulation",
        "strategy_suite": ".suites.conformance",
    },
)
