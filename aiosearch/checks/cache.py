"""Verdicts that are known already: a dictionary in front of the file of an `Archive`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

from ..folders import cache_folder
from .verdict import Reason, Status, Verdict

if TYPE_CHECKING:
    from .store import Archive

Reply: TypeAlias = Callable[[Verdict | None], None]

DEFAULT_CACHE: Final = "default"
"""Stands for the file that `default_cache_path` names."""
HOME = "verdicts.sqlite"
REMEMBERED = 200_000
"""Verdicts in the dictionary; when there are more, the oldest go (some 250 bytes each)."""
BATCH = 256
DELAY = 0.1
"""A verdict is written with up to `BATCH` - 1 others, at most this many seconds after it is known.
"""
FLEETING = {Reason.TIME_LIMIT, Reason.MEMORY_LIMIT, Reason.CRASH}
"""Unknowns that another day or another machine may not repeat: remembered, but not written."""


def default_cache_path() -> Path:
    """Gives `$XDG_CACHE_HOME/aiosearch/verdicts.sqlite`, in `~/.cache` without that variable."""
    return cache_folder() / HOME


def serves(verdict: Verdict, rlimit: int) -> bool:
    """Says whether a verdict answers a question that may spend `rlimit`: a larger budget may
    turn `unknown` into something else."""
    return verdict.status is not Status.UNKNOWN or verdict.rlimit >= rlimit


class Cache:
    """What has been answered before, in this process (`recall`) or by the file (`fetch`).

    The file's digests are loaded when it is opened, so a miss, which is the common case in a
    search, costs one look into a set. What other processes add later is not seen.
    """

    def __init__(self, path: Path | None, warn: Callable[[str], None]) -> None:
        self._verdicts: dict[bytes, Verdict] = {}
        self._stored: set[bytes] | None = None if path is not None else set()
        self._unwritten: list[tuple[bytes, Verdict]] = []
        self._wanted: dict[bytes, Reply] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._archive: Archive | None = None
        self._rows = 0
        if path is not None:
            from .store import ROWS, Archive

            self._rows = ROWS
            self._archive = Archive(path, warn, self._opened)

    def recall(self, digest: bytes, rlimit: int) -> Verdict | None:
        """Gives a remembered verdict, if it answers a question with this budget."""
        verdict = self._verdicts.get(digest)
        return verdict if verdict is not None and serves(verdict, rlimit) else None

    def may_hold(self, digest: bytes) -> bool:
        """Says whether the file is worth asking; while it is being opened, it is."""
        return self._stored is None or (digest in self._stored and digest not in self._verdicts)

    def fetch(self, digest: bytes, reply: Reply) -> None:
        """Calls `reply` with the file's verdict; one `reply` for a digest at a time.

        Whatever is asked in one turn of the loop shares one read.
        """
        if not self._wanted:
            asyncio.get_running_loop().call_soon(self._read)
        self._wanted[digest] = reply

    def put(self, digest: bytes, verdict: Verdict, *, keep: bool = True) -> None:
        """Remembers a verdict, and writes it soon if it is to `keep` and not `FLEETING`."""
        self._remember(digest, verdict)
        if self._archive is None or not keep or verdict.reason in FLEETING:
            return
        # The file drops its oldest rows beyond that many, and which ones is not known here
        if self._stored is not None and len(self._stored) < self._rows:
            self._stored.add(digest)
        self._unwritten.append((digest, verdict))
        if len(self._unwritten) >= BATCH:
            self._write()
        elif self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(DELAY, self._write)

    async def close(self) -> None:
        """Writes what is not written; nothing is answered after it."""
        self._wanted.clear()
        if self._archive is not None:
            self._write()
            await self._archive.close()

    def _remember(self, digest: bytes, verdict: Verdict) -> None:
        self._verdicts[digest] = verdict
        if len(self._verdicts) > REMEMBERED:
            # A 64th at a time, by age: dictionaries keep their order of insertion, and one deletion
            # a verdict would cost more
            for old in list(islice(self._verdicts, REMEMBERED // 64 + 1)):
                del self._verdicts[old]

    def _opened(self, digests: set[bytes]) -> None:
        """Replaces what was known of the file: it may be a new one."""
        self._stored = digests

    def _read(self) -> None:
        replies, self._wanted = self._wanted, {}
        if replies and self._archive is not None:
            self._archive.read(list(replies), lambda verdicts: self._found(replies, verdicts))

    def _found(self, replies: dict[bytes, Reply], verdicts: dict[bytes, Verdict]) -> None:
        for digest, reply in replies.items():
            verdict = verdicts.get(digest)
            if verdict is not None:
                self._remember(digest, verdict)
            reply(verdict)

    def _write(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._unwritten and self._archive is not None:
            self._archive.write(self._unwritten)
            self._unwritten = []
