"""`aiosearch worker`: lends this machine to a search elsewhere."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio

from ...errors import AiosearchError
from ...pool import MOST_PATIENCE, MOST_WORKERS, usable_cores
from ...remote.agent import Agent
from ...remote.links import Link, LostError, Transport, UnwelcomeError, find_transport
from ..output.streams import Exit, UsageError, complain, dated_messages, logs_to_stderr, tell
from ..output.units import of
from ..signals import Interrupts
from .search import fastest_loop

if TYPE_CHECKING:
    from ..commands.worker import WorkerArguments


SHORTEST, LONGEST = 0.2, 10.0
"""Seconds between attempts to connect."""


def run(arguments: WorkerArguments) -> int:
    """Serves, and gives the exit code."""
    for name in ("workers", "checkers"):
        count = getattr(arguments, name)
        least = int(name == "workers")
        if count is not None and not least <= count <= MOST_WORKERS:
            raise UsageError(f"--{name} must be from {least} to {MOST_WORKERS}, not {count}")
    if not 0 < arguments.patience <= MOST_PATIENCE:
        raise UsageError(
            f"--patience must be above 0 seconds and a day at most, not {arguments.patience:g}"
        )
    if not arguments.connect.strip():
        raise UsageError("--connect takes an address, HOST:PORT, not an empty one")
    token = Path(arguments.token_file).expanduser() if arguments.token_file else None
    workers = arguments.workers or usable_cores()
    checkers = workers if arguments.checkers is None else arguments.checkers
    service = WorkerService(
        find_transport(arguments.transport),
        arguments.connect,
        token,
        workers,
        checkers,
        arguments.name,
        arguments.stay,
        arguments.patience,
    )
    with (
        dated_messages(),
        logs_to_stderr(False),
        asyncio.Runner(loop_factory=fastest_loop()) as runner,
    ):
        try:
            return runner.run(service.run())
        except KeyboardInterrupt:
            tell("interrupted; the search does again what was not reported")
            return Exit.INTERRUPTED


@dataclass
class WorkerService:
    """This machine, for as long as there is a search that wants it."""

    transport: Transport
    address: str
    token: Path | None
    workers: int
    checkers: int
    name: str
    stay: bool
    patience: float
    _agent: Agent | None = None
    _leaving: bool = False
    _calling: anyio.CancelScope | None = None

    async def run(self) -> Exit:
        """Connects and serves, again where the connection is lost."""
        task: Any = asyncio.current_task()
        with Interrupts(self._leave, partial(_cancel, task)):
            try:
                return await self._serve()
            except asyncio.CancelledError:
                tell("interrupted; the search does again what was not reported")
                return Exit.INTERRUPTED

    async def _serve(self) -> Exit:
        while not self._leaving:
            link = await self._connected()
            if link is None:
                break
            if self._leaving:  # it was told so in the moment in which the call got through
                link.close()
                break
            try:
                tell(f"serving {link.peer} with {of(self.workers, 'worker')}")
                agent = Agent(link, self.workers, self.checkers, self.name, self.patience)
                self._agent = agent
                farewell = await agent.serve()
            except UnwelcomeError as error:
                complain(str(error))
                return Exit.FAILED
            except LostError as error:
                tell(f"{error}; connecting again")
                continue
            finally:
                self._agent = None
            tell(farewell.reason)
            if agent.turned_away:
                complain("no worker of this machine could serve, for the reason above")
            if not self.stay:
                return Exit.FAILED if agent.turned_away else Exit.FINE
        return Exit.INTERRUPTED

    async def _connected(self) -> Link | None:
        """A link, however long it takes; none where this machine is to leave before."""
        pause, last_error = SHORTEST, ""
        with anyio.CancelScope() as self._calling:
            while True:
                try:
                    return await self.transport.connect(self.address, self.token)
                except UnwelcomeError:
                    raise
                except AiosearchError as error:
                    if str(error) != last_error:
                        last_error = str(error)
                        tell(f"{last_error}; trying again until it is there")
                await asyncio.sleep(pause)
                pause = min(2 * pause, LONGEST)
        return None

    def _leave(self) -> None:
        self._leaving = True
        if self._calling is not None:
            self._calling.cancel()
        if self._agent is not None:
            tell("giving back what is open; once more ends at once")
            self._agent.leave()


def _cancel(task: asyncio.Task[Exit]) -> None:
    task.cancel()
