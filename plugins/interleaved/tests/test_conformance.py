"""Static interleaving passes what every strategy has to pass."""

from __future__ import annotations

import pytest

from aiosearch.testing import strategy_suite
from aiosearch.testing.suites.conformance import CHECKS, Check
from aiosearch.testing.suites.subject import StrategyUnderTest

TestInterleaved = strategy_suite("interleaved")
FEW = [check for check in CHECKS if not check.name.endswith(("-1-workers", "-8-workers"))]


@pytest.mark.parametrize("check", FEW, ids=lambda check: check.name)
async def test_cut_deeper_it_conforms_too(check: Check) -> None:
    """With other processes, and without."""
    await check.run(StrategyUnderTest("interleaved", {"depth": 4}))
