"""The cache of object code on disk, with marks of programs that passed their guarded run.

The files are code that this process will run, so trust matters more than speed: a file counts only
if its folder and itself belong to the user alone, and if its checksum matches its name and content.
"""

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
"""Bytes on disk; beyond, the least recently used files are removed until half of it is left."""
_CHECKSUM_BYTES = 32
"""Bytes of the checksum, of name and content, that each file begins with."""


def default_objects_path() -> Path:
    """`$XDG_CACHE_HOME/aiosearch/objects`, with `~/.cache` by default."""
    return cache_folder() / "objects"


class ObjectCache:
    """A `folder` of object code, which any number of processes may use at once.

    A damaged file, or one under another name, counts as absent, and a folder that cannot be used as
    empty. So do files and folders that other users can write.
    """

    def __init__(self, folder: Path, limit: int = CACHE_LIMIT_BYTES) -> None:
        self.folder = folder
        self._limit = limit
        self._growth = limit  # so that the first one that is kept looks how much there is

    def get(self, digest: str, make: Callable[[], bytes]) -> bytes:
        """The code under a digest, or what `make` returns, which is kept."""
        code = self._read(self._object(digest))
        if code is None:
            code = make()
            self._write(self._object(digest), code)
        return code

    def trusts(self, digest: str, code: bytes) -> bool:
        """Whether exactly this `code` has passed its guarded run."""
        return self._read(self._trial(digest)) == _checksum(code)

    def trust(self, digest: str, code: bytes) -> None:
        """Records that this `code` has passed its guarded run."""
        self._write(self._trial(digest), _checksum(code))

    def _object(self, digest: str) -> Path:
        """The path of object code."""
        return self.folder / f"{digest}.o"

    def _trial(self, digest: str) -> Path:
        """The path of the record that `trust` writes."""
        return self.folder / f"{digest}.tried"

    def _read(self, path: Path) -> bytes | None:
        """The content of a file; `None` unless it can be trusted."""
        try:
            with path.open("rb") as file:
                # The open file is checked, not its path, which could be replaced between check and
                # read.
                if not self._is_own or is_shared(os.fstat(file.fileno())):
                    return None
                whole = file.read()
        except OSError:
            return None
        with suppress(OSError):  # it may be read where it may not be changed
            os.utime(path)
        content = whole[_CHECKSUM_BYTES:]
        return content if whole[:_CHECKSUM_BYTES] == _signed(path, content) else None

    @cached_property
    def _is_own(self) -> bool:
        """Whether nobody else can put files into the folder."""
        return shared(self.folder) is None

    def _write(self, path: Path, content: bytes) -> None:
        """Writes a whole file atomically, or none."""
        with suppress(OSError):
            make_folder(self.folder)
            if not self._is_own:
                return
            replace_file(path, _signed(path, content) + content, mode=0o600)
            self._grown(len(content))

    def _grown(self, size: int) -> None:
        """Counts what was written, and looks from time to time whether the folder is too large."""
        self._growth += size
        # Listing the folder at every write would cost more than it saves.
        if self._growth > self._limit // 4:
            self._growth = 0
            self._shrink()

    def _shrink(self) -> None:
        """Removes the least recently used files."""
        with os.scandir(self.folder) as entries:
            files = [
                (entry.stat().st_mtime_ns, entry.stat().st_size, entry.path) for entry in entries
            ]
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
    """The cache of a `folder`, one per process."""
    return ObjectCache(folder)


def _signed(path: Path, content: bytes) -> bytes:
    """The checksum of name and content, as `ObjectCache._read` expects it at the begin of a
    file."""
    return _checksum(path.name.encode() + b"\0" + content)


def _checksum(content: bytes) -> bytes:
    """The SHA-256 hash."""
    return hashlib.sha256(content).digest()
