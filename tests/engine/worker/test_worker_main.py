"""A worker that waits for what others of its machine may offer."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from aiosearch_stealing.board import SharedBoard

from aiosearch.engine.explore.bundles import ROOT
from aiosearch.engine.explore.explorer import clock
from aiosearch.engine.wire.messages import (
    Begin,
    ToHost,
    WorkerFailed,
    WorkerReport,
    decode_for_host,
    encode,
)
from aiosearch.engine.wire.reference import refer
from aiosearch.engine.worker.work_sharing import Bell
from aiosearch.engine.worker.worker_main import WAKE_SECONDS, WorkerLoop
from aiosearch.orders import DepthFirst
from aiosearch.processes.frames import Channel, Frames
from aiosearch.testing.problems import Spine

GIVER, TAKER = 1, 2
BOARD = "aiosearch_stealing.board:SharedBoard"


class Machine:
    """A worker, the host's end of its channel, and somebody who offers the root."""

    def __init__(self) -> None:
        self._host, there = socket.socketpair()
        self._host.setblocking(False)
        self.bell = Bell.make()
        self.worker = WorkerLoop(Channel(there.detach()), self.bell)
        self.board = SharedBoard.create(2)
        self.giver = self.board.exchange(0, GIVER, self.bell.ring)
        self.giver.rest(False)
        self.giver.offer(1, msgspec.msgpack.encode(ROOT), 1.0)

    def begin(self, breath: float, exchange: str = BOARD) -> None:
        """Opens a session of one node, which does not report because time has passed."""
        problem, order = refer(Spine(depth=0)), refer(DepthFirst())
        begin = Begin(1, problem, order, "defer", False, "", owner=TAKER)
        place = {"exchange": exchange, "board": self.board.path, "place": 1, "breath": breath}
        begin = msgspec.structs.replace(begin, free_nodes=9, report_seconds=600.0, **place)
        self.worker.receive([encode(begin)])

    def explore(self) -> None:
        for session in self.worker.ready():
            session.slice(clock() + 10**9)

    def said(self) -> list[ToHost]:
        try:
            return [decode_for_host(frame) for frame in Frames().feed(self._host.recv(1 << 16))]
        except BlockingIOError:
            return []

    def close(self) -> None:
        for session in self.worker._sessions.values():
            session.close()
        self.worker._channel._socket.close()
        self._host.close()
        self.bell.close()
        self.board.close()


@pytest.fixture
def machine() -> Iterator[Machine]:
    machine = Machine()
    yield machine
    machine.close()


def reports(said: list[ToHost]) -> list[Any]:
    return [message for message in said if isinstance(message, WorkerReport)]


def test_who_has_done_what_it_took_waits_a_breath_for_more_and_then_says_so(
    machine: Machine,
) -> None:
    machine.begin(breath=0.01)
    assert machine.worker.seek()
    machine.explore()
    assert reports(machine.said()) == []
    (session,) = machine.worker._sessions.values()
    while session.lingering:
        pass
    assert machine.worker.patience() == 0.0  # it does not sleep: its breath is over
    machine.worker.wake()
    (report,) = reports(machine.said())
    assert report.took == ((GIVER, 1),)
    assert report.idle
    assert report.counts.nodes == 1
    assert machine.worker.patience() == WAKE_SECONDS


def test_what_is_offered_within_a_breath_is_not_worth_a_report(machine: Machine) -> None:
    machine.begin(breath=600.0)
    machine.worker.seek()
    machine.explore()
    assert machine.worker.seeking
    machine.giver.taken()
    machine.giver.offer(2, msgspec.msgpack.encode(ROOT), 1.0)
    assert machine.worker.seek()
    machine.explore()
    assert reports(machine.said()) == []


def test_where_all_others_wait_nobody_waits_for_them(machine: Machine) -> None:
    machine.giver.rest(True)
    machine.begin(breath=600.0)
    machine.worker.seek()
    machine.explore()
    (report,) = reports(machine.said())
    assert report.idle


@pytest.mark.parametrize(
    ("exchange", "reason"),
    [
        ("broken_boards:CannotBeJoined", "a worker cannot join .* PermissionError: not for you"),
        ("broken_boards:Nothing", "the exchange 'broken_boards:Nothing' cannot be loaded"),
    ],
)
def test_who_cannot_join_a_board_blames_the_board_and_not_the_problem(
    machine: Machine, exchange: str, reason: str
) -> None:
    machine.begin(0.0, exchange)
    (failed,) = machine.said()
    assert isinstance(failed, WorkerFailed)
    assert failed.problem == ""
    assert re.match(reason, failed.reason)
