"""The host's handle on one process that compiles or times, through all its lives.

The process may die of what it is asked: a candidate may crash the compiler, run for ever or take
all memory. `_autopsy` tells these apart from what is left of it: the exit status, its last words in
a log file, and whether its own `alarm` or the host's `Patience` ended it.
"""

from __future__ import annotations

import asyncio
import os
import signal

from msgspec import Struct
from msgspec.structs import replace

from ...processes.child import Child
from ...processes.patience import Late, Patience
from ..candidates import Cause
from ..errors import ExecutorError, says_out_of_memory
from ..protocol import (
    ProcessBroken,
    ProcessReady,
    ProcessSettings,
    Reply,
    Request,
    decode_reply,
    encode,
    encode_settings,
)
from ..shared_arrays import SharedArrays, nameless_file

BROOD = "jax"
START_SECONDS = 120.0
"""Seconds; loading jax takes one or two, and on a machine this slow no figure would mean anything.
"""
START_TRIES = 3
_LAST_WORDS = 4096


class ProcessLost(Struct, frozen=True):
    """The process has died of what it was asked."""

    cause: Cause
    message: str
    killed: bool = False
    """Whether somebody killed it, which need not be for what it was asked: then it is tried
    again."""


class MeasuringProcess:
    """Serves one request at a time; whoever asks calls `start` before, and again when it has
    died."""

    def __init__(self, module: str, settings: ProcessSettings) -> None:
        self.letterbox = SharedArrays(nameless_file("aiosearch-arrays"))
        self.starts = 0
        self.ready: ProcessReady | None = None
        self._module = module
        self._settings = replace(settings, letterbox=self.letterbox.fd)
        self._child: Child | None = None
        self._log = -1
        self._reply: asyncio.Future[Reply | None] | None = None
        self._killed: list[Child] = []
        self._closed = False

    @property
    def pid(self) -> int:
        """The process that lives now, or 0."""
        return self._child.pid if self._child is not None and self._child.alive else 0

    async def ask(self, request: Request, patience: float) -> Reply | ProcessLost:
        """Gives the answer, or how the process died. When cancelled, the process is killed
        at once.

        `patience` is for the rare process that its own `alarm` could not end: so many
        seconds after it last announced a runner. One that is stopped is waited for less
        long.
        """
        try:
            return await self._exchange(encode(request), patience)
        except BaseException:
            await self.end()
            raise

    async def start(self) -> None:
        """Returns when the process is ready; raises `ExecutorError` where it cannot be."""
        if self._child is not None and not self._child.alive:
            await self.end()
        tries = 0
        while self._child is None:
            try:
                lost = await self._begin()
            except BaseException:
                await self.end()
                raise
            tries += 1
            if lost is not None and tries == START_TRIES:
                raise ExecutorError(f"{self._module} dies while it starts: {lost.message}")

    async def end(self) -> None:
        """Kills the process and waits until it is gone; it will be started again when needed."""
        child, self._child = self._child, None
        if child is not None:
            child.kill()
            self._killed.append(child)
        if self._log >= 0:
            os.close(self._log)
            self._log = -1
        while self._killed:  # whoever is cancelled here leaves it to the next one
            await self._killed[-1].reap()
            self._killed = [child_ for child_ in self._killed if child_.returncode is None]

    async def close(self) -> None:
        """Ends it for good."""
        self.refuse()
        await self.end()
        if self.letterbox.fd >= 0:
            os.close(self.letterbox.fd)
            self.letterbox.fd = -1

    def refuse(self) -> None:
        """Lets nothing begin from now on, and breaks off what goes on; `close` follows."""
        self._closed = True
        if self._child is not None:
            self._child.kill()

    async def _begin(self) -> ProcessLost | None:
        if self._closed:
            raise ExecutorError("the executor is closed")
        self._log = nameless_file("aiosearch-log")
        self._reply = asyncio.get_running_loop().create_future()
        arguments = (str(self._log), encode_settings(self._settings).decode())
        files = (self._log, self.letterbox.fd)
        try:
            self._child = await Child.spawn(
                self._module, self._on_frame, self._on_gone, files, arguments, BROOD
            )
        except OSError as error:
            raise ExecutorError(f"cannot start a process: {error}") from error
        if self._closed:  # while it was started
            raise ExecutorError("the executor is closed")
        self.starts += 1
        return self._started(await self._answer(self._child, START_SECONDS))

    def _started(self, reply: Reply | ProcessLost) -> ProcessLost | None:
        if isinstance(reply, ProcessLost):
            return reply
        if isinstance(reply, ProcessBroken):
            raise ExecutorError(f"no device {self._settings.platform}: {reply.reason}")
        assert isinstance(reply, ProcessReady)
        self.ready = reply
        return None

    async def _exchange(self, payload: bytes, patience: float) -> Reply | ProcessLost:
        child = self._child
        if child is None:
            return ProcessLost(Cause.CRASHED, "the process is gone")
        self._reply = asyncio.get_running_loop().create_future()
        child.send(payload)
        # It died before the future was there for `_on_gone` to find
        if not child.alive:
            self._on_gone()
        return await self._answer(child, patience)

    async def _answer(self, child: Child, patience: float) -> Reply | ProcessLost:
        assert self._reply is not None
        wait = Patience(child.pid, patience, self.letterbox.sign)
        late = await wait.until(self._reply)
        if late is None and (reply := self._reply.result()) is not None:
            return reply
        child.kill()
        await child.reap()
        lost = self._autopsy(child.returncode, late, wait.interrupted)
        await self.end()
        return lost

    def _autopsy(self, code: int | None, late: Late | None, interrupted: bool) -> ProcessLost:
        if self._closed:
            raise ExecutorError("the executor was closed")
        words = _last_words(self._log)
        if late is not None:
            return ProcessLost(Cause.HUNG, late.value, late is Late.STOPPED or interrupted)
        if code == -signal.SIGALRM:  # which goes by the clock, also while everybody stands still
            return ProcessLost(Cause.HUNG, Late.WORKING.value, killed=interrupted)
        if says_out_of_memory(words):
            return ProcessLost(Cause.MEMORY, _quoted(code, words), code == -signal.SIGKILL)
        # Nobody here sends SIGKILL without knowing why: it was the kernel's out-of-memory killer,
        # or a person
        if code == -signal.SIGKILL:
            return ProcessLost(
                Cause.MEMORY, "it was killed, as a system does where memory runs out", True
            )
        return ProcessLost(Cause.CRASHED, _quoted(code, words))

    def _on_frame(self, payload: bytes) -> None:
        if self._reply is not None and not self._reply.done():
            self._reply.set_result(decode_reply(payload))

    def _on_gone(self) -> None:
        if self._reply is not None and not self._reply.done():
            self._reply.set_result(None)


def _last_words(log: int) -> str:
    size = os.fstat(log).st_size
    return os.pread(log, _LAST_WORDS, max(0, size - _LAST_WORDS)).decode(errors="replace")


def _quoted(code: int | None, words: str) -> str:
    died = f"signal {-code}" if code is not None and code < 0 else f"exit status {code}"
    lines = [line for line in words.splitlines() if line.strip()]
    return f"{died}: {lines[-1].strip()}" if lines else died
