"""A lock lets one through at a time, and those who wait make it slower."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from aiosearch.checks import Status, Verdict
from aiosearch.problem import Obligation
from aiosearch.testing import simulate
from aiosearch.testing.problems import Balanced
from aiosearch.testing.virtual.verifier import Gate


@dataclass(frozen=True)
class Asking(Balanced):
    """Each node at the last level has a question of its own."""

    def obligation(self, node: tuple[int, int]) -> Obligation | None:
        level, number = node
        return Obligation(f"question {number}") if level == self.depth else None


class Clock:
    """Does what is due, one after the other."""

    def __init__(self) -> None:
        self.now = 0
        self.due: list[tuple[int, Callable[[], None]]] = []
        self.ends: list[int] = []

    def after(self, takes: int, then: Callable[[], None]) -> None:
        self.due.append((self.now + takes, then))

    def end(self) -> None:
        self.ends.append(self.now)

    def play(self) -> list[int]:
        while self.due:
            self.due.sort(key=lambda entry: entry[0])
            self.now, then = self.due.pop(0)
            then()
        return self.ends


@pytest.mark.parametrize(("contention", "ends"), [(0.0, [100, 200, 300]), (0.1, [100, 210, 310])])
def test_one_goes_in_at_a_time_and_is_slowed_by_those_that_wait(
    contention: float, ends: list[int]
) -> None:
    """Nobody waits yet when the first goes in, one when the second does, none at the third."""
    clock = Clock()
    gate = Gate(contention, clock.after)
    for _ in range(3):
        gate.enter(100, clock.end)
    assert clock.play() == ends


def test_a_lock_around_all_of_z3_is_one_z3() -> None:
    locked, alone = (_seconds(checkers, locked) for checkers, locked in ((4, 1.0), (1, 0.0)))
    assert locked == pytest.approx(alone)


def test_a_lock_around_a_part_of_z3_costs_less_than_one_around_all_of_it() -> None:
    free, part, whole = (_seconds(4, locked) for locked in (0.0, 0.5, 1.0))
    assert free < part < whole
    assert _seconds(4, 1.0, contention=0.5) > whole


def _seconds(checkers: int, locked: float, contention: float = 0.0) -> float:
    def verdict(obligation: Obligation) -> Verdict:
        return Verdict(Status.PROVED, seconds=0.1)

    return simulate(
        "queue",
        Asking(2, 5),
        4,
        latency=0.0,
        checkers=checkers,
        verdict=verdict,
        locked=locked,
        contention=contention,
    ).seconds
