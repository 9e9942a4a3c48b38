"""A worker process: takes turns between the sessions that the host has opened in it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from .channel import Channel, enter_child
from .claims import SharedClaims
from .explorer import clock
from .reference import resolve
from .session import Session
from .wire import Begin, End, Failed, Hello, Ping, ToHost, ToWorker, decode_for_worker, encode

if TYPE_CHECKING:
    import asyncio

SLICE_NS = 2_000_000
WAKE_SECONDS = 0.05
SPIN_NS = 150_000


class Worker:
    """The sessions of one process."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._sessions: dict[int, Session] = {}
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
                if session := self._sessions.pop(message.session, None):
                    session.close()
            elif session := self._sessions.get(message.session):
                session.receive(message)

    def _begin(self, begin: Begin) -> None:
        try:
            problem = resolve(begin.problem)
            order = resolve(begin.order)
            claims = SharedClaims.attach(begin.table, begin.owner) if begin.table else None
            session = Session(begin, problem, order, self.send, claims)
        except Exception as error:
            reason = f"a worker cannot build the problem: {type(error).__name__}: {error}"
            name = begin.problem.qualname
            self.send(Failed(begin.session, name, "__init__", reason, None))
            return
        self._sessions[begin.session] = session
        self.asynchronous |= session.asynchronous

    def ready(self) -> list[Session]:
        return [session for session in self._sessions.values() if session.ready]

    def patience(self) -> float | None:
        """How long to wait for messages while no session is ready."""
        sessions = self._sessions.values()
        return WAKE_SECONDS if any(session.dirty for session in sessions) else None

    def wake(self) -> None:
        for session in self._sessions.values():
            session.wake()

    def _await_frames(self) -> list[bytes]:
        """Waits for messages, at first without sleeping: the next task is often on its way, and
        waking a sleeping process costs more than the rest of the round trip."""
        end = clock() + SPIN_NS
        while clock() < end:
            if frames := self._channel.receive(0):
                return frames
        return self._channel.receive(self.patience())

    def serve(self) -> None:
        """Works until a session needs an event loop."""
        while not self.asynchronous:
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
        asyncio.get_running_loop().add_reader(self._channel.fileno(), arrived.set)
        while True:
            ready = self.ready()
            if not ready:
                self.wake()
                arrived.clear()
                await _wait(arrived, self.patience())
            self.receive(self._channel.receive(0))
            for session in ready:
                if session.ready:
                    await session.slice_async(clock() + SLICE_NS)
            await asyncio.sleep(0)


async def _wait(event: asyncio.Event, seconds: float | None) -> Any:
    import asyncio

    try:
        await asyncio.wait_for(event.wait(), seconds)
    except TimeoutError:
        return


def main() -> None:
    channel, _ = enter_child()
    worker = Worker(channel)
    try:
        worker.send(Hello())
        worker.serve()
        import asyncio  # only a problem with an asynchronous expand comes here

        asyncio.run(worker.serve_async())
    except (EOFError, BrokenPipeError, ConnectionResetError):
        os._exit(0)


if __name__ == "__main__":
    main()
