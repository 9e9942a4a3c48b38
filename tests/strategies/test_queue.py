"""The queue deals the best task to whoever is idle, and asks before it runs dry.

Whoever holds most is taken first, by what is known now.
"""

from __future__ import annotations

from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiosearch.strategies import (
    Ask,
    Assign,
    Command,
    Event,
    Idle,
    Joined,
    Lost,
    Opened,
    Plan,
    Reported,
    Task,
)
from aiosearch.strategies.queue import LONGEST, MOST_AT_ONCE, MOST_READY, SHORTEST, Holders, Queue
from aiosearch.testing import strategy_suite

TestQueue = strategy_suite("queue")


def queue(*events: Event, workers: int = 4, ordered: bool = False) -> Queue:
    """A queue to which all this has happened."""
    started = Queue()
    started.start(Plan(workers, ordered))
    for event in events:
        list(started.handle(event))
    return started


def tell(strategy: Queue, *events: Event) -> list[Command]:
    return [command for event in events for command in strategy.handle(event)]


def task(id: int, priority: float = 0.0, rank: int = 0, size: int = 1) -> Task:
    return Task(id, size, 0, priority, rank)


def assigned(strategy: Queue, *events: Event) -> list[Assign]:
    return [command for command in tell(strategy, *events) if isinstance(command, Assign)]


def opened(*tasks: Task, worker: int | None = None) -> Opened:
    return Opened(tasks, worker)


def test_a_task_waits_for_a_seat_and_a_seat_for_a_task() -> None:
    assert tell(queue(opened(task(1))), Idle(2)) == [Assign(2, (1,))]
    assert tell(queue(Idle(2)), opened(task(1)))[0] == Assign(2, (1,))


def test_seats_are_served_in_the_order_in_which_they_became_idle() -> None:
    strategy = queue(Idle(3), Idle(1), Idle(3))
    assert assigned(strategy, opened(task(7), task(8))) == [Assign(3, (7,)), Assign(1, (8,))]


def test_the_most_promising_task_goes_first_and_what_was_put_off_last() -> None:
    waiting = opened(task(1, 0.5), task(2, 0.1, rank=1), task(3, 0.2), task(4, 0.2))
    strategy = queue(waiting)
    dealt = [assigned(strategy, Idle(worker)) for worker in range(3)]
    assert dealt == [[Assign(worker, (id,))] for worker, id in enumerate((3, 4, 1))]
    assert [assigned(strategy, Idle(worker)) for worker in (0, 1)] == [[], []]
    assert assigned(strategy, Idle(2)) == [Assign(0, (2,))]


def test_what_was_put_off_never_goes_with_the_rest() -> None:
    many = opened(*(task(id, rank=id % 2) for id in range(4)))
    strategy = queue(many, workers=1)
    dealt = [assigned(strategy, Idle(0)) for _ in range(3)]
    assert dealt == [[Assign(0, (0, 2))], [Assign(0, (1,))], [Assign(0, (3,))]]


def test_several_tasks_go_together_when_there_are_many_for_every_worker() -> None:
    strategy = queue(opened(*map(task, range(40))), workers=4)
    assert tell(strategy, Idle(0)) == [Assign(0, tuple(range(5)))]
    crowded = queue(opened(*map(task, range(1_000))), workers=1)
    assert tell(crowded, Idle(0)) == [Assign(0, tuple(range(MOST_AT_ONCE)))]


def test_a_busy_seat_is_asked_once_until_it_answers() -> None:
    strategy = queue(Idle(0), opened(task(1)), workers=2)
    assert tell(strategy, Idle(1)) == [Ask(0)]
    assert tell(strategy, Reported(0, surplus=9), Reported(0, surplus=9)) == []
    assert tell(strategy, opened(task(2), worker=0)) == [Assign(1, (2,)), Ask(0)]


def test_the_seat_with_the_most_is_asked_first() -> None:
    three = opened(task(1), task(2), task(3))
    strategy = queue(Idle(0), Idle(1), Idle(2), three, opened(task(4), task(5)), workers=3)
    assert tell(strategy, Reported(0, 0), Reported(1, 5)) == [Ask(1)]


def test_of_several_seats_the_one_with_the_greatest_share_of_the_tree_is_asked_first() -> None:
    ready = opened(task(4), task(5), task(6), task(7))
    strategy = queue(*map(Idle, range(4)), opened(*map(task, range(4))), ready)
    tell(strategy, Reported(0, 9, 0.1), Reported(1, 2, 0.5), Reported(2, 5, 0.3))
    assert tell(strategy, Idle(3)) == [Assign(3, (4,)), Ask(1)]
    assert tell(strategy, Idle(3)) == [Assign(3, (5,)), Ask(2)]


@pytest.mark.parametrize(("host", "asked"), [("", 4), ("far away", 6)])
def test_for_seats_of_other_machines_a_second_task_lies_ready(host: str, asked: int) -> None:
    joined = [Joined(worker, host) for worker in (4, 5)]
    strategy = queue(*map(Idle, range(6)), *joined, opened(*map(task, range(8))))
    told = tell(strategy, *(Reported(worker, 9) for worker in range(6)))
    assert sum(isinstance(command, Ask) for command in told) == asked


def test_only_so_many_seats_are_asked_as_tasks_are_lacking() -> None:
    """With a thousand workers, a few idle ones do not make everybody part with something."""
    workers = 1000
    many = opened(*map(task, range(workers)))
    strategy = queue(*map(Idle, range(workers)), many, workers=workers)
    assert len(tell(strategy, Idle(0), Idle(workers - 1))) == MOST_READY + 2


def test_whoever_reports_a_surplus_is_asked_where_those_asked_before_cannot_answer() -> None:
    workers = 2 * MOST_READY
    many = opened(*map(task, range(workers)))
    strategy = queue(*map(Idle, range(workers)), many, Idle(0), workers=workers)
    busy = [
        worker
        for worker in range(1, workers)
        if tell(strategy, Reported(worker, 3)) == [Ask(worker)]
    ]
    assert len(busy) == workers - 1 - (MOST_READY + 1)


def test_a_full_queue_asks_nobody() -> None:
    strategy = queue(Idle(0), opened(task(1)), opened(task(2), task(3)), workers=2)
    assert tell(strategy, Reported(0, surplus=100)) == []


def test_the_only_seat_is_never_asked() -> None:
    assert tell(queue(Idle(0), workers=1), opened(task(1)), Reported(0, 100)) == [Assign(0, (1,))]


def test_only_an_ordered_search_of_several_seats_has_work_come_back() -> None:
    def seconds(workers: int, ordered: bool) -> float:
        (command,) = assigned(queue(Idle(0), workers=workers, ordered=ordered), opened(task(1)))
        return command.seconds

    assert seconds(4, ordered=True) == SHORTEST
    assert seconds(4, ordered=False) == seconds(1, ordered=True) == 0.0


@pytest.mark.parametrize(("size", "wanted"), [(1, SHORTEST), (5_000, 0.25), (10**9, LONGEST)])
def test_the_more_comes_back_the_longer_work_stays_away(size: int, wanted: float) -> None:
    strategy = queue(Idle(0), opened(task(0)), ordered=True)
    for id in range(1, 60):
        (last,) = assigned(strategy, opened(task(id, size=size), worker=0), Idle(0))
    assert last.seconds == pytest.approx(wanted, rel=0.01)


def test_a_lost_seat_gets_nothing_until_it_is_back() -> None:
    strategy = queue(Idle(0), Lost(0))
    assert tell(strategy, opened(task(1), worker=0)) == []
    assert tell(strategy, Idle(0)) == [Assign(0, (1,))]


def test_a_lost_seat_is_asked_again_when_it_is_back() -> None:
    strategy = queue(Idle(0), opened(task(1)), Idle(1), Lost(0), workers=2)
    assert tell(strategy, opened(task(1), worker=0), Idle(0)) == [Assign(1, (1,)), Ask(1)]


@given(st.lists(st.tuples(st.sampled_from("oilr"), st.integers(0, 3)), max_size=60))
def test_whatever_happens_each_task_goes_once_to_a_seat_that_was_idle(
    story: list[tuple[str, int]],
) -> None:
    strategy, ids = queue(), count()
    idle: set[int] = set()
    free: set[int] = set()
    for what, worker in story:
        events: dict[str, Event] = {
            "o": opened(*(task(next(ids), worker) for _ in range(worker))),
            "i": Idle(worker),
            "l": Lost(worker),
            "r": Reported(worker, worker),
        }
        event = events[what]
        if isinstance(event, Opened):
            free |= {each.id for each in event.tasks}
        elif isinstance(event, Idle):
            idle.add(worker)
        elif isinstance(event, Lost):
            idle.discard(worker)
        for command in strategy.handle(event):
            if isinstance(command, Assign):
                assert command.worker in idle
                assert free >= set(command.tasks)
                idle.discard(command.worker)
                free -= set(command.tasks)
        assert not (idle and free)


def test_the_heaviest_seat_is_taken_first_and_once() -> None:
    holders = Holders()
    for worker, weight in enumerate((0.1, 0.5, 0.2)):
        holders.hold(worker, weight)
    assert [holders.heaviest(rich=False) for _ in range(4)] == [1, 2, 0, None]


def test_only_seats_with_a_surplus_are_rich() -> None:
    holders = Holders()
    holders.hold(0, 0.5)
    holders.hold(1, 0.2, surplus=2)
    assert [holders.heaviest(rich=True) for _ in range(2)] == [1, None]


def test_a_seat_that_parted_with_some_weighs_what_is_left() -> None:
    holders = Holders()
    holders.hold(0, 0.5, surplus=9)
    holders.hold(1, 0.3, surplus=9)
    holders.part(0, 0.4, 5)
    assert holders.heaviest(rich=True) == 1
    assert holders.heaviest(rich=True) == 0


def test_a_seat_that_holds_nothing_is_nobody() -> None:
    holders = Holders()
    holders.hold(0, 0.5, surplus=9)
    holders.drop(0)
    holders.part(0, 0.1, 1)
    assert 0 not in holders
    assert holders.heaviest(rich=False) is None


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 9)), max_size=400))
def test_the_last_word_counts_however_often_a_seat_is_told(
    story: list[tuple[int, int]],
) -> None:
    holders = Holders()
    last: dict[int, int] = {}
    for worker, weight in story:
        holders.hold(worker, float(weight))
        last[worker] = weight
    taken = list(iter(lambda: holders.heaviest(rich=False), None))
    assert set(taken) == set(last)
    first_seen = list(dict.fromkeys(taken))
    assert [last[worker] for worker in first_seen] == sorted(last.values(), reverse=True)
