"""Maintenance of a verdict cache file: counting its verdicts and removing them."""

from __future__ import annotations

import os
from contextlib import closing, suppress
from typing import TYPE_CHECKING

from msgspec import Struct

from ..errors import AiosearchError
from .cache import default_cache_path
from .verdict import Status

if TYPE_CHECKING:
    from pathlib import Path

    from .store import VerdictStore


class CacheStatistics(Struct, frozen=True):
    """What a cache file holds; `aiosearch cache` prints it."""

    path: str
    size: int = 0
    """Bytes, the write-ahead log included."""
    proved: int = 0
    refuted: int = 0
    unknown: int = 0
    damaged: int = 0
    """Rows whose checksum is wrong."""

    @property
    def entries(self) -> int:
        return self.proved + self.refuted + self.unknown


def cache_stats(path: Path | None = None) -> CacheStatistics:
    """Counts the verdicts of a cache file, the default one without a `path`; zeros without a
    file.

    Raises `AiosearchError` when it cannot be read, or is not a verdict cache.
    """
    from ..database import DamagedError, UnavailableError, is_there
    from .store import VerdictStore

    path = path or default_cache_path()
    try:
        if not is_there(path):
            return CacheStatistics(str(path))
        with closing(VerdictStore(path)) as opened:
            counts = _count(opened)
    except (DamagedError, UnavailableError) as error:
        raise AiosearchError(f"{path} cannot be read as a verdict cache: {error}") from error
    return CacheStatistics(str(path), _size(path), **counts)


def require_cache(path: Path) -> None:
    """Raises `AiosearchError` where a file that a user names is something else than a cache."""
    from ..database import ForeignError, require_ours
    from .store import FORMAT

    try:
        require_ours(path, FORMAT)
    except ForeignError as error:
        raise AiosearchError(f"{path} cannot be used as a verdict cache: {error}") from error
    except OSError:  # then verdicts stay in memory, which is told
        return


def clear_cache(path: Path | None = None) -> int:
    """Removes every verdict of a cache file and says how many there were.

    Processes that use the file go on. Raises `AiosearchError` when the file is damaged, is not
    a verdict cache or is locked.
    """
    from ..database import DamagedError, UnavailableError, is_there
    from .store import VerdictStore

    path = path or default_cache_path()
    try:
        if not is_there(path):
            return 0
        with closing(VerdictStore(path)) as opened:
            return opened.clear()
    except (DamagedError, UnavailableError) as error:
        raise AiosearchError(f"{path} cannot be cleared: {error}") from error


def _count(opened: VerdictStore) -> dict[str, int]:
    from ..database import DamagedError
    from .store import validated

    counts = dict.fromkeys([*map(str, Status), "damaged"], 0)
    for row in opened.rows():
        try:
            counts[validated(*row).status] += 1
        except DamagedError:
            counts["damaged"] += 1
    return counts


def _size(path: Path) -> int:
    size = 0
    for suffix in ("", "-wal"):
        with suppress(FileNotFoundError):
            size += os.stat(f"{path}{suffix}").st_size
    return size
