"""What a handler sees of XLA, with threads that come when they are told to."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

DESTROY, SCHEDULE, COUNT, FUNCTIONS = 2, 11, 12, 13
"""Places in the list of XLA's functions, and how many there are."""
INT32 = 4
"""XLA's number of the only type of arrays here."""
Task = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
Function = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)
Handler = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)


def _struct(name: str, *fields: tuple[str, Any]) -> type[ctypes.Structure]:
    """Each of them begins with its size and a chain of extensions."""
    head = [("size", ctypes.c_size_t), ("extension", ctypes.c_void_p)]
    return type(name, (ctypes.Structure,), {"_fields_": [*head, *fields]})


_POINTER, _LONG, _INT = ctypes.c_void_p, ctypes.c_int64, ctypes.c_int32
Version = _struct("Version", ("major", _INT), ("minor", _INT))
Values = _struct("Values", ("count", _LONG), ("kinds", _POINTER), ("values", _POINTER))
Frame = _struct(
    "Frame",
    *(("api", _POINTER), ("context", _POINTER), ("stage", _INT)),
    *(("args", Values), ("rets", Values)),
)
Buffer = _struct(
    "Buffer", ("dtype", _INT), ("data", _POINTER), ("rank", _LONG), ("sizes", _POINTER)
)
Api = _struct(
    "Api",
    *(("version", Version), ("internal", _POINTER), ("functions", _POINTER * FUNCTIONS)),
)
Scheduled = _struct("Scheduled", ("context", _POINTER), ("task", Task), ("data", _POINTER))
Counted = _struct("Counted", ("context", _POINTER), ("count", ctypes.POINTER(_LONG)))


class FakeXla:
    """Says that it has so many threads, and gives each task to `begin`, which may refuse it."""

    def __init__(self, threads: int, begin: Callable[[Callable[[], None]], bool]) -> None:
        self._threads, self._begin = threads, begin
        self.asked = 0
        """How often for a thread."""
        self.errors = 0
        """How many have not been let go of."""
        functions = {DESTROY: self._destroy, SCHEDULE: self._schedule, COUNT: self._count}
        self._kept = {at: Function(one) for at, one in functions.items()}
        places = [
            ctypes.cast(self._kept[at], _POINTER).value if at in self._kept else None
            for at in range(FUNCTIONS)
        ]
        self._api = Api(ctypes.sizeof(Api), None, functions=(_POINTER * FUNCTIONS)(*places))

    def call(self, handler: int, inputs: Sequence[Any], outputs: Sequence[Any]) -> int | None:
        """Calls it on arrays, and gives its error."""
        kept: list[Any] = []
        frame = Frame(ctypes.sizeof(Frame), None, ctypes.addressof(self._api))
        frame.args, frame.rets = _values(inputs, kept), _values(outputs, kept)
        return Handler(handler)(ctypes.addressof(frame))  # type: ignore[no-any-return]

    def _schedule(self, request: int) -> int | None:
        self.asked += 1
        found = Scheduled.from_address(request)
        task, data = Task.from_buffer_copy(found.task), found.data
        if self._begin(lambda: task(data)):
            return None
        self.errors += 1
        return 1

    def _destroy(self, request: int) -> None:
        self.errors -= 1

    def _count(self, request: int) -> None:
        Counted.from_address(request).count[0] = self._threads


def _values(arrays: Sequence[Any], kept: list[Any]) -> ctypes.Structure:
    places = (_POINTER * len(arrays))()
    for at, one in enumerate(arrays):
        sizes = np.array(one.shape, np.int64)
        assert one.dtype == np.int32
        rank, where = one.ndim, sizes.ctypes.data
        buffer = Buffer(ctypes.sizeof(Buffer), None, INT32, one.ctypes.data, rank, where)
        kept += [sizes, buffer]
        places[at] = ctypes.addressof(buffer)
    kept.append(places)
    return Values(ctypes.sizeof(Values), None, len(arrays), None, ctypes.addressof(places))
