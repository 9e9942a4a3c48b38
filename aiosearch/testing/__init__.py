"""For those who write strategies and problems: simulation, conformance checks, a leak checker."""

from __future__ import annotations

from .simulation import Simulation, simulate
from .simulator import Death

__all__ = ["Death", "Simulation", "simulate"]
