"""Arrays in a nameless file that the host and one process share, and the index of the runner."""

from __future__ import annotations

import errno
import os
import struct
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from .errors import ExecutorError
from .protocol import Parcel

if TYPE_CHECKING:
    from numpy.typing import NDArray

# The first page is the announcement; arrays are aligned to cache lines
_START = 4096
_ALIGNMENT = 64
_RUNNER = struct.Struct("=qq")
"""The runner's index, and when it was announced."""
NOBODY = -1
_REMEDIES = {
    errno.EFBIG: "files may not be larger here: raise the limit of `ulimit -f`",
    errno.ENOSPC: "no room is left: free memory, or space in the folder of temporary files",
    errno.EDQUOT: "the quota is used up: free space in the folder of temporary files",
}


def nameless_file(name: str) -> int:
    """Opens a file that is gone when the last process has closed it."""
    if hasattr(os, "memfd_create"):
        return os.memfd_create(name)
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


class SharedArrays:
    """Arrays are put in and taken out one load at a time; each call blocks.

    Raises `ExecutorError` where they have no room.
    """

    def __init__(self, fd: int) -> None:
        self.fd = fd

    def put(self, arrays: Sequence[NDArray[Any]]) -> tuple[Parcel, ...]:
        """Writes arrays in place of those before; by its `Parcel` each is read again.

        Where one cannot be written, none keeps its room.
        """
        try:
            return self._put(arrays)
        except Exception:
            self.empty()
            raise

    def _put(self, arrays: Sequence[NDArray[Any]]) -> tuple[Parcel, ...]:
        import numpy as np

        offset = _START
        parcels = []
        for array in arrays:
            parcels.append(Parcel(array.dtype.name, array.shape, offset))
            data = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
            with _room(offset + data.nbytes):
                offset = _aligned(_write(self.fd, data.data, offset))
        return tuple(parcels)

    def take(self, parcel: Parcel) -> NDArray[Any]:
        """Reads one array into memory of its own."""
        import numpy as np

        array = np.empty(parcel.shape, np.dtype(parcel.dtype))
        _read(self.fd, array.reshape(-1).view(np.uint8).data, parcel.offset)
        return array

    def announce(self, runner: int) -> None:
        """Announces the runner that begins, for whoever finds the process dead."""
        with _room(_START):
            os.pwrite(self.fd, _RUNNER.pack(runner, time.monotonic_ns()), 0)

    def announced(self) -> int:
        data = self.sign()
        return int(_RUNNER.unpack(data)[0]) if len(data) == _RUNNER.size else NOBODY

    def sign(self) -> bytes:
        """Changes with every announcement; nothing where the file is closed."""
        return os.pread(self.fd, _RUNNER.size, 0) if self.fd >= 0 else b""

    def empty(self) -> None:
        """Gives the memory of the arrays back."""
        os.ftruncate(self.fd, min(_START, os.fstat(self.fd).st_size))


@contextmanager
def _room(size: int) -> Iterator[None]:
    """Says in a sentence what is to be done where a file of so many bytes has no room."""
    try:
        yield
    except OSError as error:
        if error.errno not in _REMEDIES:
            raise
        raise ExecutorError(
            f"arrays cannot be handed over in a file of {size} bytes: {_REMEDIES[error.errno]}"
        ) from None


def _aligned(offset: int) -> int:
    return -(-offset // _ALIGNMENT) * _ALIGNMENT


def _write(fd: int, data: memoryview, offset: int) -> int:
    while data:
        written = os.pwrite(fd, data, offset)
        data, offset = data[written:], offset + written
    return offset


def _read(fd: int, data: memoryview, offset: int) -> None:
    while data:
        count = os.preadv(fd, [data], offset)
        if not count:
            raise EOFError("the letterbox holds less than it should")
        data, offset = data[count:], offset + count
