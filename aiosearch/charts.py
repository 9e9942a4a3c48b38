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
from collections.abc import Iterable, Sequence
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
