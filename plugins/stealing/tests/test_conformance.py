"""Stealing passes what every strategy has to pass."""

from __future__ import annotations

from aiosearch.testing import strategy_suite

TestStealing = strategy_suite("stealing")
