"""Where aiosearch keeps what it remembers for a user."""

from __future__ import annotations

import os
import secrets
import shutil
import stat
from contextlib import suppress
from pathlib import Path

NOWHERE = Path(os.devnull)
"""Stands for a folder where there is none: nothing is in it, and nothing can be made in it."""


def cache_folder() -> Path:
    """Gives `$XDG_CACHE_HOME/aiosearch`, in `~/.cache` without that variable.

    In a container a user may have no home; then nothing can be kept there.
    """
    base = Path(os.environ.get("XDG_CACHE_HOME", ""))
    if not base.is_absolute():
        try:
            base = Path.home() / ".cache"
        except RuntimeError:
            base = NOWHERE
    return base / "aiosearch"


def nearest_above(path: Path) -> Path:
    """The lowest of the folders above `path` that exists, which may be no folder."""
    return next(folder for folder in path.absolute().parents if os.path.exists(folder))


def make_folder(path: Path) -> None:
    """Makes a folder that is its user's alone, whatever the umask says; one that is there
    stays.

    So are those above it that are not there yet. Raises `OSError`.
    """
    if NOWHERE in path.parents:
        raise OSError("this user has no home folder, and XDG_CACHE_HOME is not set")
    for folder in (*reversed(path.parents), path):
        if not folder.exists():
            folder.mkdir(mode=0o700, exist_ok=True)


def replace_file(path: Path, content: bytes, mode: int = 0o666) -> None:
    """Puts a whole file in the place of what is there, or changes nothing. Raises `OSError`.

    A new file has this `mode`, as far as the umask lets it; one that was there keeps its own.
    """
    growing = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        growing.touch(mode=mode)
        with suppress(FileNotFoundError):
            shutil.copymode(path, growing)
        growing.write_bytes(content)
        # In one step: whoever reads finds the old file or the new one
        growing.replace(path)
    finally:
        growing.unlink(missing_ok=True)


def is_shared(status: os.stat_result) -> bool:
    """Whether others than the user and root can write what has this `status`."""
    writable = status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    return bool(writable) or status.st_uid not in (os.geteuid(), 0)


def shared(folder: Path) -> Path | None:
    """The folder, or one above it, in which others could put something else in its place; None
    where they could not.

    Those above may be shared where nobody can move what is another's (the sticky bit). Raises
    `OSError`.
    """
    folder = folder.resolve()
    for place in (folder, *folder.parents):
        status = place.stat()
        sticky = status.st_mode & stat.S_ISVTX and place != folder
        if is_shared(status) and not (sticky and status.st_uid in (os.geteuid(), 0)):
            return place
    return None
