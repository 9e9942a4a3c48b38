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
    limit: int = 0
    """Verdicts that the file keeps at most: the newest."""
    oldest: float | None = None
    """When the oldest was written, in seconds since 1970; None where that is not known."""

    @property
    def entries(self) -> int:
        return self.proved + self.refuted + self.unknown


def cache_stats(path: Path | None = None) -> CacheStatistics:
    """Counts the verdicts of a cache file, the default one without a `path`; zeros without a
    file.

    Raises `AiosearchError` when it cannot be read, or is not a verdict cache.
    """
    from ..database import DamagedError, UnavailableError, is_there
    from .store import ROWS, VerdictStore

    path = path or default_cache_path()
    try:
        if not is_there(path):
            return CacheStatistics(str(path), limit=ROWS)
        with closing(VerdictStore(path)) as opened:
            counts, oldest = _count(opened), opened.oldest()
    except (DamagedError, UnavailableError) as error:
        raise AiosearchError(f"{path} cannot be read as a verdict cache: {error}") from error
    return CacheStatistics(str(path), _size(path), limit=ROWS, oldest=oldest, **counts)


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


def clear_cache(
    path: Path | None = None, *, before: float | None = None, keep: int | None = None
) -> int:
    """Removes every verdict of a cache file and says how many there were.

    With `before`, only what was written before that time, in seconds since 1970; with `keep`, all
    but so many of the newest. Processes that use the file go on. Raises `AiosearchError` when the
    file is damaged, is not a verdict cache or is locked.
    """
    from ..database import DamagedError, UnavailableError, is_there
    from .store import VerdictStore

    path = path or default_cache_path()
    try:
        if not is_there(path):
            return 0
        with closing(VerdictStore(path)) as opened:
            if before is not None:
                return opened.remove_before(before)
            return opened.clear() if keep is None else opened.keep(keep)
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
