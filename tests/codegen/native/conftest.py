"""Kernels that are known to be harmless are tried out in the process of the test itself."""

from __future__ import annotations

import pytest


@pytest.fixture
def expendable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Has this process be one that may die of a kernel."""
    monkeypatch.setattr("aiosearch.measure.worker.expendable._expendable", True)
