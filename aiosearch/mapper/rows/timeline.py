"""Draws a plan as an SVG: a lane for each team, and bars for what it does over time."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from msgspec import Struct

WIDTH, LANE, MARGIN, BAR = 720, 44, 96, 15
PREDICTED, MEASURED = "#c9d6ea", "#3465a4"


class Bar(Struct, frozen=True):
    """A piece of work of a lane: when it begins and how long it takes, in seconds."""

    lane: str
    label: str
    start: float
    seconds: float
    predicted: float
    """Seconds that the model predicted; drawn paler, above."""


def draw_timeline(bars: Sequence[Bar], title: str) -> str:
    """Gives the text of an SVG file."""
    lanes = list(dict.fromkeys(bar.lane for bar in bars))
    end = max((bar.start + max(bar.seconds, bar.predicted) for bar in bars), default=0.0) or 1.0
    scale = (WIDTH - MARGIN - 16) / end
    height = 56 + LANE * len(lanes)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" '
        f'font-family="sans-serif" font-size="11">',
        f'<text x="8" y="18" font-size="13">{escape(title)}</text>',
    ]
    for number, lane in enumerate(lanes):
        top = 32 + LANE * number
        parts.append(f'<text x="8" y="{top + 24}">{escape(lane)}</text>')
        parts.append(
            f'<line x1="{MARGIN}" x2="{WIDTH - 16}" y1="{top + 38}" y2="{top + 38}" stroke="#ddd"/>'
        )
    for bar in bars:
        top, left = 32 + LANE * lanes.index(bar.lane), MARGIN + bar.start * scale
        for row, (seconds, color) in enumerate(
            ((bar.predicted, PREDICTED), (bar.seconds, MEASURED))
        ):
            width = max(1.0, seconds * scale)
            parts.append(
                f'<rect x="{left:.1f}" y="{top + 4 + row * (BAR + 2)}" width="{width:.1f}" '
                f'height="{BAR}" fill="{color}"><title>{escape(bar.label)}: '
                f"{seconds * 1e3:.3g} ms {'measured' if row else 'predicted'}</title></rect>"
            )
    legend = f"0 to {end * 1e3:.3g} ms; pale: predicted, dark: measured"
    parts.append(f'<text x="{MARGIN}" y="{height - 8}" fill="#666">{legend}</text></svg>\n')
    return "\n".join(parts)
