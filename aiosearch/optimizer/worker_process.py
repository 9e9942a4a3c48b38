"""Request and response with a worker process: the host's end (`WorkerProcess`) and the process's
end (`serve_requests`)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import anyio
from msgspec import Struct

from ..processes.child import Child
from ..processes.frames import Channel
from ..processes.patience import Patience
from .errors import OptimizeError

BROOD = "programs"
"""Apart from those that compile and time: they import what these do not, jax, and at the same time.
"""


class RequestFailed(Struct, frozen=True, tag=True):
    """There is no answer, and why."""

    reason: str


class WorkerGone(OptimizeError):
    """The process is gone, which need not be for what it was asked: it may be tried again."""


class WorkerProcess:
    """The host's end: what the process says is heard in order, by whoever calls `hear`."""

    def __init__(
        self, module: str, does: str, files: tuple[int, ...], arguments: tuple[str, ...]
    ) -> None:
        self._module, self._does = module, does
        self._files, self._arguments = files, arguments
        self._heard: asyncio.Queue[bytes | None]
        self._child: Child

    @property
    def pid(self) -> int:
        return self._child.pid

    async def begin(self) -> None:
        """Starts the process; a second time, another one that knows nothing."""
        heard = self._heard = asyncio.Queue()
        self._child = await Child.spawn(
            self._module,
            heard.put_nowait,
            lambda: heard.put_nowait(None),
            self._files,
            self._arguments,
            BROOD,
        )

    def send(self, payload: bytes) -> None:
        self._child.send(payload)

    async def hear(self) -> bytes:
        """The next message; raises `WorkerGone` where the process has died, or is stopped and stays
        so."""
        payload = await self._next()
        if payload is None:
            self._heard.put_nowait(None)  # whoever asks again hears the same
            await self.end()
            raise WorkerGone(f"the process that {self._does} has died")
        return payload

    async def _next(self) -> bytes | None:
        answer = asyncio.ensure_future(self._heard.get())
        try:
            # As long as the process lives; one that is stopped and stays so is given up.
            late = await Patience(self.pid).until(answer)
            return answer.result() if late is None else None
        finally:
            answer.cancel()

    async def end(self) -> None:
        self._child.kill()
        # Also where the caller is cancelled: no process is left behind.
        with anyio.CancelScope(shield=True):
            await self._child.reap()


@asynccontextmanager
async def worker_process(
    module: str, does: str, files: tuple[int, ...] = (), arguments: tuple[str, ...] = ()
) -> AsyncIterator[WorkerProcess]:
    """A process that runs `module`, and is gone afterwards; `does` says in words what for."""
    process = WorkerProcess(module, does, files, arguments)
    await process.begin()
    try:
        yield process
    finally:
        await process.end()


def serve_requests(channel: Channel, answer: Callable[[bytes], bytes]) -> None:
    """The process's end: answers requests until the host goes away or kills it."""
    try:
        while True:
            for payload in channel.receive():
                channel.send(answer(payload))
    except (EOFError, ConnectionError):
        return
