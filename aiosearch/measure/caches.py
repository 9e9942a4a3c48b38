"""How large the last cache is that stands before a device's memory."""

from __future__ import annotations

import os
from pathlib import Path

USUAL = 32 << 20
"""Where the system does not say."""
GPU = 64 << 20
"""Above the second-level cache of every GPU that jax runs on today but the largest."""
_UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def last_cache(platform: str) -> int:
    """Gives its bytes."""
    if platform != "cpu":
        return GPU
    folder = Path("/sys/devices/system/cpu/cpu0/cache")
    sizes = [_bytes(index / "size") for index in folder.glob("index*")]
    return max([*sizes, _configured()]) or USUAL


def _bytes(file: Path) -> int:
    try:
        text = file.read_text().strip()
        return int(text[:-1]) * _UNITS[text[-1]] if text[-1:] in _UNITS else int(text)
    except (OSError, ValueError):
        return 0


def _configured() -> int:
    try:
        return max(os.sysconf("SC_LEVEL3_CACHE_SIZE"), os.sysconf("SC_LEVEL2_CACHE_SIZE"), 0)
    except (ValueError, OSError):
        return 0
