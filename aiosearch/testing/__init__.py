"""For those who write strategies, problems or executors: simulation, conformance, leaks."""

from __future__ import annotations

from .conformance import check_strategy, strategy_suite
from .executors import check_executor, executor_suite
from .expected import Expected, expected
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
