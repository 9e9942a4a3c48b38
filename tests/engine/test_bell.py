from __future__ import annotations

import os
import select
from collections.abc import Iterator

import pytest

from aiosearch.engine.bell import Bell


@pytest.fixture
def bell() -> Iterator[Bell]:
    bell = Bell.make()
    yield bell
    bell.close()


def rings(bell: Bell) -> bool:
    """Whether somebody who began to wait now would be woken."""
    waiting = select.poll()
    waiting.register(bell.fds[0], select.POLLIN)
    return bool(waiting.poll(0))


def test_a_ring_is_kept_until_somebody_takes_note_of_it(bell: Bell) -> None:
    assert not rings(bell)
    bell.ring()
    bell.ring()
    assert rings(bell)
    bell.hush()
    assert not rings(bell)
    bell.hush()


def test_a_bell_that_nobody_hears_may_be_rung_for_ever(bell: Bell) -> None:
    os.eventfd_write(bell.fds[0], (1 << 64) - 2)  # as often as can be counted
    bell.ring()
    assert rings(bell)


def test_a_child_hears_the_hosts_bell(bell: Bell) -> None:
    heard = Bell.inherited([*bell.arguments])
    assert heard.fds == bell.fds
    bell.ring()
    assert rings(heard)


def test_one_ring_wakes_one_of_those_who_wait(bell: Bell) -> None:
    waiting = [select.epoll() for _ in range(2)]
    for one in waiting:
        one.register(bell.fds[0], select.EPOLLIN)
    bell.ring()
    assert all(one.poll(0) for one in waiting)
    bell.hush()  # whoever comes first
    assert not any(one.poll(0) for one in waiting)
    for one in waiting:
        one.close()


def test_without_an_eventfd_there_is_nothing_to_hear(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr("os.eventfd")
    bell = Bell.make()
    assert bell.fds == bell.arguments == Bell.inherited([]).fds == ()
    bell.close()


def test_it_can_be_closed_twice() -> None:
    bell = Bell.make()
    (fd,) = bell.fds
    bell.close()
    bell.close()
    assert bell.fds == ()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(fd)
