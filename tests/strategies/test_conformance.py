"""The default strategy passes what every strategy has to pass."""

from __future__ import annotations

from aiosearch.testing import strategy_suite

TestQueue = strategy_suite("queue")
