"""The contract of strategies calls workers so; former names do what they did, with a warning."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from aiosearch.strategies import Ask, Assign, Event, Idle, Joined, Lost, Opened, Plan, Reported


@pytest.mark.parametrize(
    "event",
    [Opened((), 3), Joined(3), Idle(3), Reported(3, 1), Lost(3), Assign(3, (1,)), Ask(3)],
    ids=lambda event: type(event).__name__,
)
def test_a_seat_is_the_number_of_a_worker(
    event: Opened | Joined | Idle | Reported | Lost | Assign | Ask,
) -> None:
    assert event.worker == 3
    with pytest.warns(DeprecationWarning, match="`seat` .* is called `worker` now"):
        assert event.seat == 3


def test_seats_are_the_number_of_workers() -> None:
    with pytest.warns(DeprecationWarning, match="`seats` .* is called `workers` now"):
        assert Plan(2, ordered=False).seats == 2


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (lambda: Assign(seat=3, tasks=(1,)), Assign(3, (1,))),  # type: ignore[call-arg]  # its old name
        (lambda: Plan(seats=2, ordered=True), Plan(2, True)),  # type: ignore[call-arg]  # its old name
    ],
)
def test_the_old_keywords_are_taken(old: Callable[[], object], new: object) -> None:
    with pytest.warns(DeprecationWarning, match="of a strategy's contract is called"):
        assert old() == new


def test_a_pattern_with_the_old_name_matches() -> None:
    with pytest.warns(DeprecationWarning, match="`seat`"):
        assert _matched(Idle(3)) == 3


def _matched(event: Event) -> int | None:
    match event:
        case Idle(seat=seat):
            return seat
    return None
