"""Static interleaving passes what every strategy has to pass."""

from __future__ import annotations

from aiosearch.testing import strategy_suite

TestInterleaved = strategy_suite("interleaved")
TestInterleavedDeeper = strategy_suite("interleaved", depth=4)
