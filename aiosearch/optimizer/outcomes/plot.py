"""The SVG chart of a report: the time of each candidate with its noise, and the roofline."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence

from ...display import charts
from ...display.tables import time_text
from ...measure import Ceilings
from .candidate_rows import CandidateRow, CandidateState, candidate_rows
from .report import Found, Report
from .roofline import ceilings_of, measured

WIDTH = 760.0
_WINNER, _OTHER, _OUT = "#16a34a", "#0284c7", "#94a3b8"
_ROW, _LEFT, _RIGHT, _TOP = 36.0, 10.0, 150.0, 34.0
_LINE, _LINE_LENGTH = 14.0, 100
"""The height of a line of a name, and how many letters of 7.2 units fit in it."""
_ROOF_HEIGHT = 260.0
_DECADES = (-1.0, 4.0)
"""Operations a byte that the roofline shows, as powers of ten."""
_DEPTH = 4
"""Powers of ten that it shows below its top."""


def plot(report: Report) -> str:
    """A whole SVG document, with two parts for each program of `report`."""
    parts: list[str] = []
    top = 0.0
    for outcome in report.found:
        for draw in (_times, _roofline):
            body, height = draw(outcome)
            parts.append(f'<g transform="translate(0 {top:.0f})">\n{body}\n</g>')
            top += height
    return charts.document(WIDTH, top, parts)


def times_chart(outcome: Found) -> str:
    """A whole SVG document: a bar for each candidate that was timed."""
    body, height = _times(outcome)
    return charts.document(WIDTH, height, [body])


def roofline_chart(outcome: Found) -> str:
    """A whole SVG document: what the device can do, and where the program is; or why that is not
    known."""
    body, height = _roofline(outcome)
    return charts.document(WIDTH, height, [body])


def _times(outcome: Found) -> tuple[str, float]:
    """A bar for each candidate, as long as it takes, and a line from end to end of its interval."""
    rows = [row for row in candidate_rows(outcome) if row.seconds is not None]
    # The whisker of the slowest bar has to fit as well.
    most = max(row.high or row.seconds or 0.0 for row in rows)
    scale = (WIDTH - _LEFT - _RIGHT) / most
    lines = [charts.text(_LEFT, 20, f"{outcome.answer.name}: time of a call", charts.INK)]
    top = _TOP
    for row in rows:
        *above, last = _name_lines(row)
        for words in above:
            lines.append(charts.text(_LEFT, top + 11, words, charts.INK))
            top += _LINE
        lines += _bar(row, last, top, scale)
        top += _ROW
    return "\n".join(lines), top + 20


def _name_lines(row: CandidateRow) -> list[str]:
    """The name, whole, in lines that fit."""
    suffix = "" if row.state is not CandidateState.NOT_TAKEN else " (not taken)"
    return textwrap.wrap(f"{row.name}{suffix}", _LINE_LENGTH) or [""]


_FILLS = {CandidateState.WINNER: _WINNER, CandidateState.NOT_TAKEN: _OUT}


def _bar(row: CandidateRow, name: str, top: float, scale: float) -> list[str]:
    """The last line of the name, and the bar below it."""
    seconds = row.seconds or 0.0
    middle, end = top + 21, _LEFT + seconds * scale
    lines = [
        charts.text(_LEFT, top + 11, name, charts.INK),
        f'<rect x="{_LEFT}" y="{top + 15:.1f}" width="{seconds * scale:.1f}" height="12" '
        f'fill="{_FILLS.get(row.state, _OTHER)}" fill-opacity="0.75"/>',
    ]
    if row.low is not None and row.high is not None:
        low, high = (_LEFT + value * scale for value in (row.low, row.high))
        end = max(end, high)
        path = f"M{low:.1f} {middle}H{high:.1f}M{low:.1f} {middle - 4}v8M{high:.1f} {middle - 4}v8"
        lines.append(f'<path d="{path}" stroke="{charts.INK}" fill="none"/>')
    label = f"{time_text(seconds)}, {row.speedup or 0.0:.2f}x"
    return [*lines, charts.text(end + 6, middle + 4, label, charts.FAINT)]


def _roofline(outcome: Found) -> tuple[str, float]:
    """What the device can do at each ratio of operations to bytes, and where the program is."""
    evidence = outcome.answer.evidence
    flops, moved, kinds = evidence.flops, evidence.bytes, evidence.kinds or ()
    ceilings = ceilings_of(outcome.answer)
    if ceilings is None or not flops or not moved:
        return charts.text(
            10, 16, "no roofline: aiosearch doctor --measure comes first", charts.FAINT
        ), 30.0
    if not measured(ceilings, kinds):
        message = f"no roofline: {' and '.join(kinds)} is not among what is measured"
        return charts.text(10, 16, message, charts.FAINT), 30.0
    roof = _Roof(ceilings, kinds)
    intensity = flops / moved
    times = outcome.answer.timings
    points = [("as written", times.original, _OTHER), ("answer", times.answer, _WINNER)]
    lines = [
        charts.text(10, 20, f"roofline of {ceilings.device}: GFLOP/s by FLOP/byte", charts.INK)
    ]
    lines += roof.lines()
    for name, seconds, fill in points[0 if outcome.answer.faster else 1 :]:
        lines += roof.point(name, intensity, flops / seconds, fill)
    return "\n".join(lines), _ROOF_HEIGHT + 30


class _Roof:
    """Places in the diagram of one device, for the element types that a program has."""

    def __init__(self, ceilings: Ceilings, kinds: Sequence[str]) -> None:
        self._bytes = ceilings.bytes_per_second
        shown = kinds or ceilings.flops_per_second.keys()
        self._flops = {kind: ceilings.fastest(kind) for kind in shown}
        self._most = math.ceil(math.log10(max(self._flops.values())))

    def lines(self) -> list[str]:
        roofs = [line for name, flops in self._flops.items() for line in self._line(name, flops)]
        return [*self._grid(), *roofs]

    def point(self, name: str, intensity: float, flops: float, fill: str) -> list[str]:
        x, y = self._place(intensity, flops)
        label = f"{name}: {flops / 1e9:.3g} GFLOP/s"
        circle = f'<circle cx="{x:.1f}" cy="{y:.1f}" r="5" fill="{fill}"/>'
        return [circle, charts.text(x + 9, y + 13, label, charts.INK)]

    def _grid(self) -> list[str]:
        """A faint line for each power of ten."""
        lines = []
        left, bottom = self._place(10 ** _DECADES[0], 10.0 ** (self._most - _DEPTH))
        right, top = self._place(10 ** _DECADES[1], 10.0**self._most)
        for decade in range(round(_DECADES[0]), round(_DECADES[1]) + 1):
            x, _ = self._place(10.0**decade, 1.0)
            lines += [
                charts.rule(x, top, x, bottom),
                charts.text(x, bottom + 14, f"{10.0**decade:g}", charts.FAINT),
            ]
        for decade in range(self._most - _DEPTH, self._most + 1):
            _, y = self._place(1.0, 10.0**decade)
            label = f"{10.0 ** (decade - 9):g}"
            lines += [
                charts.rule(left, y, right, y),
                charts.text(left - 5, y + 4, label, charts.FAINT, "end"),
            ]
        return lines

    def _line(self, name: str, flops: float) -> list[str]:
        low, high = 10 ** _DECADES[0], 10 ** _DECADES[1]
        places = [(low, low * self._bytes), (flops / self._bytes, flops), (high, flops)]
        path = "L".join("{:.1f} {:.1f}".format(*self._place(*place)) for place in places)
        x, y = self._place(high, flops)
        label = f"{name}: {flops / 1e9:,.0f} GFLOP/s, {self._bytes / 1e9:,.1f} GB/s"
        return [
            f'<path d="M{path}" stroke="{charts.INK}" fill="none" stroke-width="1.5"/>',
            charts.text(x, y - 5, label, charts.FAINT, "end"),
        ]

    def _place(self, intensity: float, flops: float) -> tuple[float, float]:
        """Within the frame, whatever the figures are."""
        first, last = _DECADES
        across = (math.log10(intensity) - first) / (last - first)
        up = 1 - (self._most - math.log10(max(flops, 1.0))) / _DEPTH
        right, high = (min(max(share, 0.0), 1.0) for share in (across, up))
        return 60 + right * (WIDTH - 100), _TOP + (1 - high) * (_ROOF_HEIGHT - _TOP)
