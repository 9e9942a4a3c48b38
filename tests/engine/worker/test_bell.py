from __future__ import annotations

import os
import select
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from listener import Listener

from aiosearch.engine.worker.bell import Bell


@pytest.fixture
def bell() -> Iterator[Bell]:
    bell = Bell.make()
    yield bell
    bell.close()


@pytest.fixture
def listeners(bell: Bell) -> Iterator[list[Listener]]:
    """Two processes that wait for it."""
    with ExitStack() as stack:
        both = [Listener(bell), Listener(bell)]
        for listener in both:
            stack.callback(listener.close)
        yield both


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


def test_one_ring_wakes_one_of_those_who_wait(bell: Bell, listeners: list[Listener]) -> None:
    """Also while nobody has taken note of it yet: a second ring is for the other."""
    for listener in listeners:
        while not listener.asleep:
            os.sched_yield()
    bell.ring()
    woken, _, _ = select.select(listeners, [], [])
    (other,) = set(listeners) - set(woken)
    assert other.asleep
    bell.ring()
    assert all(listener.heard() for listener in listeners)


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
