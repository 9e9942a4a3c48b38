"""Where sessions run: in a worker process, or in the host's own process."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Protocol

from ...checks import CheckRecord
from ...documents import Document
from ...processes.child import Child, Handle, Spawner
from ..explore.explorer import clock
from ..wire.messages import Begin, End, ToHost, ToWorker, decode_for_host, encode
from ..wire.solutions import SolutionSet
from .session import WorkerSession
from .work_sharing import Bell

# A millisecond: the host's event loop is held up for no longer than that
LOCAL_SLICE_NS = 1_000_000
MODULE = "aiosearch.engine.worker.worker_main"
BROOD = "workers"

Deliver = Callable[[int, ToHost, int], None]
"""Takes a seat's message, and how many bytes it was; 0 from a `LocalSlot`, where nothing travels.
"""


class PoolMember(Protocol):
    """A search, as its `Pool` sees it."""

    id: int
    name: str
    """The qualified name of the problem's class."""
    found: SolutionSet

    def joined(self, seat: int, pid: int, host: str) -> None:
        """A worker has taken the seat; the host is named where it is another machine."""
        ...

    def drain(self, seat: int) -> None:
        """The seat's worker is to give back what it has, by a `Drain`."""
        ...

    @property
    def asks(self) -> bool:
        """Whether the search needs the verification service, as its problem has an `obligation`."""
        ...

    def busy(self, seat: int) -> bool:
        """Whether the seat explores for it."""
        ...

    def known_keys(self, part: int) -> bytes:
        """Keys that earlier runs explored, 16 bytes each, by part as in `KeyChunks`; none
        beyond the last."""
        ...

    def lost(self, seat: int, reason: str, blame: bool, forever: bool = False) -> None:
        """The seat's worker died; its work is to blame unless the pool itself ended it.

        No other comes to a seat that is lost forever.
        """
        ...

    def refused(self, seat: int, reason: str) -> None:
        """The seat's worker does not serve this search."""
        ...

    def receive(self, seat: int, message: ToHost, size: int) -> None: ...

    def fail(self, error: Exception, trace: str = "") -> None: ...

    def warn(self, message: str) -> None: ...

    def state(self) -> Document:
        """How it gets on, for JSON."""
        ...

    def checked(self, record: CheckRecord) -> None:
        """z3 answered a question, of this search or another one of the `Pool`."""
        ...

    def local_session(self, begin: Begin, send: Callable[[ToHost], None]) -> WorkerSession:
        """Opens the session in this very process, for a `LocalSlot`."""
        ...


def spawner(bell: Bell) -> Spawner:
    """Starts workers of this machine, which inherit the `bell`."""
    return partial(Child.spawn, MODULE, pass_fds=bell.fds, arguments=bell.arguments, brood=BROOD)


class ProcessSlot:
    """A worker process, here or on another host, which can be killed and started anew."""

    def __init__(
        self,
        seat: int,
        deliver: Deliver,
        gone: Callable[[int], None],
        spawn: Spawner,
        host: str = "",
    ) -> None:
        self.seat = seat
        self.host = host
        """Names the machine, where it is another one."""
        self.child: Handle | None = None
        self._deliver = deliver
        self._gone = gone
        self._spawn = spawn
        self.heard = 0
        """How many messages this worker has sent; a worker that dies with 0 never began."""

    async def start(self) -> None:
        self.heard = 0
        self.child = await self._spawn(self._on_frame, self._on_gone)

    @property
    def alive(self) -> bool:
        return self.child is not None and self.child.alive

    @property
    def pid(self) -> int:
        return self.child.pid if self.child else 0

    def send(self, message: ToWorker) -> int:
        """Sends a message; gives how many bytes it is, 0 where there is no worker."""
        if self.child is None:
            return 0
        payload = encode(message)
        self.child.send(payload)
        return len(payload)

    def probe(self, message: ToWorker, seconds: float, silent: Callable[[], None]) -> None:
        """Sends what asks for an answer, and calls `silent` if none comes within so many
        `seconds`."""
        if self.child is not None:
            self.child.probe(encode(message), seconds, silent)

    def kill(self) -> None:
        if self.child is not None:
            self.child.kill()

    async def reap(self) -> None:
        if self.child is not None:
            await self.child.reap()

    def _on_frame(self, frame: bytes) -> None:
        self.heard += 1
        self._deliver(self.seat, decode_for_host(frame), len(frame))

    def _on_gone(self) -> None:
        self._gone(self.seat)


class LocalSlot:
    """The host's own process as a worker: slices of `LOCAL_SLICE_NS` between the host's own
    tasks."""

    alive = True
    pid = 0
    host = ""

    def __init__(
        self, seat: int, deliver: Deliver, member: Callable[[int], PoolMember | None]
    ) -> None:
        self.seat = seat
        self._deliver = deliver
        self._member = member
        self._sessions: dict[int, WorkerSession] = {}
        self._inbox: deque[ToWorker] = deque()
        self._outbox: deque[ToHost] = deque()
        self._arrived = asyncio.Event()

    def send(self, message: ToWorker) -> int:
        self._inbox.append(message)
        self._arrived.set()
        return 0

    async def run(self) -> None:
        """Works for ever."""
        while True:
            self._read()
            ready = [session for session in self._sessions.values() if session.ready]
            for session in ready:
                await session.slice_async(clock() + LOCAL_SLICE_NS)
                self._flush()
                # The host's other tasks get a turn between any two slices
                await asyncio.sleep(0)
            if not ready and not self._inbox:
                await self._pause()

    async def _pause(self) -> None:
        """Waits for messages; wakes now and then while something is unreported."""
        self._arrived.clear()
        dirty = any(session.dirty for session in self._sessions.values())
        try:
            await asyncio.wait_for(self._arrived.wait(), 0.05 if dirty else None)
        except TimeoutError:
            for session in self._sessions.values():
                session.wake()
            self._flush()

    def _read(self) -> None:
        while self._inbox:
            message = self._inbox.popleft()
            if isinstance(message, Begin):
                if member := self._member(message.session):
                    session = member.local_session(message, self._outbox.append)
                    self._sessions[message.session] = session
            elif isinstance(message, End):
                if ended := self._sessions.pop(message.session, None):
                    ended.close()
            elif session_ := self._sessions.get(message.session):
                session_.receive(message)
            self._flush()

    def _flush(self) -> None:
        """Delivers messages after the session has returned, never from inside it."""
        while self._outbox:
            self._deliver(self.seat, self._outbox.popleft(), 0)
