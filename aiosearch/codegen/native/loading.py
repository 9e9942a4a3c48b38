"""From object code to functions of this process."""

from __future__ import annotations

import ctypes
import functools
import itertools
from dataclasses import dataclass, field
from typing import Any

from .compiling import target_machine
from .errors import NativeError
from .handler import ENTRY, LINE, SEATS, SEATS_SYMBOL, SPARE_SYMBOL
from .library import llvm
from .machine import host, may_use_tiles
from .native import Native

_numbers = itertools.count()
_TILES = "@llvm.x86.ldtilecfg"
"""Without it, no instruction of the unit does anything."""


@dataclass(frozen=True, slots=True)
class Library:
    """Addresses of a program's functions, which are there as long as this is."""

    handler: int
    """Of what XLA calls."""
    phases: tuple[int, ...]
    memory: Any = field(repr=False)


def load(native: Native, code: bytes, handler: bytes) -> Library:
    """Loads a program and its handler; raises NativeError where it calls what is not there.

    LLVM writes to the standard error what that is. The system is asked where a matrix unit is used.
    """
    if _TILES in native.text and not may_use_tiles():
        raise NativeError(f"the system does not let this process use AMX, as {native.name} does")
    symbols = [native.symbol(number) for number in range(len(native.phases))]
    builder = llvm.JITLibraryBuilder()
    builder.add_object_img(code).add_object_img(handler).add_current_process()
    builder.import_symbol(SEATS_SYMBOL, _lines())
    builder.import_symbol(SPARE_SYMBOL, _lines() + SEATS * LINE)
    for symbol in (ENTRY, *symbols):
        builder.export_symbol(symbol)
    try:
        memory = builder.link(_loader(), f"{native.name}.{next(_numbers)}")
    except RuntimeError as error:
        raise NativeError(f"the kernel {native.name} cannot be loaded: {error}") from None
    return Library(memory[ENTRY], tuple(memory[symbol] for symbol in symbols), memory)


@functools.cache
def _lines() -> int:
    """The address of the seats, and of one line more, for what is spare.

    All kernels share them, and threads when Python is gone, too.
    """
    address = ctypes.c_void_p()
    libc, size = ctypes.CDLL(None), (SEATS + 1) * LINE
    if libc.posix_memalign(ctypes.byref(address), ctypes.c_size_t(LINE), ctypes.c_size_t(size)):
        raise MemoryError("no memory for the seats of threads")
    ctypes.memset(address, 0, size)
    assert address.value is not None
    return address.value


@functools.cache
def _loader() -> Any:
    """JITLink keeps code and constants together; LLVM's other linker aborts where they are not."""
    return llvm.create_lljit_compiler(target_machine(host()), use_jit_link=True)
