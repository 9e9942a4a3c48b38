"""What simulated runs came to: as a table, as CSV and as curves."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence

import msgspec
from msgspec import Struct

from .figures import count, duration

RIGHT = frozenset(range(1, 11))
"""The columns of figures."""


class Row(Struct, frozen=True):
    """What so many workers of a strategy came to; the median of all repeats."""

    strategy: str
    workers: int
    hosts: int
    seconds: float
    speedup: float
    """Over one worker of `queue`."""
    efficiency: float
    balance: float
    idle: float
    """The share of the workers' time in which they held nothing."""
    messages: int
    tasks: int
    checks: int
    host: float
    """The share of the time in which the host was at work."""
    thinking: float
    """Seconds that an event really took the strategy, here."""


def lines(rows: Sequence[Row]) -> Iterator[tuple[str, ...]]:
    """A table's cells, its head first."""
    yield (
        "strategy", "workers", "hosts", "time", "speed-up", "efficiency", "balance", "idle",
        "messages", "host", "thinking",
    )  # fmt: skip
    for row in rows:
        yield (
            row.strategy,
            f"{row.workers}",
            f"{row.hosts}",
            duration(row.seconds),
            f"{row.speedup:.2f}",
            f"{row.efficiency:.0%}",
            f"{row.balance:.0%}",
            f"{row.idle:.0%}",
            count(row.messages),
            f"{row.host:.0%}",
            f"{row.thinking * 1e6:.0f}us",
        )


def curves(rows: Sequence[Row]) -> dict[str, list[tuple[int, float]]]:
    """The speed-ups of each strategy by workers."""
    found: dict[str, list[tuple[int, float]]] = {}
    for row in rows:
        found.setdefault(row.strategy, []).append((row.workers, row.speedup))
    return found


def as_csv(rows: Sequence[Row]) -> str:
    """A line for each run, below a line of names."""
    text = io.StringIO()
    writer = csv.DictWriter(text, Row.__struct_fields__, lineterminator="\n")
    writer.writeheader()
    writer.writerows(map(msgspec.structs.asdict, rows))
    return text.getvalue()
