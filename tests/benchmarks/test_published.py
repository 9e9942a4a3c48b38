"""The lock that the study's speed-ups tell of."""

from __future__ import annotations

import lib.engine.published as published
import pytest


def law(workers: int, lock: published.Lock) -> float:
    share = lock.share * (workers - 1) * (1 + lock.contention * workers)
    return workers / (1 + share)


def test_every_program_has_a_speed_up_for_each_number_of_workers() -> None:
    for table in (published.THREADS, published.RANKS):
        assert all(len(speedups) == len(published.WORKERS) for speedups in table.values())


def test_with_the_fitted_lock_speed_up_rises_to_a_peak_and_falls() -> None:
    """As theirs: some 32 threads are best, and 96 are worse."""
    lock = published.lock()
    speedups = {workers: law(workers, lock) for workers in (1, *published.WORKERS)}
    assert speedups[1] == 1.0
    assert max(speedups, key=speedups.__getitem__) in (16, 32, 64)
    assert speedups[96] < max(speedups.values())


def test_the_fit_finds_a_lock_again(monkeypatch: pytest.MonkeyPatch) -> None:
    made = published.Lock(0.03, 0.02)
    points = tuple(law(workers, made) for workers in published.WORKERS)
    monkeypatch.setattr(published, "THREADS", {"made": points})
    found = published.lock()
    assert (found.share, found.contention) == pytest.approx((made.share, made.contention))
