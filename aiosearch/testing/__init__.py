"""For those who write strategies and problems: simulation, conformance checks, a leak checker."""

from __future__ import annotations

from .conformance import check_strategy, strategy_suite
from .expected import Expected, expected
from .leaks import no_leaks
from .simulation import Simulation, simulate
from .simulator import Death

__all__ = [
    "Death",
    "Expected",
    "Simulation",
    "check_strategy",
    "expected",
    "no_leaks",
    "simulate",
    "strategy_suite",
]
