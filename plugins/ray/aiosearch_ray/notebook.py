"""The search's side of the `Notes` actor, which hears what is new and is replaced if it dies."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
from collections.abc import Iterable

from aiosearch import AiosearchError
from aiosearch.checks.verdict import Verdict
from aiosearch.remote.links import LostError
from aiosearch.remote.notebooks import Known, Standing

from .cluster import Cluster, RemoteNotes
from .notes import KeptVerdicts, Standings, encode, parts

GATHER_SECONDS = 0.1
"""Seconds; what comes in such a time travels together."""
LOOK_SECONDS = 2.0
"""Seconds without anything to write after which an actor is asked whether it is there."""
PATIENCE = 30.0
"""Seconds that a kept actor may take to tell what it knows."""
LINGER_SECONDS = 5.0
"""Seconds that a kept actor may take in the end to hear what is new, or everything."""
SHORTEST, LONGEST = 0.5, 10.0
"""Seconds between one actor and the next: twice as many after each that could not be written to."""

_log = logging.getLogger("aiosearch")


class RayNotebook:
    """Has everything that was noted itself as well, and fills an actor that takes another's place.

    Without a name to `keep` it by, the actor has one of its own and ends with its listener.
    """

    def __init__(self, cluster: Cluster, keep: str | None) -> None:
        self.name = f"aiosearch-{secrets.token_hex(4)}" if keep is None else keep
        self._cluster = cluster
        self._keep = keep is not None
        self._writer = secrets.token_hex(4)  # a kept actor hears of many with equal numbers
        self._notes: RemoteNotes | None = None
        self._kept, self._new = KeptVerdicts(), KeptVerdicts()
        self._standings = Standings()
        self._unsaid: set[str] = set()
        self._news = asyncio.Event()
        self._warned = False
        self._writing: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Makes the actor, or reads what a kept one knows; raises `AiosearchError` if it cannot."""
        try:
            self._notes = await self._cluster.notes(self.name, self._keep)
            if self._keep:
                async with asyncio.timeout(PATIENCE):
                    await self._read(self._notes)
        except (AttributeError, ValueError, LostError, TimeoutError) as error:
            what = str(error) or "it does not answer"
            raise AiosearchError(f"{self.name!r} cannot name a search's actor: {what}") from error
        self._writing = asyncio.get_running_loop().create_task(self._keep_up())

    async def close(self) -> None:
        """Ends the actor, or has it know everything. Safe to call twice."""
        if self._writing is None:
            return
        self._writing.cancel()
        await asyncio.gather(self._writing, return_exceptions=True)
        self._writing = None
        if self._keep:
            await self._say_last()
        elif self._notes is not None:
            await self._cluster.kill(self._notes)

    def known(self) -> Iterable[Known]:
        return self._kept.all()

    def judged(self, digest: bytes, verdict: Verdict) -> None:
        self._kept.add([(digest, verdict)])
        self._new.add([(digest, verdict)])
        self._news.set()

    def stands(self, session: int, standing: Standing) -> None:
        name = f"{self._writer}-{session}"
        self._standings.add({name: standing})
        self._unsaid.add(name)
        self._news.set()

    async def _read(self, notes: RemoteNotes) -> None:
        async for part in parts(notes):
            self._kept.add(part)

    async def _keep_up(self) -> None:
        pause = SHORTEST
        while True:
            try:
                await self._turn()
                pause = SHORTEST
            except Exception as error:
                self._lose(error)
                await asyncio.sleep(pause)
                pause = min(2 * pause, LONGEST)

    async def _turn(self) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LOOK_SECONDS):
                await self._news.wait()
        await asyncio.sleep(GATHER_SECONDS)
        self._news.clear()
        await self._write()

    async def _write(self) -> None:
        """Writes what is new, if anything: a part at a time."""
        if self._notes is None:
            self._notes = await self._cluster.notes(self.name, self._keep)
        unsent = True
        while unsent:
            part, unsaid = self._new.part(), self._unsaid
            self._unsaid = set()
            by_name = self._standings.by_name
            standings = {name: by_name[name] for name in unsaid if name in by_name}
            await self._notes.write(encode(part), encode(standings))
            self._new.remove(part)
            unsent = bool(self._new or self._unsaid)

    def _lose(self, error: Exception) -> None:
        """Has everything written again: the next actor knows nothing."""
        if not self._warned:
            self._warned = True
            _log.warning("the actor %s is lost: %s; another takes its place", self.name, error)
        if self._notes is not None:  # else all of it waits already
            self._notes = None
            self._new.add(self._kept.all())
        self._unsaid.update(self._standings.by_name)
        self._news.set()

    async def _say_last(self) -> None:
        self._unsaid.update(self._standings.by_name)  # what was under way may not have arrived
        try:
            async with asyncio.timeout(LINGER_SECONDS):
                await self._say_or_say_again()
        except (AiosearchError, AttributeError, ValueError, TimeoutError) as error:
            why = str(error) or "it does not answer"
            _log.warning("the actor %s does not know everything: %s", self.name, why)

    async def _say_or_say_again(self) -> None:
        try:
            await self._write()
        except LostError as error:
            self._lose(error)
            await self._write()
