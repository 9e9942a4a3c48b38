"""A proxy on loopback for everything that can happen to a connection on its way."""

from __future__ import annotations

import asyncio
import contextlib

PIECE = 64 * 1024


class Proxy:
    """Passes connections on to a port, as long as nothing else is said."""

    def __init__(self, target: int) -> None:
        self.port = 0
        self._target = target
        self._delay = 0.0
        self._open = asyncio.Event()
        self._open.set()
        self._dead = False
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    @classmethod
    async def start(cls, target: int) -> Proxy:
        proxy = cls(target)
        proxy._server = await asyncio.start_server(proxy._accept, "127.0.0.1", 0)
        proxy.port = proxy._server.sockets[0].getsockname()[1]
        return proxy

    def hold(self) -> None:
        """Nothing passes until `release`; then all of it does."""
        self._open.clear()

    def release(self) -> None:
        self._open.set()

    def slow(self, seconds: float) -> None:
        """Every piece takes so long."""
        self._delay = seconds

    def cut(self) -> None:
        """Nothing passes any more, and neither end is told."""
        self._dead = True

    async def close(self) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            further, back = await asyncio.open_connection("127.0.0.1", self._target)
        except OSError:
            writer.close()
            return
        for source, sink in ((reader, back), (further, writer)):
            task = asyncio.get_running_loop().create_task(self._pass(source, sink))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _pass(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            try:
                while piece := await source.read(PIECE):
                    await self._open.wait()
                    if self._dead:
                        await asyncio.get_running_loop().create_future()
                    await asyncio.sleep(self._delay)
                    sink.write(piece)
                    await sink.drain()
            finally:
                sink.close()
