"""What simulated runs came to: as a table, as CSV and as curves."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence

import msgspec

from ..comparing.replaying import Replayed
from .figures import count, duration

RIGHT = frozenset(range(1, 14))
"""The columns of figures."""


def lines(rows: Sequence[Replayed]) -> Iterator[tuple[str, ...]]:
    """A table's cells, its head first."""
    yield (
        "way", "workers", "hosts", "time", "speed-up", "efficiency", "balance", "idle",
        "contention", "z3", "redundant", "messages", "host", "thinking",
    )  # fmt: skip
    for row in rows:
        yield (
            row.name,
            f"{row.workers}",
            f"{row.hosts}",
            duration(row.seconds),
            f"{row.speedup:.2f}",
            f"{row.efficiency:.0%}",
            f"{row.balance:.0%}",
            f"{row.idle:.0%}",
            f"{row.contention:.0%}",
            count(row.checks),
            count(row.redundant),
            count(row.messages),
            f"{row.host:.0%}",
            f"{row.thinking * 1e6:.0f}us",
        )


def curves(rows: Sequence[Replayed]) -> dict[str, list[tuple[int, float]]]:
    """The speed-ups of each way by workers."""
    found: dict[str, list[tuple[int, float]]] = {}
    for row in rows:
        found.setdefault(row.name, []).append((row.workers, row.speedup))
    return found


def as_csv(rows: Sequence[Replayed]) -> str:
    """A line for each run, below a line of names."""
    text = io.StringIO()
    writer = csv.DictWriter(text, Replayed.__struct_fields__, lineterminator="\n")
    writer.writeheader()
    writer.writerows(map(msgspec.structs.asdict, rows))
    return text.getvalue()
