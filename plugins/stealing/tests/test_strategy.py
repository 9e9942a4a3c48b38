"""What the host still deals out, on the virtual clock."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from aiosearch_stealing import Stealing

from aiosearch.strategies import Ask, Assign, Command, Idle, Joined, Opened, Plan, Reported, Task
from aiosearch.testing import expected, simulate
from aiosearch.testing.problems import Random


def started(workers: int, ordered: bool = False) -> Stealing:
    strategy = Stealing()
    strategy.start(Plan(workers, ordered))
    return strategy


def join(strategy: Stealing, worker: int, host: str = "") -> list[Command]:
    return [*strategy.handle(Joined(worker, host)), *strategy.handle(Idle(worker))]


def opened(strategy: Stealing, *ids: int) -> list[Command]:
    return list(strategy.handle(Opened(tuple(Task(id, 1, 0, 0.0, 0, 0.1) for id in ids))))


def asked(commands: Iterable[Command]) -> list[int]:
    return [command.worker for command in commands if isinstance(command, Ask)]


@pytest.mark.parametrize("ordered", [False, True])
def test_there_is_an_exchange_unless_the_order_compares_all_subtrees(ordered: bool) -> None:
    assert (started(2, ordered).exchange == "") == ordered


def test_an_order_that_compares_is_searched_just_as_the_queue_does() -> None:
    ours, theirs = (
        simulate(name, Random(), 3, order="best-first", node_seconds=1e-4)
        for name in ("stealing", "queue")
    )
    assert ours.trace == theirs.trace
    assert ours.nodes == expected(Random()).nodes


def test_workers_of_one_machine_are_not_asked_for_anything() -> None:
    strategy = started(2)
    commands = [*join(strategy, 0), *join(strategy, 1), *opened(strategy, 1)]
    commands += strategy.handle(Reported(0, surplus=50, weight=0.9))
    assert [type(command) for command in commands] == [Assign]


def test_a_worker_that_took_something_is_not_idle_any_more() -> None:
    strategy = started(2)
    join(strategy, 0)
    join(strategy, 1)
    opened(strategy, 1)
    list(strategy.handle(Reported(1, surplus=3, weight=0.4)))
    assert opened(strategy, 2) == []
    (assign,) = strategy.handle(Idle(0))
    assert assign == Assign(0, (2,), 0.0)


def test_another_machine_gets_its_work_from_the_host() -> None:
    strategy = started(1)
    join(strategy, 0)
    opened(strategy, 1)
    assert asked(join(strategy, 1, "elsewhere")) == [0]
