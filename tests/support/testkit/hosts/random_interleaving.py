"""One search whose workers share a board, in one process, in an order drawn at random.

The coordinator, the sessions, the strategy and the board are the real ones. Messages of one worker
stay in order, those of two do not; a worker may die between any two lines of what it runs, and then
any number of its last messages may be lost with it, or a whole machine at once.
"""

from __future__ import annotations

import random
import sys
from collections import Counter, deque
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import aiosearch_stealing.board
from aiosearch_stealing import Stealing
from aiosearch_stealing.board import SharedBoard
from msgspec.msgpack import Decoder

import aiosearch.engine
from aiosearch.engine.books.coordinator import Coordinator, Outlets, Transaction
from aiosearch.engine.explore.bundles import ROOT
from aiosearch.engine.explore.claims import SharedClaims
from aiosearch.engine.wire.messages import Begin, ToHost, ToWorker
from aiosearch.engine.wire.reference import ObjectReference, element_type, return_type
from aiosearch.engine.worker.session import WorkerSession
from aiosearch.engine.worker.work_sharing import MachineBoards, WorkSharing
from aiosearch.orders import Order
from aiosearch.strategies import Plan
from aiosearch.testing.virtual.worker import SimulatedClock, timed

NODE_NS = 200_000
MOST_STEPS = 200_000
_FRAGILE = (
    Path(aiosearch_stealing.board.__file__).parent,
    Path(aiosearch.engine.__file__).parent,
)


class DeathError(BaseException):
    """A worker's process is gone."""


class Life:
    """One life of one worker."""

    def __init__(self) -> None:
        self.inbox: deque[ToWorker] = deque()
        self.outbox: deque[ToHost] = deque()
        self.session: WorkerSession | None = None


class Scrambled:
    """A search to be played; `deaths` at most happen on the way."""

    def __init__(
        self, problem: Any, order: Order, seed: int, machines: tuple[int, ...], deaths: int
    ) -> None:
        self.solutions: Counter[Any] = Counter()
        self.steals = self.died = 0
        self._random = random.Random(seed)
        self._problem = problem
        self._decode = Decoder(element_type(return_type(problem, "solutions"))).decode
        self._order = order
        self._clock = SimulatedClock()
        self._deaths = deaths
        self._hosts = [
            f"machine {number}" if number else ""
            for number, workers in enumerate(machines)
            for _ in range(workers)
        ]
        self._boards = {
            host: MachineBoards(2 * self._hosts.count(host)) for host in set(self._hosts)
        }
        self._tables = {
            host: SharedClaims.create(1 << 12) if hasattr(problem, "key") else None
            for host in self._boards
        }
        self._lives: list[Life | None] = [None] * len(self._hosts)
        self._known = True
        nobody = ObjectReference("", "")
        begin = Begin(1, nobody, nobody, "defer", False, "", report_seconds=0.002)
        self.books = Coordinator(
            Stealing(), Plan(machines[0], False), begin, self._outlets(), self._clock
        )

    def play(self) -> None:
        """Lets everything happen until nothing is open."""
        self.books.start({1: ROOT}, 2)
        for seat in range(len(self._hosts)):
            self._join(seat)
        try:
            for _ in range(MOST_STEPS):
                if self.books.finished:
                    return
                self._random.choice(self._actions())()
            raise AssertionError("the search does not come to its end")
        finally:
            self._close()

    def _actions(self) -> list[Callable[[], None]]:
        actions: list[Callable[[], None]] = [self.books.bury]
        for seat, life in enumerate(self._lives):
            if life is None:
                actions.append(lambda seat=seat: self._join(seat))  # type: ignore[misc]
                continue
            if life.outbox:
                actions.append(lambda seat=seat, life=life: self._hear(seat, life))  # type: ignore[misc]
            actions.append(lambda seat=seat, life=life: self._step(seat, life))  # type: ignore[misc]
        return actions

    # Workers

    def _join(self, seat: int) -> None:
        self._lives[seat] = Life()
        self.books.join(seat, self._hosts[seat])

    def _step(self, seat: int, life: Life) -> None:
        """A worker takes some messages, or explores, or dies at some line of that."""
        dies = self.died < self._deaths and self._random.random() < 0.03
        self._clock.now += self._random.randrange(1_000_000)
        try:
            if dies:
                self._dying(lambda: self._live(seat, life))
            else:
                self._live(seat, life)
        except DeathError:
            self.died += 1
            if self._random.random() < 0.2:
                self._lose_machine(self._hosts[seat])
            else:
                self._bury(seat, life)

    def _live(self, seat: int, life: Life) -> None:
        if life.inbox and self._random.random() < 0.7:
            message = life.inbox.popleft()
            if isinstance(message, Begin):
                life.session = self._open(seat, life, message)
            elif life.session is not None:
                life.session.receive(message)
        elif life.session is not None:
            life.session.seek()
            if life.session.ready:
                life.session.slice(self._clock() + self._random.randrange(1, 20) * NODE_NS)
            else:
                life.session.wake()

    def _dying(self, live: Callable[[], None]) -> None:
        """Does it, up to a line drawn at random."""
        left = int(10 ** self._random.uniform(0, 3.5))

        def trace(frame: FrameType, event: str, argument: object) -> Any:
            nonlocal left
            if not Path(frame.f_code.co_filename).is_relative_to(_FRAGILE[0]) and not Path(
                frame.f_code.co_filename
            ).is_relative_to(_FRAGILE[1]):
                return None
            left -= event == "line"
            if left == 0:
                raise DeathError
            return trace

        before = sys.gettrace()
        sys.settrace(trace)
        try:
            live()
        finally:
            sys.settrace(before)

    def _open(self, seat: int, life: Life, begin: Begin) -> WorkerSession:
        host = self._hosts[seat]
        begin = self._boards[host].seat(begin, begin.owner)
        sharing = None
        if begin.board:
            exchange = SharedBoard.join(begin.board, begin.place, begin.owner, lambda: None)
            sharing = WorkSharing(exchange, begin.owner, begin.free_nodes, verdicts=True)
        problem = timed(self._problem, self._clock, lambda node: NODE_NS)
        table = self._tables[host]
        claims = SharedClaims.attach(table.path, begin.owner) if table else None
        return WorkerSession(
            begin, problem, self._order, life.outbox.append, claims, self._clock, sharing
        )

    def _bury(self, seat: int, life: Life) -> None:
        """A worker is gone; of its last messages some may never be read."""
        for _ in range(self._random.choice((len(life.outbox), 0, 1))):
            if life.outbox and self._lives[seat] is life:
                self._hear(seat, life)
        self._drop(seat, life)
        self.books.lose(seat, blame=False)

    def _drop(self, seat: int, life: Life) -> None:
        if life.session is not None:
            life.session.close()
        if self._lives[seat] is life:
            self._lives[seat] = None

    def _lose_machine(self, host: str) -> None:
        """All its workers are gone, and nobody knows what lay on its board."""
        self._known = False
        for seat, life in enumerate(self._lives):
            if self._hosts[seat] == host and life is not None:
                self._drop(seat, life)
                self.books.lose(seat, blame=False)
        self._known = True
        self._boards[host].close()

    # Host

    def _outlets(self) -> Outlets:
        return Outlets(
            send=self._send,
            commit=self._commit,
            fail=self._fail,
            ask=lambda digest, obligation, priority: None,
            withdraw=lambda digest: None,
            release_claims=self._release,
            revoke=self._revoke,
        )

    def _send(self, seat: int, message: ToWorker) -> None:
        life = self._lives[seat]
        if life is not None:
            life.inbox.append(message)

    def _hear(self, seat: int, life: Life) -> None:
        self.books.receive(seat, life.outbox.popleft())

    def _release(self, seat: int, owner: int, committed: int) -> None:
        if table := self._tables[self._hosts[seat]]:
            table.release(owner, committed)

    def _revoke(self, seat: int, owner: int) -> dict[int, int] | None:
        if not self._known:
            return {}
        if self._random.random() < 0.2:
            return None  # somebody holds the lock just now
        return self._boards[self._hosts[seat]].revoke(1, owner)

    def _commit(self, transaction: Transaction) -> None:
        self.solutions.update(map(self._decode, transaction.solutions))
        for cost in transaction.costs:
            self.books.beat(cost)

    def _fail(self, error: Exception, trace: str) -> None:
        error.add_note(trace)
        raise error

    def _close(self) -> None:
        self.steals = sum(place.steals for place in self.books.seats)
        for life in self._lives:
            if life is not None and life.session is not None:
                life.session.close()
        for boards in self._boards.values():
            boards.close()
        for table in self._tables.values():
            if table is not None:
                table.close()
