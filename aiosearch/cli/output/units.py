"""Numbers, durations and sizes as people read them."""

from __future__ import annotations

import re
import time

_UNITS = {"": 1, "K": 1000, "M": 1000**2, "G": 1000**3, "T": 1000**4}
_BINARY = {"K": 1024, "M": 1024**2, "G": 1024**3, "T": 1024**4}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgt]?)(i?)b?", re.IGNORECASE)


def count(number: float) -> str:
    """Writes 950, 1.23k, 98.2k or 1.23M."""
    for unit in ("", "k", "M", "G"):
        if number < 999.5:
            return f"{number:.0f}" if not unit else f"{number:.3g}{unit}"
        number /= 1000
    return f"{number:.3g}T"


def of(number: int, noun: str) -> str:
    """Writes 1 worker or 2,000 workers."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def duration(seconds: float) -> str:
    """Writes 0.04s, 12.4s, 3m 12s or 1h 04m."""
    if seconds < 59.95:
        return f"{seconds:.2g}s" if seconds < 0.1 else f"{seconds:.1f}s"
    minutes = int(seconds) // 60
    if minutes < 60:
        return f"{minutes}m {int(seconds) % 60:02}s"
    return f"{minutes // 60}h {minutes % 60:02}m"


def percent(share: float) -> str:
    """Writes 42.0%, or how near a share is to nothing or to all."""
    percent = 100 * share
    if 0 < percent < 0.1:
        return "<0.1%"
    return ">99.9%" if 99.9 < percent < 100 else f"{percent:.1f}%"


def clock(seconds: float | None = None) -> str:
    """Writes a time, by default this one, with its date: 2026-11-27 20:14:03."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds))


def cost(value: float) -> str:
    """Writes a whole number as one, any other to ten digits."""
    whole = abs(value) < 1e15 and value == int(value)
    return str(int(value)) if whole else f"{value:.10g}"


def size(number: float) -> str:
    """Writes 512 B, 1.5 MB or 2 GB."""
    for unit in ("B", "kB", "MB", "GB"):
        if number < 999.5:
            return f"{number:.3g} {unit}"
        number /= 1000
    return f"{number:.3g} TB"


def parse_size(text: str) -> int:
    """Reads 2GB, 1.5 GiB, 500M or a number of bytes; raises ValueError."""
    match = _SIZE.fullmatch(text.strip())
    if match is None or (match[3] and not match[2]):
        raise ValueError(f"{text!r} is no size")
    factor = (_BINARY if match[3] else _UNITS)[match[2].upper()]
    return int(float(match[1]) * factor)


def short(value: object, width: int) -> str:
    """Writes a value on one line, the middle of a long one left out."""
    text = " ".join(repr(value).split())
    if len(text) <= width:
        return text
    head = (width - 3) * 2 // 3
    return f"{text[:head]}...{text[len(text) - (width - 3 - head) :]}"
