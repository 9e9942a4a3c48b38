"""What a device can do, as rows of a table that spaces read: new hardware is a row, not code."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable
from functools import cache
from importlib.resources import files
from pathlib import Path

import msgspec
from msgspec import Struct

from ...arguments import nearest
from ..errors import TunerError


class MatrixUnit(Struct, frozen=True):
    """An instruction that multiplies small matrices: the tile it takes, and of what."""

    name: str
    rows: int
    columns: int
    depth: int
    operands: tuple[str, ...]


class Hardware(Struct, frozen=True, kw_only=True):
    """The limits and units that a schedule may use."""

    name: str
    kind: str
    vector_bytes: int
    registers: int
    threads: int = 1
    """How many threads a block may have."""
    lanes: int = 1
    """How many threads run in step."""
    shared_bytes: int = 0
    """What a block may take of the memory that its threads share; 0 where there is none."""
    units: int = 0
    """Multiprocessors or cores; 0 where only the machine itself can say."""
    matrix: tuple[MatrixUnit, ...] = ()
    asynchronous_copy: bool = False
    clusters: bool = False
    flags: tuple[str, ...] = ()
    """What a processor's system calls the features that the row takes for granted."""
    source: str = ""

    def lanes_of(self, itemsize: int) -> int:
        """How many elements of so many bytes a vector holds."""
        return max(1, self.vector_bytes // itemsize)

    def matrix_units(self, dtype: str) -> tuple[MatrixUnit, ...]:
        """The units that multiply elements of a type."""
        return tuple(unit for unit in self.matrix if dtype in unit.operands)


@cache
def _rows() -> tuple[Hardware, ...]:
    text = files(__package__).joinpath("hardware.json").read_bytes()
    return msgspec.json.decode(text, type=tuple[Hardware, ...])


GENERIC = Hardware(name="generic", kind="cpu", vector_bytes=16, registers=16)
"""Asks nothing of a device, so what it leads to runs on every one."""


def hardware_names() -> tuple[str, ...]:
    """The rows of the table."""
    return tuple(row.name for row in _rows())


def find_hardware(name: str) -> Hardware:
    """A row of the table, by its name."""
    for row in _rows():
        if row.name == name:
            return row
    raise TunerError(
        f"no hardware is called {name!r}{nearest(name, hardware_names())}; there are"
        f" {', '.join(hardware_names())}"
    )


def hardware_of(flags: Iterable[str]) -> Hardware:
    """The processor's row with the most features that these flags have; else the generic row."""
    present = set(flags)
    fitting = [row for row in _rows() if row.kind == "cpu" and present.issuperset(row.flags)]
    return max(fitting, key=lambda row: (row.vector_bytes, len(row.matrix), len(row.flags)))


@cache
def this_hardware() -> Hardware:
    """The processor that this process runs on, with as many units as it may use."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    row = hardware_of(_flags())
    return msgspec.structs.replace(row, units=cores or 1)


def _flags() -> list[str]:
    """What Linux says of the processor; elsewhere only what its architecture implies."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return ["asimd"] if platform.machine() in ("arm64", "aarch64") else []
    labelled = (line.partition(":") for line in lines)
    return next(
        (
            text.split()
            for label, _, text in labelled
            if label.strip().casefold() in ("flags", "features")
        ),
        [],
    )
