"""A file that one process at a time appends to, each piece whole or not at all."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
from typing import TYPE_CHECKING

import aiofiles

from ...errors import JournalError

if TYPE_CHECKING:
    from pathlib import Path

    from aiofiles.threadpool.binary import AsyncFileIO


class OwnedFile:
    """A file held by an exclusive `flock`, which goes with it when it replaces another.

    Nothing is buffered in the process: when `append` returns, killing the process loses
    nothing.
    """

    def __init__(self, file: AsyncFileIO, path: Path) -> None:
        self._file = file
        self._path = path
        self.size = os.fstat(file.fileno()).st_size

    @classmethod
    async def make(cls, path: Path, data: bytes) -> OwnedFile:
        """Makes a file that holds the `data` from its first moment on."""
        require_ordinary(path)
        # The name is taken first, empty and locked, so that two searches cannot both write beside
        # it
        place = await cls.create(path)
        try:
            if place.size:
                raise JournalError(
                    f"{path} is there already: if it is a journal, go on with it (--resume); "
                    "else take another name, or remove it"
                )
            beside(path).unlink(missing_ok=True)
            file = await cls.create(beside(path))
            try:
                await file.append(data)
                await file.sync()
                await file.replace(path)
            except BaseException as error:
                if isinstance(error, OSError):
                    await asyncio.to_thread(_discard, path)
                await file.close()
                raise
        finally:
            await place.close()
        return file

    @classmethod
    async def create(cls, path: Path) -> OwnedFile:
        """Opens a file, making it if need be. Raises `JournalError` while another process
        has it."""
        return cls(await aiofiles.open(path, "ab", buffering=0, opener=_locked), path)

    @classmethod
    async def open(cls, path: Path) -> OwnedFile:
        """Opens a file that is there. Raises `JournalError` while another process has it."""
        return cls(await aiofiles.open(path, "ab", buffering=0, opener=_locked_existing), path)

    async def append(self, data: bytes) -> None:
        """Adds the `data`, or raises `OSError` and leaves the file as it was."""
        try:
            unwritten = memoryview(data)
            while unwritten:
                unwritten = unwritten[await self._file.write(unwritten) :]
        except OSError:
            with contextlib.suppress(OSError):  # then a torn line remains, which a reader cuts off
                await self._file.truncate(self.size)
            raise
        self.size += len(data)

    async def truncate(self, size: int) -> None:
        await self._file.truncate(size)
        self.size = size

    async def sync(self) -> None:
        """Returns when the file is on the disk."""
        await asyncio.to_thread(os.fsync, self._file.fileno())

    async def replace(self, path: Path) -> None:
        """Takes the place of the file at `path`, in one step that a crash cannot halve."""
        await asyncio.to_thread(_replace, self._path, path)
        self._path = path

    async def close(self) -> None:
        await self._file.close()


def require_ordinary(path: Path) -> None:
    """Refuses what a rename would replace by an ordinary file, such as a device."""
    if path.exists() and not path.is_file():
        raise JournalError(f"{path} is no ordinary file; a journal needs one")


def beside(path: Path) -> Path:
    """Where the file grows that will replace the one at `path`: the name with `.tmp`."""
    return path.with_name(path.name + ".tmp")


def _locked(path: str, flags: int) -> int:
    while True:
        fd = os.open(path, flags, 0o666)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # The lock is on a file, not on a name: somebody may have renamed another file over it
            # meanwhile
            if os.path.samestat(os.fstat(fd), os.stat(path)):
                return fd
        except BlockingIOError:
            os.close(fd)
            raise JournalError(
                f"{path} is being written by another search: wait for its end, or use another file"
            ) from None
        except BaseException:
            os.close(fd)
            raise
        os.close(fd)  # its owner replaced it between our opening and our locking it


def _locked_existing(path: str, flags: int) -> int:
    return _locked(path, flags & ~os.O_CREAT)


def _discard(path: Path) -> None:
    """Takes away what was begun on a full disk, and holds nothing yet."""
    beside(path).unlink(missing_ok=True)
    path.unlink(missing_ok=True)


def _replace(source: Path, target: Path) -> None:
    source.replace(target)
    with contextlib.suppress(OSError):  # not every file system can; the replacement stands
        directory = os.open(target.parent, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)
