"""A chart of speed-up over workers and of the idle share, a line for each way of distributing."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from xml.sax.saxutils import escape

from .arms import Arm
from .rows import ArmRow

WIDTH, HEIGHT = 860.0, 540.0
LEFT, RIGHT = 56.0, 520.0
TOP, MIDDLE = 36.0, 330.0
LOWER, BOTTOM = 390.0, 500.0
_FONT = "ui-monospace,Menlo,Consolas,'DejaVu Sans Mono',monospace"
_INK, _FAINT, _LINE = "#0f172a", "#475569", "#cbd5e1"
_COLOURS = ("#0284c7", "#16a34a", "#d97706", "#7c3aed", "#dc2626", "#0f766e", "#be185d", "#64748b")
_APART = 6.0
"""Pixels between points of one number of workers, so that their intervals can be told apart."""
_ROOM = 1.05
"""The figure goes up to this multiple of the largest end of an interval."""


def plot(rows: Sequence[ArmRow], title: str) -> str:
    """A whole SVG document; rows whose `speedup` is None are left out."""
    drawable = [row for row in rows if row.speedup is not None]
    lines = _lines(drawable)
    figure = _SpeedupFigure(drawable)
    orders = {arm.order for arm, _ in lines}
    if len(orders) == 1:  # said once
        title = f"{title}, {orders.pop()}"
    parts = [_text(10, 20, title, _INK), *figure.frame()]
    for number, (arm, arm_rows) in enumerate(lines):
        colour = _COLOURS[number % len(_COLOURS)]
        # Points of one number of workers stand beside each other, centred
        shift = (number - (len(lines) - 1) / 2) * _APART
        parts += figure.line(arm_rows, colour, shift)
        parts += _legend(number, arm.name if arm.order in title else str(arm), colour)
    height = max(HEIGHT, TOP + 20 * len(lines) + 40)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH:.0f} {height:.0f}" '
        f'width="{WIDTH:.0f}" height="{height:.0f}" font-family="{_FONT}" font-size="12">\n'
        '<rect width="100%" height="100%" fill="#ffffff"/>\n' + "\n".join(parts) + "\n</svg>\n"
    )


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
        ends = [row.speedup.high or row.speedup.mean for row in rows if row.speedup]
        self._most = max([*ends, 1.0]) * _ROOM
        self._idlest = max([row.idle_share or 0.0 for row in rows] + [0.05]) * 1.1

    def frame(self) -> list[str]:
        parts = [_text(LEFT, TOP + 6, "speed-up over one worker of queue", _FAINT)]
        parts += [_text(LEFT, LOWER - 8, "idle share of the workers' time", _FAINT)]
        for value in ticks(self._most):
            y = self._up(value)
            parts += [_rule(LEFT, y, RIGHT, y), _text(LEFT - 6, y + 4, f"{value:g}", _FAINT, "end")]
        for share in ticks(self._idlest):
            y = self._down(share)
            label = f"{100 * share:g}%"
            parts += [_rule(LEFT, y, RIGHT, y), _text(LEFT - 6, y + 4, label, _FAINT, "end")]
        for workers in self._workers:
            parts.append(_text(self._across(workers), BOTTOM + 18, f"{workers}", _FAINT, "middle"))
        parts.append(_text(RIGHT + 8, BOTTOM + 18, "workers", _FAINT))
        return [*parts, self._ideal()]

    def _ideal(self) -> str:
        """The speed-up where nothing is lost, as far as it fits."""
        counts = [count for count in self._workers if count <= self._most]
        places = [f"{self._across(count):.1f} {self._up(count):.1f}" for count in counts]
        path = "M" + "L".join(places)
        return f'<path d="{path}" stroke="{_FAINT}" stroke-dasharray="4 4" fill="none"/>'

    def line(self, rows: Sequence[ArmRow], colour: str, shift: float) -> list[str]:
        """The points of one line in both diagrams."""
        above, below, parts = [], [], []
        for row in rows:
            assert row.speedup is not None
            x, speedup = self._across(row.arm.workers) + shift, row.speedup
            above.append((x, self._up(speedup.mean)))
            below.append((x, self._down(row.idle_share or 0.0)))
            if speedup.low is not None and speedup.high is not None:
                parts.append(_error(x, self._up(speedup.low), self._up(speedup.high), colour))
        for places in (above, below):
            parts.append(_path(places, colour))
            parts += [
                f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="{colour}"/>' for x, y in places
            ]
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
    step = next(size for size in (0.1, 0.2, 0.5, 1.0, 2.0) if most / (unit * size) <= 8) * unit
    return [round(step * count, 6) for count in range(int(most / step) + 1)]


def _legend(number: int, label: str, colour: str) -> list[str]:
    y = TOP + 20 + 20 * number
    return [
        f'<path d="M{RIGHT + 14:.1f} {y - 4:.1f}h18" stroke="{colour}" stroke-width="2"/>',
        _text(RIGHT + 38, y, label, _INK),
    ]


def _path(places: Iterable[tuple[float, float]], colour: str) -> str:
    path = "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in places)
    return f'<path d="{path}" stroke="{colour}" stroke-width="2" fill="none"/>'


def _error(x: float, low: float, high: float, colour: str) -> str:
    """A line with a stroke across each end."""
    path = f"M{x:.1f} {high:.1f}V{low:.1f}M{x - 4:.1f} {low:.1f}h8M{x - 4:.1f} {high:.1f}h8"
    return f'<path d="{path}" stroke="{colour}" fill="none"/>'


def _rule(x: float, y: float, right: float, bottom: float) -> str:
    return f'<path d="M{x:.1f} {y:.1f}L{right:.1f} {bottom:.1f}" stroke="{_LINE}"/>'


def _text(x: float, y: float, label: str, fill: str, anchor: str = "start") -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" fill="{fill}" text-anchor="{anchor}">{escape(label)}</text>'
    )
