"""A chart of speed-up over workers and of the idle share, a line for each way of distributing."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ..display import charts
from .arms import Arm
from .rows import ArmRow

WIDTH, HEIGHT = 860.0, 540.0
LEFT, RIGHT = 56.0, 520.0
TOP, MIDDLE = 36.0, 330.0
LOWER, BOTTOM = 390.0, 500.0
_APART = 6.0
"""Pixels between points of one number of workers, so that their intervals can be told apart."""
_ROOM = 1.05
"""The figure goes up to this multiple of the largest end of an interval, as far as that is no more
than twice the largest mean."""


def plot(rows: Sequence[ArmRow], title: str) -> str:
    """A whole SVG document; rows whose `speedup` is None are left out."""
    drawable = [row for row in rows if row.speedup is not None]
    lines = _lines(drawable)
    figure = _SpeedupFigure(drawable)
    orders = {arm.order for arm, _ in lines}
    if len(orders) == 1:  # said once
        title = f"{title}, {orders.pop()}"
    parts = [charts.text(10, 20, title, charts.INK), *figure.frame()]
    for number, (arm, arm_rows) in enumerate(lines):
        colour = charts.COLOURS[number % len(charts.COLOURS)]
        # Points of one number of workers stand beside each other, centred
        shift = (number - (len(lines) - 1) / 2) * _APART
        parts += figure.line(arm_rows, colour, shift)
        parts += _legend(number, arm.name if arm.order in title else str(arm), colour)
    height = max(HEIGHT, TOP + 20 * len(lines) + 40)
    return charts.document(WIDTH, height, parts)


def _lines(rows: Sequence[ArmRow]) -> list[tuple[Arm, list[ArmRow]]]:
    """The rows of each `Arm.line`, by workers."""
    lines: dict[Arm, list[ArmRow]] = {}
    for row in sorted(rows, key=lambda row: row.arm.workers):
        lines.setdefault(row.arm.line, []).append(row)
    return list(lines.items())


class _SpeedupFigure:
    """Coordinates in the two diagrams, which share their axis of workers."""

    def __init__(self, rows: Sequence[ArmRow]) -> None:
        self._workers = sorted({row.arm.workers for row in rows}) or [1]
        speedups = [row.speedup for row in rows if row.speedup]
        means = max([1.0, *(speedup.mean for speedup in speedups)])
        ends = [min(speedup.high or speedup.mean, 2 * means) for speedup in speedups]
        # Of two rounds an interval may reach a hundred times as high as its mean
        self._most = max([*ends, 1.0]) * _ROOM
        self._idlest = max([row.idle_share or 0.0 for row in rows] + [0.05]) * 1.1

    def frame(self) -> list[str]:
        parts = [charts.text(LEFT, TOP + 6, "speed-up over one worker of queue", charts.FAINT)]
        parts += [charts.text(LEFT, LOWER - 8, "idle share of the workers' time", charts.FAINT)]
        for value in charts.ticks(self._most):
            y = self._up(value)
            parts += [
                charts.rule(LEFT, y, RIGHT, y),
                charts.text(LEFT - 6, y + 4, f"{value:g}", charts.FAINT, "end"),
            ]
        for share in charts.ticks(self._idlest):
            y = self._down(share)
            label = f"{100 * share:g}%"
            parts += [
                charts.rule(LEFT, y, RIGHT, y),
                charts.text(LEFT - 6, y + 4, label, charts.FAINT, "end"),
            ]
        for workers in self._workers:
            parts.append(
                charts.text(
                    self._across(workers), BOTTOM + 18, f"{workers}", charts.FAINT, "middle"
                )
            )
        parts.append(charts.text(RIGHT + 8, BOTTOM + 18, "workers", charts.FAINT))
        return [*parts, self._ideal()]

    def _ideal(self) -> str:
        """The speed-up where nothing is lost, as far as it fits."""
        counts = [count for count in self._workers if count <= self._most]
        return charts.dashed([(self._across(count), self._up(count)) for count in counts])

    def line(self, rows: Sequence[ArmRow], colour: str, shift: float) -> list[str]:
        """The points of one line in both diagrams."""
        above, below, parts = [], [], []
        for row in rows:
            assert row.speedup is not None
            x, speedup = self._across(row.arm.workers) + shift, row.speedup
            above.append((x, self._up(speedup.mean)))
            below.append((x, self._down(row.idle_share or 0.0)))
            if speedup.low is not None and speedup.high is not None:
                top = self._up(min(speedup.high, self._most))
                parts.append(charts.error_bar(x, self._up(speedup.low), top, colour))
        for places in (above, below):
            parts += [charts.line(places, colour), *charts.dots(places, colour, 3.5)]
        return parts

    def _across(self, workers: int) -> float:
        first, last = math.log2(self._workers[0]), math.log2(self._workers[-1])
        share = (math.log2(workers) - first) / (last - first) if last > first else 0.5
        return LEFT + 40 + share * (RIGHT - LEFT - 80)

    def _up(self, speedup: float) -> float:
        return MIDDLE - speedup / self._most * (MIDDLE - TOP - 14)

    def _down(self, share: float) -> float:
        return BOTTOM - share / self._idlest * (BOTTOM - LOWER)


def ticks(most: float) -> list[float]:
    """Four to eight round values from zero: `ticks(3.1)` is `[0, 0.5, 1, 1.5, 2, 2.5, 3]`."""
    unit = 10.0 ** math.floor(math.log10(most))
    # The finest of the round steps that gives at most eight lines
    step = next(size for size in (0.1, 0.2, 0.5, 1.0, 2.0) if most / (unit * size) <= 8) * unit
    return [round(step * count, 6) for count in range(int(most / step) + 1)]


def _legend(number: int, label: str, colour: str) -> list[str]:
    y = TOP + 20 + 20 * number
    return [
        f'<path d="M{RIGHT + 14:.1f} {y - 4:.1f}h18" stroke="{colour}" stroke-width="2"/>',
        charts.text(RIGHT + 38, y, label, charts.INK),
    ]
