"""SVG charts: the document, its text and lines, and round values for its axes.

Every chart of the project is put together from these, so that all look alike: of a race
(`aiosearch.optimizer`), of strategies measured and simulated (`aiosearch.lab`).

>>> ticks(2.6)
[0.0, 0.5, 1.0, 1.5, 2.0, 2.5]
>>> rule(0, 10, 100, 10)
'<path d="M0.0 10.0L100.0 10.0" stroke="#cbd5e1"/>'
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from xml.sax.saxutils import escape

FONT = "ui-monospace,Menlo,Consolas,'DejaVu Sans Mono',monospace"
INK, FAINT, LINE = "#0f172a", "#475569", "#cbd5e1"
"""Colours of text and bars, of what explains them, and of the grid behind."""
COLOURS = (
    "#0284c7", "#16a34a", "#d97706", "#7c3aed", "#dc2626", "#0f766e", "#be185d", "#64748b",
    "#000000", "#a16207",
)  # fmt: skip
"""Colours of lines, in the order in which they are taken."""


def document(width: float, height: float, parts: Iterable[str]) -> str:
    """Gives a whole SVG document of `parts` on white."""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" '
        f'width="{width:.0f}" height="{height:.0f}" font-family="{FONT}" font-size="12">\n'
        '<rect width="100%" height="100%" fill="#ffffff"/>\n' + "\n".join(parts) + "\n</svg>\n"
    )


def text(x: float, y: float, words: str, fill: str = INK, anchor: str = "start") -> str:
    """Writes `words`, of which `anchor` (start, middle, end) is at `x`, on the base line `y`."""
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" fill="{fill}" text-anchor="{anchor}">{escape(words)}</text>'
    )


def rule(x: float, y: float, right: float, bottom: float) -> str:
    """Draws a line of the grid from `(x, y)` to `(right, bottom)`."""
    return f'<path d="M{x:.1f} {y:.1f}L{right:.1f} {bottom:.1f}" stroke="{LINE}"/>'


def line(points: Iterable[tuple[float, float]], stroke: str, width: float = 2.0) -> str:
    """Draws straight lines from point to point."""
    path = "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
    return f'<path d="M{path}" stroke="{stroke}" stroke-width="{width:g}" fill="none"/>'


def dashed(points: Iterable[tuple[float, float]], stroke: str = FAINT) -> str:
    """Draws straight lines from point to point, dashed: what would be if nothing were lost."""
    path = "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
    return f'<path d="M{path}" stroke="{stroke}" stroke-dasharray="5 4" fill="none"/>'


def dots(points: Sequence[tuple[float, float]], fill: str, radius: float = 3.0) -> list[str]:
    """Draws a filled circle at each point."""
    return [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius:g}" fill="{fill}"/>' for x, y in points]


def error_bar(x: float, low: float, high: float, stroke: str) -> str:
    """Draws an interval as an upright line with a stroke across each end."""
    path = f"M{x:.1f} {high:.1f}V{low:.1f}M{x - 4:.1f} {low:.1f}h8M{x - 4:.1f} {high:.1f}h8"
    return f'<path d="{path}" stroke="{stroke}" fill="none"/>'


def ticks(most: float) -> list[float]:
    """Gives four to eight round values from zero, the last of them `most` or a little less."""
    unit = 10.0 ** math.floor(math.log10(most))
    step = next(size for size in (0.1, 0.2, 0.5, 1.0, 2.0) if most / (unit * size) <= 8) * unit
    return [round(step * count, 6) for count in range(int(most / step) + 1)]


def timeline(
    series: Mapping[str, Sequence[tuple[float, float]]],
    unit: str = "",
    *,
    stepped: Collection[str] = (),
    flat: Collection[str] = (),
) -> str:
    """Gives a whole document with values over seconds, a line for each of `series`, which begins
    with a value at some second.

    Those of `stepped` keep a value until the next one; those of `flat` are dashed, as limits are.
    """
    width, left, right, bottom, top = 900.0, 70.0, 120.0, 170.0, 14.0
    points = [point for line_points in series.values() for point in line_points]
    long = max(*(seconds for seconds, _ in points), 1e-3)
    most = max(value for _, value in points) * 1.05 or 1.0

    def place(seconds: float, value: float) -> tuple[float, float]:
        up = max(value, 0.0) / most * (bottom - top)
        return left + seconds / long * (width - left - right), bottom - up

    parts: list[str] = []
    used: list[float] = []
    for tick in ticks(most):
        _, y = place(0, tick)
        parts.append(rule(left, y, width - right, y))
        parts.append(text(left - 6, y + 4, f"{short_number(tick)}{unit}", FAINT, "end"))
    for tick in ticks(long):
        x, _ = place(tick, 0)
        parts.append(text(x, bottom + 16, f"{tick:g} s", FAINT, "middle"))
    for (name, values), colour in zip(series.items(), COLOURS * len(series), strict=False):
        path = [place(*value) for value in (_steps(values) if name in stepped else values)]
        parts.append(dashed(path) if name in flat else line(path, colour))
        end = f"{name} {short_number(values[-1][1])}{unit}"
        low = path[-1][1] + 4
        # Names of lines that end in one place stand below each other.
        while any(abs(low - height) < 13 for height in used):
            low += 13
        used.append(low)
        parts.append(text(path[-1][0] + 6, low, end, FAINT if name in flat else colour))
    return document(width, bottom + 26, parts)


def columns(counts: Mapping[int, float]) -> str:
    """Gives a whole document with a column for each whole number from the least to the largest of
    `counts`; of many, neighbours share one.

    >>> columns({0: 1, 1: 4}).count("<rect")
    3
    """
    width, left, right, bottom, top, most_columns = 900.0, 70.0, 20.0, 170.0, 14.0, 100
    first, last = min(counts), max(counts)
    each = -(-(last - first + 1) // most_columns)
    heights: dict[int, float] = {}
    for number, count in counts.items():
        heights[(number - first) // each] = heights.get((number - first) // each, 0) + count
    slots = (last - first) // each + 1
    most = max(heights.values()) * 1.05 or 1.0
    step = (width - left - right) / slots
    parts: list[str] = []
    for tick in ticks(most):
        y = bottom - tick / most * (bottom - top)
        parts.append(rule(left, y, width - right, y))
        parts.append(text(left - 6, y + 4, short_number(tick), FAINT, "end"))
    for slot, height in sorted(heights.items()):
        tall = height / most * (bottom - top)
        parts.append(
            f'<rect x="{left + slot * step + 0.1 * step:.1f}" y="{bottom - tall:.1f}"'
            f' width="{0.8 * step:.1f}" height="{tall:.1f}" fill="{COLOURS[0]}"/>'
        )
    for slot in range(0, slots, max(1, slots // 12)):
        place = left + (slot + 0.5) * step
        parts.append(text(place, bottom + 16, str(first + slot * each), FAINT, "middle"))
    return document(width, bottom + 26, parts)


def _steps(values: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """The corners of a line that keeps each value until the next one."""
    corners = [values[0]]
    for seconds, value in values[1:]:
        corners += [(seconds, corners[-1][1]), (seconds, value)]
    return corners


def short_number(value: float) -> str:
    """Writes 950, 1.2k, 98k or 1.23M.

    >>> short_number(98_200), short_number(1.5)
    ('98.2k', '1.5')
    """
    for unit in ("", "k", "M", "G"):
        if abs(value) < 999.5:
            return f"{value:.3g}{unit}"
        value /= 1000
    return f"{value:.3g}T"
