"""The figures as plain values, for JSON and CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from typing import Any

import msgspec

from .intervals import Interval
from .rows import Row


def facts(row: Row) -> dict[str, Any]:
    """One row as flat values: the arm's fields, and three for a figure with an interval."""
    found: dict[str, Any] = {**msgspec.to_builtins(row.arm), "switches": row.arm.switched}
    for name in row.__struct_fields__[1:]:
        value = getattr(row, name)
        found[name] = value
        if name in ("seconds", "speedup"):
            ends = value or Interval(0.0)
            found[name] = value and value.mean
            found |= {f"{name}_low": ends.low, f"{name}_high": ends.high}
    return found


def to_csv(rows: Sequence[Row]) -> str:
    """A line for each row, below a line of names; what is not known is empty."""
    written = io.StringIO()
    lines = [facts(row) for row in rows]
    writer = csv.DictWriter(written, list(lines[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(lines)
    return written.getvalue()
