"""The tables of explored keys of a machine: one for each session whose nodes have keys."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from ..engine.explore.claims import SharedClaims

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
