"""What every strategy has to pass; `pytest` runs it in about a minute."""

from __future__ import annotations

from aiosearch.testing import strategy_suite
from aiosearch_newest import Newest

TestNewest = strategy_suite(Newest)
