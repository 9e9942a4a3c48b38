"""A picture of a search as SVG: times against trials, and what the model thought against them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from html import escape

from .reports import TuningReport, seconds_text
from .search.proposals import Measurement

WIDTH, HEIGHT, MARGIN = 420.0, 260.0, 48.0
GAP = 40.0


class _Panel:
    """Axes with logarithms upwards; to the right logarithms as well, or numbers from 1 on."""

    def __init__(self, left: float, ys: Sequence[float], xs: Sequence[float], log_x: bool) -> None:
        self._left = left + MARGIN
        self._log_x = log_x
        self._y = _bounds(list(map(math.log10, ys)))
        self._x = _bounds([math.log10(x) if log_x else x for x in xs])
        self._ends = sorted({min(xs), max(xs)})
        self.parts: list[str] = []

    def x(self, value: float) -> float:
        low, high = self._x
        scaled = math.log10(value) if self._log_x else value
        return self._left + (WIDTH - MARGIN) * (scaled - low) / (high - low)

    def y(self, value: float) -> float:
        low, high = self._y
        return MARGIN + (HEIGHT - MARGIN) * (high - math.log10(value)) / (high - low)

    def dot(self, x: float, y: float, kind: str, title: str) -> None:
        self.parts.append(
            f'<circle class="{kind}" cx="{self.x(x):.1f}" cy="{self.y(y):.1f}" r="3">'
            f"<title>{escape(title)}</title></circle>"
        )

    def line(self, points: Iterable[tuple[float, float]]) -> None:
        text = " ".join(f"{self.x(x):.1f},{self.y(y):.1f}" for x, y in points)
        self.parts.append(f'<polyline points="{text}"/>')

    def axes(self, title: str, below: str) -> None:
        right, bottom = self._left + WIDTH - MARGIN, HEIGHT
        self.parts.append(
            f'<path class="axis" d="M{self._left},{MARGIN}V{bottom}H{right}"/>'
            f'<text x="{self._left}" y="{MARGIN - 12}">{escape(title)}</text>'
            f'<text x="{right}" y="{bottom + 34}" text-anchor="end">{escape(below)}</text>'
        )
        for value in _ticks(*self._y):
            self.parts.append(
                f'<text class="tick" x="{self._left - 4}" y="{self.y(value) + 4:.1f}"'
                f' text-anchor="end">{seconds_text(value)}</text>'
            )
        for value in _ticks(*self._x) if self._log_x else self._ends:
            text = seconds_text(value) if self._log_x else f"{value:g}"
            self.parts.append(
                f'<text class="tick" x="{self.x(value):.1f}" y="{bottom + 14}"'
                f' text-anchor="middle">{text}</text>'
            )


def picture(report: TuningReport) -> str:
    """Draws a search; one that timed nothing is a line of text."""
    timed = [entry for entry in report.measurements if entry.seconds is not None]
    if not timed:
        return _svg(['<text x="10" y="40">nothing was timed</text>'], 300, 60)
    parts = [*_times(report, timed).parts]
    width = WIDTH + 2 * MARGIN
    guessed = [entry for entry in timed if entry.predicted is not None]
    if guessed:
        parts += _model(guessed).parts
        width += WIDTH + GAP
    return _svg(parts, width, HEIGHT + MARGIN)


def _times(report: TuningReport, timed: Sequence[Measurement]) -> _Panel:
    seconds = [entry.seconds or 1.0 for entry in timed]
    panel = _Panel(0, seconds, [1, len(report.measurements)], log_x=False)
    rejected = len(timed) < len(report.measurements)
    below = "trials; hollow ones were turned away" if rejected else "trials"
    panel.axes("seconds of each point, and the fastest so far", below)
    fastest, steps = math.inf, list[tuple[float, float]]()
    for trial, entry in enumerate(report.measurements, 1):
        title = f"{entry.trace.decisions}"
        if entry.seconds is None:
            panel.dot(trial, max(seconds), "rejected", f"{title}: {entry.gate}, {entry.reason}")
            continue
        panel.dot(trial, entry.seconds, "timed", f"{title}: {entry.seconds:.3g} s")
        if entry.seconds < fastest:
            steps += [(trial, fastest)] if steps else []
            fastest = entry.seconds
            steps.append((trial, fastest))
    panel.line([*steps, (len(report.measurements), fastest)])
    return panel


def _model(guessed: Sequence[Measurement]) -> _Panel:
    pairs = [(math.exp(entry.predicted or 0.0), entry.seconds or 1.0) for entry in guessed]
    predicted, seconds = zip(*pairs, strict=True)
    panel = _Panel(WIDTH + GAP, seconds, predicted, log_x=True)
    panel.axes("seconds, against what the model said before", "predicted seconds")
    for (guess, truth), entry in zip(pairs, guessed, strict=True):
        panel.dot(guess, truth, "timed", f"{entry.trace.decisions}: {truth:.3g} s")
    return panel


def _bounds(values: Sequence[float]) -> tuple[float, float]:
    low, high = min(values), max(values)
    edge = 0.05 * (high - low) or 0.5
    return low - edge, high + edge


def _ticks(low: float, high: float) -> list[float]:
    """Round numbers between two logarithms: one, two and five of each power, fewer of many powers
    and more of less than one.

    Where that leaves fewer than two, both ends: a picture without numbers says nothing.
    """
    powers = range(math.floor(low), math.ceil(high) + 1)
    for digits in (1,) if len(powers) > 4 else (1, 2, 5), (1, 1.5, 2, 3, 4, 5, 7):
        values = [digit * 10.0**power for power in powers for digit in digits]
        inside = [value for value in values if low <= math.log10(value) <= high]
        if len(inside) > 1:
            return inside
    return [10.0**low, 10.0**high]


def _svg(parts: Sequence[str], width: float, height: float) -> str:
    style = (
        "text{font:12px sans-serif;fill:#333}.tick{font-size:10px}.axis{fill:none;stroke:#888}"
        ".timed{fill:#3477b2}.rejected{fill:none;stroke:#c33}polyline{fill:none;stroke:#c80;"
        "stroke-width:2}"
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}">'
        f'<style>{style}</style><rect width="100%" height="100%" fill="#fff"/>'
        f"{''.join(parts)}</svg>\n"
    )
