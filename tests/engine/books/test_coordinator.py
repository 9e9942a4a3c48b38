from __future__ import annotations

from collections.abc import Iterable, Iterator

import pytest
from aiosearch_stealing.board import SharedBoard
from broken_boards import Names

from aiosearch.errors import StrategyError
from aiosearch.strategies import (
    API,
    Ask,
    Assign,
    Command,
    Event,
    Idle,
    Opened,
    Plan,
    Reported,
    Task,
)
from aiosearch.testing import expected, simulate
from aiosearch.testing.problems import Balanced, Random


class OnTop:
    """Assigns to seats that are busy already, as a strategy that fetches ahead would."""

    api = API

    def start(self, plan: Plan) -> None:
        self._seats = plan.workers
        self._next = 0
        self._seen: set[int] = set()
        self._tasks: list[Task] = []

    def handle(self, event: Event) -> Iterable[Command]:
        match event:
            case Idle(worker=seat):
                self._seen.add(seat)
            case Opened(tasks=tasks):
                self._tasks += tasks
            case Reported(worker=seat, surplus=surplus) if surplus:
                yield Ask(seat)
        if len(self._seen) == self._seats:
            yield from self._deal()

    def _deal(self) -> Iterator[Command]:
        while self._tasks:
            self._next = (self._next + 1) % self._seats
            yield Assign(self._next, (self._tasks.pop().id,), depth=self._next % 2)


@pytest.mark.parametrize("problem", [Balanced(depth=8), Random(seed=4), Random(seed=9)])
@pytest.mark.parametrize("workers", [1, 2, 5])
@pytest.mark.parametrize("latency", [1e-5, 3e-3])
def test_work_that_crosses_a_report_is_not_lost(
    problem: Balanced | Random, workers: int, latency: float
) -> None:
    """A report says nothing of tasks that were on their way when it was written."""
    outcome = simulate(OnTop(), problem, workers=workers, latency=latency, node_seconds=1e-5)
    plain = expected(problem)
    assert outcome.nodes == plain.nodes
    assert sorted(outcome.solutions) == sorted(plain.solutions)


class Lingers(OnTop):
    """Hands work out for a time that is none."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def _deal(self) -> Iterator[Command]:
        while self._tasks:
            yield Assign(0, (self._tasks.pop().id,), self._seconds)


@pytest.mark.parametrize("seconds", [-1.0, float("nan"), float("inf")])
def test_work_is_handed_out_for_a_time_that_there_is(seconds: float) -> None:
    with pytest.raises(StrategyError, match=f"Lingers assigned work for {seconds} seconds"):
        simulate(Lingers(seconds), Balanced(), workers=1)


def test_an_exchange_of_none_is_no_exchange() -> None:
    assert simulate(Names(None), Balanced(), workers=2).nodes == expected(Balanced()).nodes


def test_an_exchange_is_given_by_its_name() -> None:
    complaint = "Names gives .*SharedBoard.* for its exchange; name it as 'module:Class'"
    with pytest.raises(StrategyError, match=complaint):
        simulate(Names(SharedBoard), Balanced(), workers=2)
