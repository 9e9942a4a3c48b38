"""SVG boxes of text with ports, and graphs of such boxes (`BoxGraph`)."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from xml.sax.saxutils import escape

from .layered_layout import Edge, LayeredLayout, arrange

_EM = 0.61
"""The width of a monospaced letter."""
_MOST_LETTERS = 44
"""Longer texts are cut, with an ellipsis."""
_TAG_GAP = 7.0
_TAG_HEIGHT = 16.0
_INK = "#0f172a"
_FAINT = "#475569"
LINE = "#7c8797"
_FONT = "ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace"
_UNWRITABLE = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML cannot hold."""


@dataclass(frozen=True)
class Style:
    """Colours and border of a box."""

    fill: str
    stroke: str
    round: float = 7.0
    dash: str = ""


INPUT = Style("#e0f2fe", "#0284c7", 14.0)
OUTPUT = Style("#dcfce7", "#16a34a", 14.0)
OPERATOR = Style("#ffffff", "#64748b")
LOAD = Style("#e0f2fe", "#0284c7", 3.0)
STORE = Style("#dcfce7", "#16a34a", 3.0)
ACCUMULATOR = Style("#fde68a", "#b45309", 3.0)
THREAD = Style("#ede9fe", "#7c3aed", 10.0, "4 3")
DOT = Style("#7c3aed", "#7c3aed", 4.0)
KERNEL = Style("#f8fafc", "#334155", 12.0)
LOOP = Style("#fff7e6", "#d97706", 9.0, "6 4")
AFTER = Style("#eef2ff", "#6366f1", 9.0)
TAG = Style("#f1f5f9", "#cbd5e1", 8.0)


@dataclass(frozen=True)
class SvgBox:
    """Something drawn at the origin, with ports at its top and bottom, from the left."""

    width: float
    height: float
    body: str
    inputs: Sequence[float] = ()
    outputs: Sequence[float] = ()
    pointed: bool = True
    """Whether lines into it end in an arrow; those that go on inside do not."""


def box(width: float, height: float, style: Style, x: float = 0.0, y: float = 0.0) -> str:
    """A rectangle with rounded corners."""
    dash = f' stroke-dasharray="{style.dash}"' if style.dash else ""
    return (
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" '
        f'rx="{style.round:g}" fill="{style.fill}" stroke="{style.stroke}"{dash}/>'
    )


def words(
    text: str, x: float, y: float, size: float, anchor: str = "middle", strong: bool = False
) -> str:
    """A line of text, escaped and `shortened`."""
    weight = ' font-weight="600"' if strong else ""
    ink = _INK if strong else _FAINT
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size:g}" text-anchor="{anchor}" '
        f'fill="{ink}"{weight}>{escape(shortened(text))}</text>'
    )


def wide(text: str, size: float) -> float:
    """The width of a text of this font size."""
    # Wide East Asian letters take two columns of a monospaced font.
    letters = sum(2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in shortened(text))
    return letters * size * _EM


def shortened(text: str) -> str:
    """A text that XML can hold, of at most `_MOST_LETTERS` letters."""
    clean = _UNWRITABLE.sub("\N{REPLACEMENT CHARACTER}", text)
    return clean if len(clean) <= _MOST_LETTERS else clean[: _MOST_LETTERS - 1] + "…"


def chip(
    title: str, detail: str, style: Style, operands: int, tag: str = "", least: float = 44.0
) -> SvgBox:
    """A box with a title, a detail below it, and the type of what comes out as a tag."""
    inner = max(least, wide(title, 13) + 20, wide(detail, 11) + 18, wide(tag, 10.5) + 14)
    tall = 42.0 if detail else 28.0
    parts = [box(inner, tall, style), words(title, inner / 2, 18.5, 13, strong=True)]
    if detail:
        parts.append(words(detail, inner / 2, 34, 11))
    ports = [inner * (index + 1) / (operands + 1) for index in range(operands)]
    height = tall
    if tag:
        parts.append(tagged(tag, inner / 2, tall))
        height += _TAG_GAP + _TAG_HEIGHT
    return SvgBox(inner, height, "".join(parts), ports, [inner / 2])


def label(text: str, x: float, y: float, style: Style, size: float = 11.0) -> str:
    """A text on a ground of its own, which hides the lines below."""
    height = size + 8
    ground = Style(style.fill, style.fill, 4.0)
    return box(wide(text, size) + 8, height, ground, x, y) + words(
        text, x + 4, y + size * 1.2, size, "start", strong=size > 12
    )


def sideways(text: str, x: float, top: float, bottom: float) -> str:
    """A small text that reads upwards, midway along the left side of a box."""
    middle = (top + bottom) / 2
    # Too long for the side: the first word alone.
    shown = text if wide(text, 11) <= bottom - top else text.split()[0]
    turn = f'<g transform="translate({x:.1f} {middle:.1f}) rotate(-90)">'
    return f"{turn}{words(shown, 0, 0, 11)}</g>"


def tagged(tag: str, x: float, y: float) -> str:
    """The type of a value, on the line that leaves a box at this place."""
    width = wide(tag, 10.5) + 12
    top = y + _TAG_GAP
    return (
        f'<path d="M{x:.1f} {y:.1f}V{top:.1f}" stroke="{LINE}"/>'
        + box(width, _TAG_HEIGHT, TAG, x - width / 2, top)
        + words(tag, x, top + 11.6, 10.5)
    )


TAG_SPACE = _TAG_GAP + _TAG_HEIGHT


@dataclass
class BoxGraph:
    """Figures and the lines between them; `where` holds the port that each value comes out of."""

    figures: list[SvgBox] = field(default_factory=list)
    zones: list[int] = field(default_factory=list)
    where: dict[Hashable, tuple[int, int]] = field(default_factory=dict)
    _edges: list[Edge] = field(default_factory=list)
    _ends: list[tuple[int, int, int, int]] = field(default_factory=list)

    def add(
        self,
        figure: SvgBox,
        operands: Sequence[Hashable] = (),
        results: Sequence[Hashable] = (),
        zone: int = 0,
    ) -> int:
        """Adds a figure whose ports take these values and give those."""
        node = len(self.figures)
        self.figures.append(figure)
        self.zones.append(zone)
        for port, operand in enumerate(operands):
            source, source_port = self.where[operand]
            ports = self.figures[source].outputs[source_port], figure.inputs[port]
            self._edges.append(Edge(source, node, *ports))
        for port, result in enumerate(results):
            self.where[result] = (node, port)
        return node

    def drawn(self, gaps: Sequence[float] = (), sink: bool = False) -> tuple[LayeredLayout, str]:
        """Where everything is, and the drawing."""
        sizes = [(figure.width, figure.height) for figure in self.figures]
        layout = arrange(sizes, self._edges, self.zones, gaps, sink)
        parts = [
            _line(route, self.figures[edge.target].pointed)
            for edge, route in zip(self._edges, layout.routes, strict=True)
        ]
        parts += [
            f'<g transform="translate({x:.1f} {y:.1f})">{figure.body}</g>'
            for figure, (x, y) in zip(self.figures, layout.places, strict=True)
        ]
        return layout, "\n".join(parts)


def _line(route: Sequence[tuple[float, float]], pointed: bool) -> str:
    """A line along `route`: vertical within rows, curved between them."""
    (x, y), *corners = route
    path = [f"M{x:.1f} {y:.1f}"]
    for right, down in corners:
        # Coordinates are written with one digit: shorter steps would be empty.
        if abs(right - x) < 0.05 and abs(down - y) < 0.05:
            continue
        if abs(right - x) < 0.05:
            path.append(f"V{down:.1f}")
        else:
            middle = (y + down) / 2
            path.append(f"C{x:.1f} {middle:.1f} {right:.1f} {middle:.1f} {right:.1f} {down:.1f}")
        x, y = right, down
    return _stroke("".join(path), pointed)


def upright(x: float, top: float, bottom: float, pointed: bool) -> str:
    """A line straight down."""
    return _stroke(f"M{x:.1f} {top:.1f}V{bottom:.1f}", pointed)


def _stroke(path: str, pointed: bool) -> str:
    end = ' marker-end="url(#arrow)"' if pointed else ""
    return f'<path d="{path}" fill="none" stroke="{LINE}" stroke-width="1.3"{end}/>'


def page(title: str, width: float, height: float, body: str, margin: float = 12.0) -> str:
    """A whole SVG document."""
    wide_, tall = width + 2 * margin, height + 2 * margin
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{wide_:.0f}" height="{tall:.0f}" '
        f'viewBox="0 0 {wide_:.1f} {tall:.1f}" font-family="{_FONT}" role="img">\n'
        f"<title>{escape(shortened(title))}</title>\n"
        '<defs><marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" '
        f'markerHeight="7" orient="auto"><path d="M0 0.8L8 4L0 7.2z" fill="{LINE}"/>'
        "</marker></defs>\n"
        f'<g transform="translate({margin:g} {margin:g})">\n{body}\n</g>\n</svg>\n'
    )
