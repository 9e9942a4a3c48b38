"""A worker process: takes turns between the sessions that the host has opened in it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from ...errors import StrategyError
from ...processes.frames import Channel, enter_child
from ..explore.claims import SharedClaims
from ..explore.explorer import clock
from ..wire.messages import (
    Begin,
    End,
    Hello,
    Ping,
    ToHost,
    ToWorker,
    decode_for_worker,
    encode,
    open_failure,
)
from ..wire.reference import resolve
from .session import WorkerSession
from .work_sharing import Bell, WorkSharing, load_board

if TYPE_CHECKING:
    import asyncio

# A slice bounds how long a message waits: an incumbent, a Publish, another search's work
SLICE_NS = 2_000_000
WAKE_SECONDS = 0.05
# Some round trips to the host (benchmarks/roundtrip.py): a task that comes at all mostly comes
# by then
SPIN_NS = 150_000


class WorkerLoop:
    """The sessions of one process, each of which gets a slice of `SLICE_NS` in turn."""

    def __init__(self, channel: Channel, bell: Bell) -> None:
        self._channel = channel
        self._bell = bell
        for fd in bell.fds:
            channel.hear(fd)
        self._sessions: dict[int, WorkerSession] = {}
        self._sharers: dict[int, WorkerSession] = {}
        """Sessions with a board, whose workers pass work on to each other."""
        self.asynchronous = False

    def send(self, message: ToHost) -> None:
        self._channel.send(encode(message))

    def receive(self, frames: list[bytes]) -> None:
        for frame in frames:
            message: ToWorker = decode_for_worker(frame)
            if isinstance(message, Begin):
                self._begin(message)
            elif isinstance(message, Ping):
                self.send(Hello())
            elif isinstance(message, End):
                self._sharers.pop(message.session, None)
                if session := self._sessions.pop(message.session, None):
                    session.close()
            elif session := self._sessions.get(message.session):
                session.receive(message)

    def _begin(self, begin: Begin) -> None:
        claims = sharing = None
        try:
            problem = resolve(begin.problem)
            order = resolve(begin.order)
            claims = SharedClaims.attach(begin.table, begin.owner) if begin.table else None
            sharing = self._sharing(begin) if begin.board else None
            session = WorkerSession(begin, problem, order, self.send, claims, sharing=sharing)
        except Exception as error:
            # The process serves other sessions: nothing of the failed one may stay open
            for opened in (claims, sharing):
                if opened is not None:
                    opened.close()
            self.send(open_failure(begin, error))
            return
        self._sessions[begin.session] = session
        if sharing is not None:
            self._sharers[begin.session] = session
        self.asynchronous |= session.asynchronous

    def _sharing(self, begin: Begin) -> WorkSharing:
        board = load_board(begin.exchange)
        try:
            exchange = board.join(begin.board, begin.place, begin.owner, self._bell.ring)
        except Exception as error:
            raise StrategyError(
                f"a worker cannot join the exchange {begin.exchange!r}: "
                f"{type(error).__name__}: {error}"
            ) from error
        return WorkSharing(exchange, begin.owner, begin.free_nodes, verdicts=not begin.asker)

    def seek(self) -> bool:
        """Lets sessions without work take what other workers offer; says whether one did."""
        return any(session.seek() for session in self._sharers.values())

    @property
    def seeking(self) -> bool:
        """Whether some session waits for what others offer."""
        return any(session.seeking for session in self._sharers.values())

    def ready(self) -> list[WorkerSession]:
        return [session for session in self._sessions.values() if session.ready]

    def patience(self) -> float | None:
        """Seconds to wait for messages while no session is ready; None is for ever."""
        sessions = self._sessions.values()
        lingering = [session.lingering for session in self._sharers.values()]
        if over := [seconds for seconds in lingering if seconds is not None]:
            return min(over)
        if self.seeking:  # a ring may have woken somebody who had no use for it
            return WAKE_SECONDS
        return WAKE_SECONDS if any(session.dirty for session in sessions) else None

    def wake(self) -> None:
        for session in self._sessions.values():
            session.wake()

    def _await_frames(self) -> list[bytes]:
        """Waits for messages, at first without sleeping: the next task is often on its way,
        and waking a sleeping process costs more than the rest of the round trip."""
        end = clock() + SPIN_NS
        while clock() < end:
            if frames := self._channel.receive(0):
                return frames
            if self._sharers and self.seek():
                return []
        if self.seeking:
            if self._channel.await_bell(self.patience()):
                self._bell.hush()
            return self._channel.receive(0)
        return self._channel.receive(self.patience())

    def serve(self) -> None:
        """Works until a session needs an event loop, as its `expand` is asynchronous."""
        while not self.asynchronous:
            if self._sharers:
                self.seek()
            ready = self.ready()
            if ready:
                self.receive(self._channel.receive(0))
            else:
                self.receive(self._await_frames())
                self.wake()
                continue
            for session in ready:
                if session.ready:
                    session.slice(clock() + SLICE_NS)

    async def serve_async(self) -> None:
        """Works on an event loop, for ever."""
        import asyncio

        arrived = asyncio.Event()
        loop = asyncio.get_running_loop()
        loop.add_reader(self._channel.fileno(), arrived.set)

        def rung() -> None:
            self._bell.hush()
            arrived.set()

        while True:
            self.seek()
            ready = self.ready()
            if not ready:
                self.wake()
                arrived.clear()
                # A ring is heard only by who has an ear for it
                ears = self._bell.fds if self.seeking else ()
                for fd in ears:
                    loop.add_reader(fd, rung)
                await _wait(arrived, self.patience())
                for fd in ears:
                    loop.remove_reader(fd)
            self.receive(self._channel.receive(0))
            for session in ready:
                if session.ready:
                    await session.slice_async(clock() + SLICE_NS)
            await asyncio.sleep(0)


async def _wait(event: asyncio.Event, seconds: float | None) -> None:
    import asyncio

    try:
        await asyncio.wait_for(event.wait(), seconds)
    except TimeoutError:
        return


def main() -> None:
    channel, arguments = enter_child()
    worker = WorkerLoop(channel, Bell.inherited(arguments))
    try:
        worker.send(Hello())
        worker.serve()
        import asyncio  # only a problem with an asynchronous expand comes here

        asyncio.run(worker.serve_async())
    except (EOFError, BrokenPipeError, ConnectionResetError):
        # No finalisers: a library's atexit handler could wait for ever, and nobody is there to hear
        # of it
        os._exit(0)


if __name__ == "__main__":
    main()
