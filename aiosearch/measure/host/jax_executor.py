"""The executor of what jax runs on: one process owns the device, compile workers stand beside."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack, asynccontextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Self

import anyio
from msgspec import Struct
from msgspec.structs import replace

from ...pool import require_asyncio, usable_cores
from ..candidates import Array, Candidate, Compiled, Failure, Stage
from ..errors import ExecutorError
from ..executor import ROUNDS, Inputs
from ..gpu_compilation import SECONDS, is_tuned, shared_folder
from ..protocol import Build, BuildReply, ProcessReady, ProcessSettings
from ..race import LEAST_ROUNDS, Fault, Race, Way, run_race
from .device_client import GRACE, DeviceClient, fault, text_of
from .exclusive_lock import ExclusiveLock, paused
from .measuring_process import MeasuringProcess

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


class Allowance(Struct, frozen=True):
    """What one candidate may use."""

    compile_seconds: float = 60.0
    """Besides what XLA tunes on a GPU."""
    run_seconds: float = 10.0
    """Seconds for one run, wherever it is run."""
    memory_mb: int = 0
    """Megabytes; 0 for half of what the machine has. On a GPU its own memory is the limit."""


def nobody() -> Iterable[int]:
    return ()


class JaxExecutor:
    """Compiles and times on `platform`, as jax calls it: "cpu" or "cuda".

    On a CPU nothing is compiled while something is timed, and the processes that `bystanders`
    names, which must be children of this one, are paused meanwhile. On a GPU that holds of what XLA
    tunes there.
    """

    virtual = False

    def __init__(
        self,
        platform: str = "cpu",
        *,
        allowance: Allowance | None = None,
        compilers: int | None = None,
        bystanders: Callable[[], Iterable[int]] = nobody,
        ways: Sequence[Way] | None = None,
    ) -> None:
        if sys.platform == "win32":
            raise ExecutorError("aiosearch needs Unix sockets and signals, and so not Windows")
        allowance = allowance or Allowance()
        ways = usual_ways(platform) if ways is None else tuple(ways)
        self.platform = platform
        self._bystanders = bystanders
        self._compilers = _some_cores() if compilers is None else compilers
        self._allowance = allowance
        self._kept = ExitStack()
        self._settings = ProcessSettings(
            platform, allowance.compile_seconds, allowance.run_seconds, _memory(allowance), ways, -1
        )
        self._processes: list[MeasuringProcess] = []
        self._open = False

    async def __aenter__(self) -> Self:
        if self._processes:
            raise ExecutorError("an executor can be opened once")
        require_asyncio()
        self._quiet = ExclusiveLock()
        self._turn = asyncio.Lock()
        # Last in, first out: the compiler that ran last has its caches warm
        self._idle: asyncio.LifoQueue[MeasuringProcess] = asyncio.LifoQueue()
        if self.platform != "cpu":
            folder = self._kept.enter_context(shared_folder())
            self._settings = replace(self._settings, tuned=folder)
        self._device = MeasuringProcess("aiosearch.measure.worker.device_main", self._settings)
        self._processes = [self._device]
        for _ in range(self._compilers):
            compiler = MeasuringProcess("aiosearch.measure.worker.compiler_main", self._settings)
            self._processes.append(compiler)
            self._idle.put_nowait(compiler)
        allowance = self._allowance
        self._stand = DeviceClient(self._device, allowance.compile_seconds, allowance.run_seconds)
        self._open = True
        try:
            async with asyncio.TaskGroup() as group:
                for process in self._processes:
                    group.create_task(process.start())
        except BaseExceptionGroup as errors:
            await self.close()
            # One of them says enough: all start the same program on the same device
            raise errors.exceptions[0] from None
        except BaseException:
            await self.close()
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    @property
    def device(self) -> ProcessReady:
        """What the device is, as its process says."""
        assert self._device.ready is not None
        return self._device.ready

    @property
    def pids(self) -> tuple[int, ...]:
        """The processes that live now, that of the device first."""
        return tuple(process.pid for process in self._processes if process.pid)

    @property
    def restarts(self) -> int:
        """How many processes were replaced."""
        return sum(max(process.starts - 1, 0) for process in self._processes)

    async def compile(self, candidate: Candidate) -> Compiled | Failure:
        """Compiles a candidate in a worker process, as soon as one is free."""
        self._require_open()
        async with self._quiet.busy():
            compiler = await self._idle.get()
            try:
                async with self._tuning(candidate):
                    return await self._compile(compiler, candidate)
            finally:
                self._idle.put_nowait(compiler)

    async def run(self, compiled: Compiled, inputs: Inputs) -> tuple[Array, ...] | Failure:
        """Runs a candidate once, on the device itself."""
        self._require_open()
        async with self._turn:
            return await self._stand.run(compiled, inputs)

    async def race(
        self,
        contenders: Sequence[Compiled],
        *,
        seed: int = 0,
        rounds: int = ROUNDS,
        seconds: float | None = None,
        deciding: bool = False,
        least: int = LEAST_ROUNDS,
    ) -> Race:
        """Times candidates in turns, the first one twice; see `run_race`."""
        self._require_open()
        async with self._turn, self._silence():
            clock = time.monotonic
            return await run_race(
                self._stand, contenders, seed, rounds, seconds, clock, deciding, least
            )

    async def close(self) -> None:
        """Ends every process and returns when it is gone. What still waits for them fails."""
        if not self._processes:
            return
        self._open = False
        for process in self._processes:
            process.refuse()
        with anyio.CancelScope(shield=True):
            async with self._turn:  # whoever has it is told so, and what he uses stays until then
                for process in self._processes:
                    await process.close()
                self._kept.close()

    @asynccontextmanager
    async def _silence(self) -> AsyncIterator[None]:
        if self.platform != "cpu":
            yield
            return
        async with self._quiet.alone():
            with ExitStack() as stack:
                compilers = [process.pid for process in self._processes[1:] if process.pid]
                stack.enter_context(paused([*compilers, *self._bystanders()]))
                yield

    @asynccontextmanager
    async def _tuning(self, candidate: Candidate) -> AsyncIterator[None]:
        """Has the device where XLA will time something on it."""
        if not self._is_tuned(candidate):
            yield
            return
        async with self._turn:
            self._require_open()
            yield

    def _is_tuned(self, candidate: Candidate) -> bool:
        return self.platform != "cpu" and is_tuned(candidate.source)

    async def _compile(
        self, compiler: MeasuringProcess, candidate: Candidate
    ) -> Compiled | Failure:
        outcome = await self._tried(compiler, candidate)
        # Killed is not its fault: the system may have been out of memory because of others
        if isinstance(outcome, Fault) and outcome.killed:
            outcome = await self._tried(compiler, candidate)
        return outcome.final if isinstance(outcome, Fault) else outcome

    async def _tried(self, compiler: MeasuringProcess, candidate: Candidate) -> Compiled | Fault:
        await compiler.start()
        started = time.monotonic()
        seconds = self._allowance.compile_seconds + SECONDS * self._is_tuned(candidate)
        reply = await compiler.ask(Build(text_of(candidate), seconds), seconds + GRACE)
        if not isinstance(reply, BuildReply):
            return fault(candidate, Stage.COMPILE, reply)
        took = time.monotonic() - started
        return Compiled(candidate, took, reply.executable, reply.looped)

    def _require_open(self) -> None:
        if not self._open:
            raise ExecutorError("the executor is not open")


def usual_ways(platform: str) -> tuple[Way, ...]:
    """How candidates are timed there: on a CPU a call costs microseconds, and shares threads with
    the calls around it; on a GPU it may cost more than what it starts, so that only a loop inside
    one call tells."""
    if platform == "cpu":
        return (Way.HOT, Way.COLD, Way.QUEUED, Way.ALTERNATED)
    return (Way.HOT, Way.COLD, Way.LOOPED)


def _some_cores() -> int:
    """How many compilers to have: each takes some 200 MB, and more than one core."""
    return max(1, min(4, usable_cores() // 2))


def _memory(allowance: Allowance) -> int:
    if allowance.memory_mb:
        return allowance.memory_mb
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2 >> 20
