"""What `sockets` is inside of each machine passes what every strategy has to pass."""

from __future__ import annotations

from aiosearch.testing import strategy_suite

TestSockets = strategy_suite("sockets")
