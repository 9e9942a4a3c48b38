"""Interleaved splits the tree once, and subtree i belongs to worker i mod n ever after."""

from __future__ import annotations

import pytest
from aiosearch_interleaved import Interleaved

from aiosearch import StrategyError
from aiosearch.strategies import (
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
    find_strategy,
)

ROOT = Task(1, 1, 0, 0.0, 0)


def started(workers: int = 3, depth: int = 1) -> Interleaved:
    strategy = Interleaved(depth=depth)
    strategy.start(Plan(workers, ordered=False))
    return strategy


def tell(strategy: Interleaved, *events: Event) -> list[Command]:
    return [command for event in events for command in strategy.handle(event)]


def tasks(*ids: int, depth: int = 1, rank: int = 0) -> tuple[Task, ...]:
    return tuple(Task(id, 1, depth, 0.0, rank) for id in ids)


def split(strategy: Interleaved, workers: int, subtrees: int, depth: int = 1) -> list[Command]:
    """Lets worker 0 split the root; subtree i is task 10 + i."""
    tell(strategy, Opened((ROOT,)), *map(Idle, range(workers)))
    came = tasks(*range(10, 10 + subtrees), depth=depth)
    return tell(strategy, Opened(came, 0), Idle(0))


def test_seat_0_splits_the_root_whoever_comes_first() -> None:
    strategy = started(depth=2)
    assert tell(strategy, Opened((ROOT,)), Idle(2), Idle(1)) == []
    assert tell(strategy, Idle(0)) == [Assign(0, (1,), depth=2)]


def test_subtree_i_goes_to_seat_i_mod_n() -> None:
    assert split(started(), workers=3, subtrees=8) == [
        Assign(0, (10, 13, 16)),
        Assign(1, (11, 14, 17)),
        Assign(2, (12, 15)),
    ]


def test_nobody_gets_anything_before_everything_is_split() -> None:
    strategy = started()
    tell(strategy, Opened((ROOT,)), Idle(0), Idle(1), Idle(2))
    assert tell(strategy, Opened(tasks(10, 11), 0), Reported(0, 5)) == []
    assert tell(strategy, Opened(tasks(12), 0), Idle(0)) == [
        Assign(0, (10,)),
        Assign(1, (11,)),
        Assign(2, (12,)),
    ]


def test_what_comes_back_too_shallow_is_split_again() -> None:
    strategy = started(depth=3)
    tell(strategy, Opened((ROOT,)), Idle(0))
    came = tell(strategy, Opened(tasks(10, 11, depth=1), 0), Idle(0))
    assert came == [Assign(0, (10, 11), depth=3)]


def test_a_seat_is_left_alone_with_its_share() -> None:
    strategy = started()
    split(strategy, workers=3, subtrees=6)
    assert tell(strategy, Reported(0, 100), Reported(1, 0), Idle(2)) == []


def test_what_a_seat_gives_back_stays_its_own() -> None:
    strategy = started()
    split(strategy, workers=3, subtrees=6)
    assert tell(strategy, Opened(tasks(20, 21, depth=0), 1), Idle(2)) == []
    assert tell(strategy, Idle(1)) == [Assign(1, (20, 21))]


def test_what_was_put_off_comes_after_the_rest() -> None:
    strategy = started()
    split(strategy, workers=3, subtrees=3)
    tell(strategy, Opened((*tasks(20, rank=1), *tasks(21)), 1))
    assert tell(strategy, Idle(1)) == [Assign(1, (21,))]
    assert tell(strategy, Idle(1)) == [Assign(1, (20,))]


def test_a_dead_workers_share_waits_for_the_next_one_in_its_worker() -> None:
    strategy = started()
    split(strategy, workers=3, subtrees=3)
    assert tell(strategy, Lost(2), Opened(tasks(12), 2), Idle(0), Idle(1)) == []
    assert tell(strategy, Idle(2)) == [Assign(2, (12,))]


def test_a_share_is_dealt_while_its_seat_is_empty() -> None:
    strategy = started()
    tell(strategy, Opened((ROOT,)), Idle(0), Idle(1), Idle(2))
    dealt = tell(strategy, Lost(1), Opened(tasks(10, 11, 12), 0), Idle(0))
    assert dealt == [Assign(0, (10,)), Assign(2, (12,))]
    assert tell(strategy, Idle(1)) == [Assign(1, (11,))]


def test_the_split_begins_again_when_its_worker_dies() -> None:
    strategy = started()
    tell(strategy, Opened((ROOT,)), Idle(0), Idle(1))
    assert tell(strategy, Lost(0), Opened((ROOT,), 0)) == []
    assert tell(strategy, Idle(0)) == [Assign(0, (1,), depth=1)]


def test_what_a_journal_held_is_dealt_like_a_split() -> None:
    strategy = started(workers=2)
    tell(strategy, Opened(tasks(5, 6, 7, depth=4)))
    assert tell(strategy, Idle(0), Idle(1)) == [Assign(0, (5, 7)), Assign(1, (6,))]


def test_a_depth_below_1_is_refused() -> None:
    with pytest.raises(StrategyError, match="depth must be at least 1, not 0"):
        find_strategy("interleaved", {"depth": 0})


def test_seats_that_the_plan_did_not_count_have_a_share_until_it_is_dealt() -> None:
    strategy = started(workers=1)
    tell(strategy, Joined(0), Joined(1, "elsewhere"), Opened((ROOT,)), Idle(0))
    dealt = tell(strategy, Idle(1), Opened(tasks(10, 11, 12), 0), Idle(0))
    assert dealt == [Assign(0, (10, 12)), Assign(1, (11,))]
    assert tell(strategy, Joined(2, "elsewhere"), Idle(2)) == []
