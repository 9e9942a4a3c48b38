"""Drawings of programs: complete, without overlaps, with texts that fit."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from xml.etree import ElementTree

import pytest
from testkit.programs.random_programs import random_program

from aiosearch.tensor import Program, apply, tensor
from aiosearch.tensor.drawing import draw
from aiosearch.tensor.drawings.layered_layout import GAP_X, Edge, arrange
from aiosearch.tensor.text import parse

SVG = "{http://www.w3.org/2000/svg}"

ATTENTION = parse("""
program attention(Q: f16[2, 256, 64], K: f16[2, 64, 4096], V: f16[2, 4096, 64]) {
  o, l = kernel(grid=[2, 16, 4], range=4) {
    q = load(Q, map=[0, 1, _])
    k = load(K, map=[0, _, 2], loop=2)
    v = load(V, map=[0, _, 1], loop=1)
    s = matmul(q, k)
    thread { e = write(exp(mul(s, 0.125))) }
    a = accumulate(matmul(e, v))
    d = accumulate(e, kind=sum)
    store(a, map=[0, 1, 2])
    store(d, map=[0, 1, 2])
  }
  r = kernel(grid=[2, 16, 1], range=1) {
    a = load(o, map=[0, 1, _])
    d = load(l, map=[0, 1, _])
    n = fold(accumulate(a), axis=2, size=64)
    t = accumulate(d, kind=sum)
    thread { w = write(div(n, t)) }
    store(w, map=[0, 1, _])
  }
  return r
}""")


@dataclass(frozen=True)
class Box:
    left: float
    top: float
    right: float
    bottom: float

    def within(self, other: Box) -> bool:
        return (
            other.left <= self.left + 0.2 and self.right <= other.right + 0.2
            and other.top <= self.top + 0.2 and self.bottom <= other.bottom + 0.2
        )  # fmt: skip

    def apart(self, other: Box) -> bool:
        return (
            self.right <= other.left or other.right <= self.left
            or self.bottom <= other.top or other.bottom <= self.top
        )  # fmt: skip


def _flat(
    element: ElementTree.Element, x: float = 0.0, y: float = 0.0
) -> Iterator[tuple[ElementTree.Element, float, float]]:
    """Every element with where its origin is; turned ones are left out."""
    place = element.get("transform", "")
    if "rotate" in place:
        return
    moved = re.match(r"translate\(([-\d.]+) ([-\d.]+)\)", place)
    if moved:
        x, y = x + float(moved[1]), y + float(moved[2])
    yield element, x, y
    for child in element:
        yield from _flat(child, x, y)


def _boxes(svg: str) -> list[Box]:
    found = []
    for element, x, y in _flat(ElementTree.fromstring(svg)):
        if element.tag == f"{SVG}rect":
            left, top = x + float(element.get("x", 0)), y + float(element.get("y", 0))
            right = left + float(element.get("width", 0))
            found.append(Box(left, top, right, top + float(element.get("height", 0))))
    return found


def _texts(svg: str) -> list[tuple[str, Box]]:
    """The texts and the ground that they take, in a usual monospaced font."""
    found = []
    for element, x, y in _flat(ElementTree.fromstring(svg)):
        if element.tag == f"{SVG}text":
            text, size = element.text or "", float(element.get("font-size", 0))
            width = 0.602 * size * len(text)
            shift = width / 2 if element.get("text-anchor") == "middle" else 0
            left, base = x + float(element.get("x", 0)) - shift, y + float(element.get("y", 0))
            found.append((text, Box(left, base - 0.75 * size, left + width, base)))
    return found


def _sample() -> list[Program]:
    return [ATTENTION, *(random_program(seed) for seed in range(150))]


def test_a_drawing_shows_every_part() -> None:
    """Kernels with grid and range, loads with maps, accumulators, threads, stores, types."""
    texts = [text for text, _ in _texts(draw(ATTENTION))]
    for wanted in (
        "custom kernel · grid 2\N{MULTIPLICATION SIGN}16\N{MULTIPLICATION SIGN}4 · loop 4",
        "load K", "x→0, z→2, loop→2", "accumulate", "sum", "store 1", "mul(·, 0.125)", "fold",
        "axis 2, size 64", "f16[2, 64, 4096]", "output",
    ):  # fmt: skip
        assert wanted in texts
    assert draw(ATTENTION).count(">thread<") == 2
    assert draw(ATTENTION).count(">after<") == 2


def test_boxes_are_apart_or_nested() -> None:
    """None overlaps another in part."""
    for program in _sample():
        for one, two in combinations(_boxes(draw(program)), 2):
            dots = min(one.right - one.left, two.right - two.left) <= 8.1
            assert dots or one.apart(two) or one.within(two) or two.within(one), program


def test_texts_fit_into_their_boxes() -> None:
    """Every text lies within a box: it is readable on any page."""
    for program in _sample():
        svg = draw(program)
        boxes = _boxes(svg)
        for text, ground in _texts(svg):
            assert any(ground.within(box) for box in boxes), f"{text}\n{program}"


def test_everything_lies_on_the_page() -> None:
    """The page is as large as what is drawn."""
    for program in _sample():
        svg = draw(program)
        root = ElementTree.fromstring(svg)
        page = Box(0, 0, float(root.get("width", 0)), float(root.get("height", 0)))
        assert all(box.within(page) for box in _boxes(svg))


def test_names_cannot_break_a_drawing() -> None:
    """Marks, control letters and endless names."""
    names = ("<&>\"'", "\x00\x1b", "n" * 500, "宽" * 30, "")
    inputs = tuple(tensor(name, "f32", (2,), (name,)) for name in names)
    total = inputs[0]
    for one in inputs[1:]:
        total = total + one
    svg = draw(Program("<odd>", inputs, (total, inputs[0])))
    ElementTree.fromstring(svg)
    assert "n" * 60 not in svg


def test_a_drawing_is_the_same_every_time() -> None:
    """It can be kept under version control."""
    assert draw(ATTENTION) == draw(ATTENTION)


def test_a_long_program_is_drawn_soon() -> None:
    """A few thousand operators in a row, all reading one input."""
    first = term = tensor("X", "f32", (4,))
    for _ in range(1500):
        term = apply("exp", term) + first
    assert draw(Program("long", (first,), (term,))).count("<rect") > 3000


SIZES = [(40.0, 20.0), (80.0, 20.0), (40.0, 60.0), (40.0, 20.0)]
DIAMOND = [Edge(0, 1, 20, 40), Edge(0, 2, 20, 20), Edge(1, 3, 40, 10), Edge(2, 3, 20, 30)]


def test_a_box_lies_below_what_it_depends_on() -> None:
    """Rows from top to bottom, boxes of one row side by side."""
    places = arrange(SIZES, DIAMOND, [0, 0, 0, 0]).places
    assert places[0][1] < places[1][1] == places[2][1] < places[3][1]
    assert abs(places[1][0] - places[2][0]) >= 40 + GAP_X


def test_lines_go_from_port_to_port() -> None:
    """Each begins at the bottom of one box and ends at the top of another."""
    layout = arrange(SIZES, DIAMOND, [0, 0, 0, 0])
    for edge, route in zip(DIAMOND, layout.routes, strict=True):
        x, y = layout.places[edge.source]
        assert route[0] == pytest.approx((x + edge.source_port, y + SIZES[edge.source][1]))
        x, y = layout.places[edge.target]
        assert route[-1] == pytest.approx((x + edge.target_port, y))


def test_long_lines_pass_beside_boxes() -> None:
    """A line over several rows stands apart from every box in between."""
    sizes = [(60.0, 20.0)] * 5
    edges = [Edge(n, n + 1, 30, 30) for n in range(4)] + [Edge(0, 4, 30, 30)]
    layout = arrange(sizes, edges, [0] * 5)
    for x, y in layout.routes[-1][2:-2]:
        for (left, top), (width, height) in zip(layout.places[1:4], sizes[1:4], strict=True):
            assert not (left < x < left + width and top <= y <= top + height)


def test_zones_lie_below_one_another() -> None:
    """Even where nothing depends on what is above; the gap is added between them."""
    layout = arrange(SIZES, [], [0, 1, 0, 1], gaps=(50.0,))
    assert layout.zones[0][1] + 50 <= layout.zones[1][0]


def test_sources_sink_to_where_they_are_used() -> None:
    """An input of the last operator stands right above it."""
    edges = [Edge(0, 1, 5, 5), Edge(1, 3, 5, 5), Edge(2, 3, 5, 5)]
    high = arrange(SIZES, edges, [0] * 4)
    low = arrange(SIZES, edges, [0] * 4, sink=True)
    assert high.places[2][1] == high.places[0][1]
    assert low.places[2][1] == low.places[1][1]


def test_nothing_is_laid_out_as_nothing() -> None:
    """No boxes, no size."""
    layout = arrange([], [], [])
    assert (layout.width, layout.height, layout.places) == (0.0, 0.0, [])
