"""A chart of simulated speed-up and efficiency over workers, a line for each strategy."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TypeAlias
from xml.sax.saxutils import escape

from .speedup_chart import ticks

Curves: TypeAlias = Mapping[str, Sequence[tuple[int, float]]]
"""The speed-up of each strategy, as pairs of workers and speed-up."""

WIDTH, HEIGHT = 760.0, 620.0
THINNEST, BROADER = 2.0, 4.0
MOST_LINES = 16
"""Lines across the speed-ups that can still be told apart."""
_LEFT, _RIGHT = 60.0, 600.0
_TOP, _MIDDLE, _LOWER, _BOTTOM = 56.0, 330.0, 386.0, 576.0
_FONT = "ui-monospace,Menlo,Consolas,'DejaVu Sans Mono',monospace"
_INK, _FAINT, _LINE = "#0f172a", "#475569", "#cbd5e1"
_COLOURS = (
    "#0284c7",
    "#16a34a",
    "#d97706",
    "#7c3aed",
    "#dc2626",
    "#0f766e",
    "#be185d",
    "#64748b",
    "#000000",
    "#a16207",
)


def plot(curves: Curves, title: str) -> str:
    """A whole SVG document: speed-up on doubled scales, and beneath it efficiency from 0."""
    figure = _SimulatedFigure([point for curve in curves.values() for point in curve])
    parts = [_text(12, 22, title, _INK), *figure.frame()]
    for number, (name, curve) in enumerate(curves.items()):
        colour = _COLOURS[number % len(_COLOURS)]
        # The first ones are broader, so that they show beneath the others
        above = (len(curves) - 1 - number) / max(len(curves) - 1, 1)
        parts += figure.lines(curve, colour, THINNEST + BROADER * above)
        y = _TOP + 16 + 20 * number
        parts.append(f'<path d="M{_RIGHT + 16} {y - 4}h18" stroke="{colour}" stroke-width="2.5"/>')
        parts.append(_text(_RIGHT + 40, y, name, _INK))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH:.0f} {HEIGHT:.0f}" '
        f'width="{WIDTH:.0f}" height="{HEIGHT:.0f}" font-family="{_FONT}" font-size="12">\n'
        '<rect width="100%" height="100%" fill="#ffffff"/>\n' + "\n".join(parts) + "\n</svg>\n"
    )


class _SimulatedFigure:
    """Coordinates in the two diagrams, which share their axis of workers."""

    def __init__(self, points: Sequence[tuple[int, float]]) -> None:
        self._workers = sorted({count for count, _ in points}) or [1]
        self._doublings = max(math.log2(self._workers[-1]), 1.0)
        powers = [math.log2(speedup) for _, speedup in points]
        self._lowest = math.floor(min([*powers, 0.0]))
        self._highest = max([*powers, self._doublings])
        self._best = max([*(speedup / count for count, speedup in points), 1.0])

    def frame(self) -> list[str]:
        parts = [
            _text(_LEFT, _TOP - 10, "speed-up over one worker; dashed: nothing is lost", _FAINT),
            _text(_LEFT, _LOWER - 18, "efficiency", _FAINT),
            _text(_RIGHT, _BOTTOM + 36, "workers", _FAINT, "end"),
        ]
        for power in self._powers():
            y = self._up(2.0**power)
            label = f"{2**power}" if power >= 0 else f"1/{2**-power}"
            parts.append(_rule(_LEFT, y, _RIGHT, y))
            parts.append(_text(_LEFT - 8, y + 4, label, _FAINT, "end"))
        for share in ticks(self._best):
            y = self._down(share)
            parts.append(_rule(_LEFT, y, _RIGHT, y))
            parts.append(_text(_LEFT - 8, y + 4, f"{share:g}", _FAINT, "end"))
        parts += [
            _text(self._across(count), _BOTTOM + 18, f"{count}", _FAINT, "middle")
            for count in self._workers
        ]
        ideal = f"M{_LEFT} {self._up(1.0):.1f}L{_RIGHT} {self._up(2.0**self._doublings):.1f}"
        dashed = f'<path d="{ideal}" stroke="{_FAINT}" stroke-dasharray="5 4" fill="none"/>'
        return [*parts, dashed]

    def _powers(self) -> range:
        """Of two neighbouring values, those that have a line: not all where they would be
        too close."""
        step = math.ceil((self._highest - self._lowest) / MOST_LINES)
        first = -(-self._lowest // step) * step  # so that 1 is among them
        return range(first, math.floor(self._highest) + 1, step)

    def lines(self, curve: Sequence[tuple[int, float]], colour: str, width: float) -> list[str]:
        """The curve of one strategy in both diagrams."""
        upper = [(self._across(count), self._up(speedup)) for count, speedup in curve]
        lower = [(self._across(count), self._down(speedup / count)) for count, speedup in curve]
        parts = []
        for places in (upper, lower):
            path = "L".join(f"{x:.1f} {y:.1f}" for x, y in places)
            parts.append(
                f'<path d="M{path}" stroke="{colour}" stroke-width="{width:g}" fill="none"/>'
            )
            parts += [
                f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in places
            ]
        return parts

    def _across(self, workers: int) -> float:
        return _LEFT + math.log2(workers) / self._doublings * (_RIGHT - _LEFT)

    def _up(self, speedup: float) -> float:
        share = (math.log2(speedup) - self._lowest) / (self._highest - self._lowest)
        return _MIDDLE - share * (_MIDDLE - _TOP)

    def _down(self, efficiency: float) -> float:
        return _BOTTOM - efficiency / self._best * (_BOTTOM - _LOWER)


def _rule(x: float, y: float, right: float, bottom: float) -> str:
    return f'<path d="M{x:.1f} {y:.1f}L{right:.1f} {bottom:.1f}" stroke="{_LINE}"/>'


def _text(x: float, y: float, label: str, fill: str, anchor: str = "start") -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" fill="{fill}" text-anchor="{anchor}">{escape(label)}</text>'
    )
