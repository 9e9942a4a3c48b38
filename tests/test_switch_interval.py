"""Threads that compute let the event loop have its turn soon."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest

from aiosearch._blocking import INTERVAL, short_switch_interval


@pytest.fixture(autouse=True)
def usual() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(0.005)
    yield
    sys.setswitchinterval(before)


def test_turns_are_short_until_the_last_one_leaves() -> None:
    with short_switch_interval():
        with short_switch_interval():
            assert sys.getswitchinterval() == pytest.approx(INTERVAL)
        assert sys.getswitchinterval() == pytest.approx(INTERVAL)
    assert sys.getswitchinterval() == pytest.approx(0.005)


def test_turns_that_are_shorter_stay_so() -> None:
    sys.setswitchinterval(INTERVAL / 10)
    with short_switch_interval():
        assert sys.getswitchinterval() == pytest.approx(INTERVAL / 10, rel=0.1)
    assert sys.getswitchinterval() == pytest.approx(INTERVAL / 10, rel=0.1)


def test_what_somebody_else_sets_meanwhile_is_left_as_it_is() -> None:
    with short_switch_interval():
        sys.setswitchinterval(0.002)
    assert sys.getswitchinterval() == pytest.approx(0.002)


def test_an_error_gives_the_turns_back() -> None:
    with pytest.raises(RuntimeError, match="so it is"), short_switch_interval():
        raise RuntimeError("so it is")
    assert sys.getswitchinterval() == pytest.approx(0.005)
