from __future__ import annotations

from collections.abc import Iterable, Iterator

import pytest

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
        self._seats = plan.seats
        self._next = 0
        self._seen: set[int] = set()
        self._tasks: list[Task] = []

    def handle(self, event: Event) -> Iterable[Command]:
        match event:
            case Idle(seat=seat):
                self._seen.add(seat)
            case Opened(tasks=tasks):
                self._tasks += tasks
            case Reported(seat=seat, surplus=surplus) if surplus:
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
