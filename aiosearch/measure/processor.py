"""What this machine computes with: its processor by name, and the sizes of its caches in bytes."""

from __future__ import annotations

import os
import platform as system
from contextlib import suppress
from pathlib import Path

from ..pool import usable_cores


def processor() -> str:
    """The CPU's model, where the system tells it; else its kind, such as `x86_64`."""
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith(("model name", "CPU part")):
                return line.partition(":")[2].strip()
    return system.processor() or system.machine()


def cpu_kind() -> str:
    """Names the CPU as a device, with the cores that this process may use."""
    return f"cpu: {processor()}, {usable_cores()} cores"


USUAL, USUAL_PRIVATE, USUAL_FIRST = 32 << 20, 1 << 20, 32 << 10
"""Last, second-level and first-level cache, where the system does not say."""
GPU = 64 << 20
"""Bytes; above the second-level cache of every GPU that jax runs on today but the largest."""
_FOLDER = Path("/sys/devices/system/cpu/cpu0/cache")
_UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def last_cache(platform: str) -> int:
    """Gives the bytes of the last-level cache, which `Way.COLD` has to get past."""
    if platform != "cpu":
        return GPU
    # Virtual machines often hide one of the two sources, or say 0
    sizes = [_bytes(index / "size") for index in _FOLDER.glob("index*")]
    configured = [_named("SC_LEVEL3_CACHE_SIZE"), _named("SC_LEVEL2_CACHE_SIZE")]
    return max([*sizes, *configured]) or USUAL


def private_cache() -> int:
    """Gives the bytes of a core's own second-level cache."""
    return _of_core(2) or _named("SC_LEVEL2_CACHE_SIZE") or USUAL_PRIVATE


def first_cache() -> int:
    """Gives the bytes of a core's first-level data cache."""
    return _of_core(1) or _named("SC_LEVEL1_DCACHE_SIZE") or USUAL_FIRST


def _of_core(level: int) -> int:
    """What the system says of a core's cache that holds data; 0 where it says nothing."""
    for index in _FOLDER.glob("index*"):
        if _bytes(index / "level") == level and _text(index / "type") != "Instruction":
            return _bytes(index / "size")
    return 0


def _bytes(file: Path) -> int:
    text = _text(file)
    try:
        return int(text[:-1]) * _UNITS[text[-1]] if text[-1:] in _UNITS else int(text)
    except ValueError:
        return 0


def _text(file: Path) -> str:
    """The file's text; empty where it cannot be read."""
    try:
        return file.read_text().strip()
    except OSError:
        return ""


def _named(figure: str) -> int:
    try:
        return max(os.sysconf(figure), 0)
    except (ValueError, OSError):
        return 0
