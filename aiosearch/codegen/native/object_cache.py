"""The cache of object code on disk, with marks of programs that passed their guarded run."""

from __future__ import annotations

import functools
import hashlib
import os
from collections.abc import Callable
from contextlib import suppress
from functools import cached_property
from pathlib import Path

from ...folders import cache_folder, is_shared, make_folder, replace_file, shared

CACHE_LIMIT_BYTES = 256 << 20
"""Bytes on disk; what was not used for longest goes first, down to half of it."""
_CHECKSUM_BYTES = 32
"""Bytes of the check sum that each file begins with: of its name and of what follows."""


def default_objects_path() -> Path:
    """Gives `$XDG_CACHE_HOME/aiosearch/objects`, in `~/.cache` without that variable."""
    return cache_folder() / "objects"


class ObjectCache:
    """A folder of object code, which any number of processes may use at once.

    A file that is damaged or has another one's name counts as absent, and a folder that cannot be
    used as empty. So do those that others can write: what lies in them is run.
    """

    def __init__(self, folder: Path, limit: int = CACHE_LIMIT_BYTES) -> None:
        self.folder = folder
        self._limit = limit
        self._growth = limit  # so that the first one that is kept looks how much there is

    def get(self, digest: str, make: Callable[[], bytes]) -> bytes:
        """Gives what was kept, or makes it and keeps it."""
        found = self._read(self._object(digest))
        if found is None:
            found = make()
            self._write(self._object(digest), found)
        return found

    def trusts(self, digest: str, code: bytes) -> bool:
        """Whether exactly this code was tried and harmed nothing."""
        return self._read(self._trial(digest)) == _checksum(code)

    def trust(self, digest: str, code: bytes) -> None:
        """Remembers that this code was tried."""
        self._write(self._trial(digest), _checksum(code))

    def _object(self, digest: str) -> Path:
        return self.folder / f"{digest}.o"

    def _trial(self, digest: str) -> Path:
        return self.folder / f"{digest}.tried"

    def _read(self, path: Path) -> bytes | None:
        try:
            with path.open("rb") as file:
                if not self._is_own or is_shared(os.fstat(file.fileno())):
                    return None
                whole = file.read()
        except OSError:
            return None
        with suppress(OSError):  # it may be read where it may not be changed
            os.utime(path)
        found = whole[_CHECKSUM_BYTES:]
        return found if whole[:_CHECKSUM_BYTES] == _signed(path, found) else None

    @cached_property
    def _is_own(self) -> bool:
        """Whether nobody else can put anything into the folder, which is there."""
        return shared(self.folder) is None

    def _write(self, path: Path, content: bytes) -> None:
        """Puts a whole file in place, or none."""
        with suppress(OSError):
            make_folder(self.folder)
            if not self._is_own:
                return
            replace_file(path, _signed(path, content) + content, mode=0o600)
            self._grown(len(content))

    def _grown(self, size: int) -> None:
        self._growth += size
        if self._growth > self._limit // 4:
            self._growth = 0
            self._shrink()

    def _shrink(self) -> None:
        with os.scandir(self.folder) as entries:
            files = [(each.stat().st_mtime_ns, each.stat().st_size, each.path) for each in entries]
        total = sum(size for _, size, _ in files)
        if total <= self._limit:
            return
        for _, size, path in sorted(files):
            Path(path).unlink(missing_ok=True)
            total -= size
            if total <= self._limit // 2:
                return


@functools.cache
def object_cache_in(folder: Path) -> ObjectCache:
    """Gives the one of this process for a folder."""
    return ObjectCache(folder)


def _signed(path: Path, content: bytes) -> bytes:
    return _checksum(path.name.encode() + b"\0" + content)


def _checksum(content: bytes) -> bytes:
    return hashlib.sha256(content).digest()
