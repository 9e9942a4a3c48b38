"""A host that serves a search elsewhere: starts its processes, and passes frames on.

The search runs everything: it says which process to start under which channel, and an `Agent`
passes frames between link and process without a look, but for `Begin` and `End`, by which it
decides what may run here and gives workers this machine's own claim table and board.
"""

from __future__ import annotations

import asyncio
import logging
import platform
from collections.abc import AsyncIterator, Callable, Coroutine
from functools import partial

import anyio
import msgspec

from ..checks.solver_process import BROOD as CHECKERS
from ..checks.solver_process import MODULE as CHECKER
from ..engine.explore.claims import SharedClaims
from ..engine.wire.messages import Begin, End, VerdictReplies
from ..engine.wire.messages import encode as encode_frame
from ..engine.worker.slots import BROOD as WORKERS
from ..engine.worker.slots import MODULE as WORKER
from ..engine.worker.work_sharing import Bell, MachineBoards
from ..errors import StrategyError
from ..processes.child import Child
from . import protocol
from .admission import RefusalError, admit, meaning, versions
from .heartbeat import PATIENCE, Heartbeat
from .links import Link, LostError, UnwelcomeError
from .notebooks import Recall, Verdicts
from .protocol import (
    API,
    EarlierKeys,
    Farewell,
    FrameFromProcess,
    FrameToProcess,
    HostGreeting,
    HostLeaving,
    KeysAccepted,
    Kill,
    OfferTakers,
    Probe,
    ProcessGone,
    ProcessSilent,
    Pulse,
    ReleaseClaims,
    SearchStateDocument,
    SessionRefused,
    Spawn,
    Spawned,
    ToAgent,
    encode,
)

KEYS_BYTES = 2048
"""Bytes of keys that `learn` adds without a pause, in less than half a millisecond."""


class KeyTables:
    """The claim tables of a machine; a table lives as long as any worker has its session open.

    `created` is called with the session of each new table, which is empty.
    """

    def __init__(self, created: Callable[[int], None]) -> None:
        self._made = created
        self._tables: dict[int, SharedClaims] = {}
        self._users: dict[int, set[int]] = {}

    def path(self, session: int, channel: int) -> str:
        """Where `SharedClaims.attach` finds the session's table, for a worker's `Begin`."""
        if session not in self._tables:
            self._tables[session] = SharedClaims.create()
            self._users[session] = set()
            self._made(session)
        self._users[session].add(channel)
        return self._tables[session].path

    async def learn(self, session: int, keys: bytes) -> bool:
        """Adds keys that are explored already, 16 bytes each, and leaves room for other work.

        Says whether the table is still there.
        """
        for start in range(0, len(keys), KEYS_BYTES):
            if (table := self._tables.get(session)) is None:
                return False
            table.preload(keys[start : start + KEYS_BYTES])
            await asyncio.sleep(0)
        return True

    def release(self, session: int, owner: int, committed: int) -> None:
        """Voids what a dead `owner` claimed and did not report."""
        if table := self._tables.get(session):
            table.release(owner, committed)

    def leave(self, session: int, channel: int) -> None:
        """A worker needs a table no more."""
        users = self._users.get(session, set())
        users.discard(channel)
        if session in self._tables and not users:
            self._users.pop(session)
            self._tables.pop(session).close()

    def close(self) -> None:
        for table in self._tables.values():
            table.close()
        self._tables.clear()
        self._users.clear()


log = logging.getLogger("aiosearch")

# A worker in the middle of taking an offer is done in microseconds, or dead
AGAIN_SECONDS = 0.01


class Agent:
    """This machine's processors, for one search, over one link."""

    def __init__(
        self,
        link: Link,
        workers: int,
        checkers: int,
        name: str = "",
        patience: float = PATIENCE,
        recall: Recall | None = None,
    ) -> None:
        """`recall` gives verdicts that earlier searches noted, see `Notebook`."""
        self._link = link
        self._recall = recall
        self._here = HostGreeting(API, name or platform.node(), workers, checkers, versions())
        self._children: dict[int, Child | None] = {}
        self._workers: set[int] = set()
        self._sessions: dict[int, dict[int, int]] = {}
        """The channels and owners of the workers of each session."""
        self._refused: set[int] = set()
        self._served = False
        self._tables = KeyTables(lambda session: self._send(KeysAccepted(session, 0)))
        # Twice the workers: a dead one's place is free only when its offers are settled
        self._boards = MachineBoards(2 * workers if workers > 1 else 1)
        self._bell = Bell.make()
        self._tasks: set[asyncio.Task[None]] = set()
        self._end: asyncio.Future[Farewell] = asyncio.get_running_loop().create_future()
        self._heartbeat = Heartbeat(link, encode(Pulse()), patience)

    async def serve(self) -> Farewell:
        """Serves until the search lets it go; then nothing of it is left.

        Raises `LostError` where the link is lost, and `UnwelcomeError` where the search
        refuses it.
        """
        self._link.open(self._received, self._closed)
        self._send(self._here)
        self._heartbeat.start()
        try:
            farewell = await self._end
        finally:
            self._heartbeat.stop()
            # Even when cancelled: processes and memory of this machine must not outlive the link
            with anyio.CancelScope(shield=True):
                await self._clear()
        if farewell.refused:
            raise UnwelcomeError(f"{self._link.peer} refuses this host: {farewell.reason}")
        return farewell

    @property
    def turned_away(self) -> bool:
        """Whether all that was asked of it was refused, as not to be run here."""
        return bool(self._refused) and not self._served

    def leave(self) -> None:
        """Asks to be let go once everything is given back: `HostLeaving`."""
        self._send(HostLeaving())

    async def _clear(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        children = [child for child in self._children.values() if child is not None]
        for child in children:
            child.kill()
        # Killed first and reaped last: between the two the search hears that the link is closed
        self._link.close()
        for child in children:
            await child.reap()
        self._tables.close()
        self._boards.close()
        self._bell.close()

    def _send(self, message: protocol.FromAgent) -> None:
        self._link.send(encode(message))

    def _closed(self, reason: str) -> None:
        if not self._end.done():
            self._end.set_exception(LostError(reason or "the connection was closed"))

    def _received(self, payload: bytes) -> None:
        self._heartbeat.heard()
        message: ToAgent = protocol.decode_for_agent(payload)
        match message:
            case FrameToProcess(channel=channel, payload=frame):
                self._pass_on(channel, frame)
            case Spawn():
                self._spawn(message)
            case Probe(channel=channel, payload=frame, seconds=seconds):
                if child := self._children.get(channel):
                    child.probe(frame, seconds, partial(self._send, ProcessSilent(channel)))
            case Kill(channel=channel):
                if child := self._children.get(channel):
                    child.kill()
            case EarlierKeys():
                self._start(self._learn(message))
            case ReleaseClaims():
                self._tables.release(message.session, message.owner, message.committed)
            case Farewell():
                if not self._end.done():
                    self._end.set_result(message)
            case Pulse() | SearchStateDocument():
                pass

    def _spawn(self, spawn: Spawn) -> None:
        channel = spawn.channel
        # A search, right or wrong, must not fill this machine with processes
        if channel in self._children or len(self._children) >= self._most:
            raise ValueError(f"process {channel} is one too many")
        self._children[channel] = None
        if spawn.kind == "worker":
            self._workers.add(channel)
        self._start(self._run(spawn))

    def _start(self, work: Coroutine[object, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    @property
    def _most(self) -> int:
        """Processes that end may overlap with those that take their places, see `Spawn`."""
        return 2 * (self._here.workers + self._here.checkers)

    async def _run(self, spawn: Spawn) -> None:
        """A process, from its start to its end."""
        channel = spawn.channel
        worker = spawn.kind == "worker"
        seconds, megabytes = spawn.limits
        gone = asyncio.Event()
        try:
            child = await Child.spawn(
                WORKER if worker else CHECKER,
                lambda frame: self._send(FrameFromProcess(channel, frame)),
                gone.set,
                self._bell.fds if worker else (),
                self._bell.arguments if worker else (str(seconds), str(megabytes)),
                WORKERS if worker else CHECKERS,
            )
        except OSError as error:
            self._forget(channel)
            self._send(ProcessGone(channel, f"a process cannot be started: {error}"))
            return
        self._children[channel] = child
        self._send(Spawned(channel, child.pid))
        await gone.wait()
        child.kill()
        await child.reap()
        self._forget(channel)
        self._send(ProcessGone(channel, child.death))

    async def _learn(self, keys: EarlierKeys) -> None:
        """Takes one part of the keys of earlier runs, and asks for the next with `KeysAccepted`."""
        if await self._tables.learn(keys.session, keys.keys):
            self._send(KeysAccepted(keys.session, keys.part + 1))

    def _forget(self, channel: int) -> None:
        """A process is gone."""
        del self._children[channel]
        self._workers.discard(channel)
        for session in [number for number, users in self._sessions.items() if channel in users]:
            # A task: a taker may be in the middle of copying, and the link must not wait for it
            self._start(self._settle(session, channel, self._sessions[session].pop(channel)))
            self._tables.leave(session, channel)

    async def _settle(self, session: int, channel: int, owner: int) -> None:
        """Tells what became of a dead worker's offers, when nobody is at them any more, as
        `OfferTakers`."""
        while (takers := self._boards.revoke(session, channel)) is None:  # noqa: ASYNC110
            await asyncio.sleep(AGAIN_SECONDS)
        self._send(OfferTakers(session, owner, takers))

    def _pass_on(self, channel: int, frame: bytes) -> None:
        child = self._children.get(channel)
        if child is None:
            self._too_late(frame)
            return
        if channel in self._workers:
            match meaning(frame):
                case Begin() as begin:
                    try:
                        admit(begin)
                        frame = self._begins(begin, channel)
                        self._served = True
                    except (RefusalError, StrategyError) as error:
                        self._refuse(begin.session, str(error))
                        # A refused worker offered nothing: the search need not wait for it
                        self._send(OfferTakers(begin.session, begin.owner, {}))
                        return
                case End(session=session):
                    self._ends(session, channel)
        child.send(frame)

    def _refuse(self, session: int, reason: str) -> None:
        """Says so to whoever looks after this machine, once, and to the search for each worker."""
        if session not in self._refused:
            self._refused.add(session)
            log.warning("this host cannot serve %s: %s", self._link.peer, reason)
        self._send(SessionRefused(session, reason))

    def _begins(self, begin: Begin, channel: int) -> bytes:
        """Fills in the table of keys and the board of this machine, which the search cannot
        know."""
        # The first worker of a session tells the board, and so all that come later
        first = not self._sessions.get(begin.session)
        self._sessions.setdefault(begin.session, {})[channel] = begin.owner
        table = self._tables.path(begin.session, channel) if begin.table else ""
        begin = self._boards.seat(begin, channel)
        if self._recall is not None and begin.z3_version and (first or not begin.board):
            self._start(self._tell(begin.session, channel, self._recall()))
        return encode_frame(msgspec.structs.replace(begin, table=table))

    async def _tell(self, session: int, channel: int, earlier: AsyncIterator[Verdicts]) -> None:
        """Has a worker learn what z3 said before; others find it on the board, where there
        is one.

        What that worker misses because it is gone is asked for in the usual way.
        """
        async for verdicts in earlier:
            if child := self._children.get(channel):
                child.send(encode_frame(VerdictReplies(session, verdicts)))

    def _too_late(self, frame: bytes) -> None:
        """A process is gone to which that frame was sent."""
        begin = meaning(frame)
        if isinstance(begin, Begin):
            self._send(OfferTakers(begin.session, begin.owner, {}))

    def _ends(self, session: int, channel: int) -> None:
        users = self._sessions.get(session, {})
        users.pop(channel, None)
        if not users:
            self._sessions.pop(session, None)
        self._tables.leave(session, channel)
        self._boards.leave(session, channel)
