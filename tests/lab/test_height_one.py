"""The split of Mirage's parallel search: cut at depth one, dealt out once, no help after."""

from __future__ import annotations

from aiosearch.lab.static_split import HeightOne
from aiosearch.strategies import Assign, Command, Idle, Lost, Opened, Plan, Task
from aiosearch.testing import simulate
from aiosearch.testing.problems import Balanced
from aiosearch.workloads import Lopsided


def task(id: int, depth: int = 1, rank: int = 0) -> Task:
    return Task(id, 1, depth, 0.0, rank)


def started(workers: int = 2) -> HeightOne:
    """A strategy whose first worker is cutting the root."""
    made = HeightOne(workers)
    made.start(Plan(workers, ordered=False))
    list(made.handle(Opened((task(1, depth=0),))))
    assert list(made.handle(Idle(0))) == [Assign(0, (1,), depth=1)]
    return made


def test_the_pieces_are_dealt_in_turn_when_the_root_is_cut() -> None:
    made = started()
    assert list(made.handle(Idle(1))) == []
    assert list(made.handle(Opened(tuple(map(task, (2, 3, 4))), worker=0))) == []
    assert list(made.handle(Idle(0))) == [Assign(0, (2, 4)), Assign(1, (3,))]


def test_who_is_done_gets_no_more_while_others_work() -> None:
    made = started()
    list(made.handle(Opened(tuple(map(task, (2, 3))), worker=0)))
    commands: list[Command] = [*made.handle(Idle(0)), *made.handle(Idle(1))]
    assert commands == [Assign(0, (2,)), Assign(1, (3,))]
    assert list(made.handle(Idle(1))) == []


def test_what_a_lost_worker_held_waits_for_the_next_one_in_its_worker() -> None:
    made = started()
    list(made.handle(Opened(tuple(map(task, (2, 3))), worker=0)))
    list(made.handle(Idle(0)))
    list(made.handle(Idle(1)))
    list(made.handle(Lost(1)))
    assert list(made.handle(Opened((task(4, depth=3),), worker=1))) == []
    assert list(made.handle(Idle(1))) == [Assign(1, (4,))]


def test_later_ranks_wait_until_the_earlier_are_done() -> None:
    made = started(1)
    list(made.handle(Opened((task(2, rank=1), task(3)), worker=0)))
    assert list(made.handle(Idle(0))) == [Assign(0, (3,))]
    assert list(made.handle(Idle(0))) == [Assign(0, (2,))]


def test_a_lopsided_tree_keeps_one_worker_busy_and_the_others_idle() -> None:
    tree = Lopsided(spine=200, height=16)
    run = simulate(HeightOne(), tree, 4, node_seconds=20e-6)
    assert run.nodes == tree.nodes
    assert run.balance < 0.3


def test_a_balanced_tree_is_explored_by_all() -> None:
    run = simulate(HeightOne(), Balanced(), 2, node_seconds=20e-6)
    assert all(worker.nodes for worker in run.workers)
