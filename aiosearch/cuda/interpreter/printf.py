"""`printf`, as C formats."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

_FIELD = re.compile(r"%([-+ #0]*\d*(?:\.\d+)?)(?:hh|h|ll|l|z|j|t)?([diouxXeEfFgGcsp%])")


def formatted(text: str, values: Sequence[Any]) -> str:
    """Fills in a format: `formatted("%d: %.2f", (3, 0.5))` is `"3: 0.50"`."""
    remaining = list(values)

    def fill(match: re.Match[str]) -> str:
        flags, kind = match.groups()
        if kind == "%":
            return "%"
        if not remaining:
            return match.group()
        value = remaining.pop(0)
        if kind in "diu":
            return f"%{flags}d" % int(value)
        if kind in "oxX":
            whole = int(value)
            return f"%{flags}{kind}" % (whole + (1 << 32) if whole < 0 else whole)
        if kind == "c":
            return chr(int(value) & 0xFF)
        if kind == "p":
            return hex(int(value))
        return f"%{flags}{kind}" % (str(value) if kind == "s" else float(value))

    return _FIELD.sub(fill, text)
