"""A chart of simulated speed-up and efficiency over workers, a line for each strategy."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from ..display import charts

Curves: TypeAlias = Mapping[str, Sequence[tuple[int, float]]]
"""The speed-up of each strategy, as pairs of workers and speed-up."""

WIDTH, HEIGHT = 760.0, 620.0
THINNEST, BROADER = 2.0, 4.0
MOST_LINES = 16
"""Lines across the speed-ups that can still be told apart."""
_LEFT, _RIGHT = 60.0, 600.0
_TOP, _MIDDLE, _LOWER, _BOTTOM = 56.0, 330.0, 386.0, 576.0


def plot(curves: Curves, title: str) -> str:
    """A whole SVG document: speed-up on doubled scales, and beneath it efficiency from 0."""
    figure = _SimulatedFigure([point for curve in curves.values() for point in curve])
    parts = [charts.text(12, 22, title, charts.INK), *figure.frame()]
    for number, (name, curve) in enumerate(curves.items()):
        colour = charts.COLOURS[number % len(charts.COLOURS)]
        # The first ones are broader, so that they show beneath the others
        above = (len(curves) - 1 - number) / max(len(curves) - 1, 1)
        parts += figure.lines(curve, colour, THINNEST + BROADER * above)
        y = _TOP + 16 + 20 * number
        parts.append(f'<path d="M{_RIGHT + 16} {y - 4}h18" stroke="{colour}" stroke-width="2.5"/>')
        parts.append(charts.text(_RIGHT + 40, y, name, charts.INK))
    return charts.document(WIDTH, HEIGHT, parts)


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
            charts.text(
                _LEFT, _TOP - 10, "speed-up over one worker; dashed: nothing is lost", charts.FAINT
            ),
            charts.text(_LEFT, _LOWER - 18, "efficiency", charts.FAINT),
            charts.text(_RIGHT, _BOTTOM + 36, "workers", charts.FAINT, "end"),
        ]
        for power in self._powers():
            y = self._up(2.0**power)
            label = f"{2**power}" if power >= 0 else f"1/{2**-power}"
            parts.append(charts.rule(_LEFT, y, _RIGHT, y))
            parts.append(charts.text(_LEFT - 8, y + 4, label, charts.FAINT, "end"))
        for share in charts.ticks(self._best):
            y = self._down(share)
            parts.append(charts.rule(_LEFT, y, _RIGHT, y))
            parts.append(charts.text(_LEFT - 8, y + 4, f"{share:g}", charts.FAINT, "end"))
        parts += [
            charts.text(self._across(count), _BOTTOM + 18, f"{count}", charts.FAINT, "middle")
            for count in self._workers
        ]
        ideal = [(_LEFT, self._up(1.0)), (_RIGHT, self._up(2.0**self._doublings))]
        return [*parts, charts.dashed(ideal)]

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
            parts += [charts.line(places, colour, width), *charts.dots(places, colour)]
        return parts

    def _across(self, workers: int) -> float:
        return _LEFT + math.log2(workers) / self._doublings * (_RIGHT - _LEFT)

    def _up(self, speedup: float) -> float:
        share = (math.log2(speedup) - self._lowest) / (self._highest - self._lowest)
        return _MIDDLE - share * (_MIDDLE - _TOP)

    def _down(self, efficiency: float) -> float:
        return _BOTTOM - efficiency / self._best * (_BOTTOM - _LOWER)
