"""Which processes may die of what they run."""

from __future__ import annotations

import pytest

from aiosearch.measure.worker import expendable


def test_a_users_process_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only a process that says so may die of what it runs."""
    monkeypatch.setattr(expendable, "_expendable", False)
    assert not expendable.is_expendable()
    expendable.become_expendable()
    assert expendable.is_expendable()
