"""Drawings of programs as SVG.

Custom kernels are boxes in the kernel graph, threads boxes in those.
"""

from __future__ import annotations

from collections.abc import Sequence

from .drawings import svg_boxes
from .drawings.svg_boxes import BoxGraph, SvgBox, box, chip, page, upright, wide
from .mugraph import ACCUMULATE, LOAD, READ, WRITE, Kernel, results
from .sizes import Size
from .syntax.printer import number_text, value_text
from .syntax.statement_order import Thread, block_steps, graph_steps
from .terms import INPUT, LITERAL, Program, Term
from .types import Place

_PAD = 16.0
"""Inner margin of a box, in SVG units."""
_HEAD = 34.0
"""Height of a kernel's title."""
_DOT = 8.0
"""Size of a thread's port."""
_TIMES = "\N{MULTIPLICATION SIGN}"
_RIM = 12.0
"""Margin around the parts of a kernel."""
_GUTTER = 20.0
"""Room on the left for the names of parts."""
_AFTER_ZONE = (Place.AFTER, Place.AFTER_REGISTER)


def draw(program: Program) -> str:
    """The program as an SVG document, readable on light and on dark pages."""
    graph = BoxGraph()
    for term in program.inputs:
        graph.add(_input(term), (), [term])
    for step in graph_steps(program):
        if isinstance(step, Kernel):
            loads = [term.arguments[0] for term in step.body if term.operator is LOAD]
            stored = results(step)
            graph.add(_kernel(step, stored), loads, stored)
        elif step.operator not in (INPUT, LITERAL):
            graph.add(_operator(step, tag=True), _values(step), [step])
    for index, output in enumerate(program.outputs):
        name = "output" if len(program.outputs) == 1 else f"output {index}"
        # A literal output has no line to come from; its value is written into the chip.
        values = [output] if output.operator is not LITERAL else []
        detail = "" if values else _constant(output)
        graph.add(chip(name, detail, svg_boxes.OUTPUT, len(values)), values, zone=1)
    layout, body = graph.drawn(sink=True)
    return page(f"program {program.name}", layout.width, layout.height, body)


def _input(term: Term) -> SvgBox:
    labels = [label or "·" for label in term.parameter("labels")]
    detail = ", ".join(labels) if any(term.parameter("labels")) else ""
    return chip(term.parameter("name"), detail, svg_boxes.INPUT, 0, str(term.type))


def _operator(term: Term, tag: bool) -> SvgBox:
    """A box for an operator; `tag` shows the type of its result."""
    values = _values(term)
    title = term.operator.name
    if term.arguments and len(values) < len(term.arguments):
        title += f"({', '.join(map(_operand, term.arguments))})"
    shown = str(term.type) if tag else ""
    return chip(title, _details(term), svg_boxes.OPERATOR, len(values), shown)


def _values(term: Term) -> list[Term]:
    """The operands that lines come from: constants are written into the box."""
    inside = term.place not in (Place.DEVICE, Place.ANYWHERE)
    return [argument for argument in term.arguments if not _is_constant(argument, inside)]


def _is_constant(term: Term, inside: bool) -> bool:
    return term.operator is LITERAL or (inside and term.place is Place.ANYWHERE)


def _operand(term: Term) -> str:
    return _constant(term) if term.place is Place.ANYWHERE else "·"


def _constant(term: Term) -> str:
    """A literal as short text."""
    if term.operator is not LITERAL:
        return "const"
    value = term.parameter("value")
    text = number_text(value) if not isinstance(value, Size) else str(value)
    return f"{value:.6g}" if isinstance(value, float) and len(text) > 8 else text


def _details(term: Term) -> str:
    """The parameters of `term` that are not defaults, as text."""
    shown = []
    for parameter, (name, value) in zip(term.operator.parameters, term.parameters, strict=True):
        if parameter.required or value != parameter.default:
            text = value_text(value)
            shown.append(name if text == "true" else f"{name} {text}")
    return ", ".join(shown)


def _splits(maps: Sequence[int | None], loop: int | None = None) -> str:
    """Says which axis each grid axis and the loop split: `x→0, loop→1`."""
    named = [*zip("xyz", maps, strict=True), ("loop", loop)]
    shown = [f"{name}→{axis}" for name, axis in named if axis is not None]
    return ", ".join(shown) or "whole"


def _kernel(kernel: Kernel, stored: Sequence[Term]) -> SvgBox:
    """A large box: title, what each iteration does, what comes after, ports at the borders."""
    graph = _block(kernel, stored)
    layout, inside = graph.drawn(gaps=(2 * _RIM,))
    grid = _TIMES.join(map(str, kernel.grid))
    title = f"custom kernel · grid {grid} · loop {kernel.range}"
    # The title may be wider than the block graph.
    width = max(layout.width + 4 * _PAD + _GUTTER, wide(title, 13) + 2 * _PAD)
    left = (width - layout.width + _GUTTER) / 2
    top = _HEAD + _RIM
    height = top + layout.height + _RIM + _PAD
    parts = [box(width, height, svg_boxes.KERNEL)]
    (first, last), (begin, _), (_, end) = layout.zones
    parts.append(
        _zone(f"loop {_TIMES} {kernel.range}", top + first, top + last, width, svg_boxes.LOOP)
    )
    parts.append(_zone("after", top + begin, top + end, width, svg_boxes.AFTER))
    places = [(left + x, top + y) for x, y in layout.places]
    loads = _ends(graph, places, False)
    stores = _ends(graph, places, True)
    # Lines from outside enter at the top border, straight above the load that they reach.
    parts += [upright(x, 0, y, True) for x, y in loads]
    parts += [upright(x, y, height, False) for x, y in stores]
    parts.append(svg_boxes.label(title, 10, 7, svg_boxes.KERNEL, 13))
    parts.append(f'<g transform="translate({left:.1f} {top:.1f})">{inside}</g>')
    parts += [
        svg_boxes.tagged(str(term.type), x, height)
        for term, (x, _) in zip(stored, stores, strict=True)
    ]
    inputs, outputs = [x for x, _ in loads], [x for x, _ in stores]
    tall = height + svg_boxes.TAG_SPACE
    return SvgBox(width, tall, "".join(parts), inputs, outputs, pointed=False)


def _zone(name: str, top: float, bottom: float, width: float, style: svg_boxes.Style) -> str:
    """A box behind one part of a kernel, with its name on the left."""
    top, bottom = top - _RIM, bottom + _RIM
    ground = box(width - 2 * _PAD, bottom - top, style, _PAD, top)
    return ground + svg_boxes.sideways(name, _PAD + 16, top, bottom)


def _ends(
    graph: BoxGraph, places: Sequence[tuple[float, float]], last: bool
) -> list[tuple[float, float]]:
    """Where lines from outside reach loads, or lines to the outside leave stores."""
    return [
        (x + figure.width / 2, y + figure.height if last else y)
        for figure, (x, y) in zip(graph.figures, places, strict=True)
        if not (figure.outputs if last else figure.inputs)
    ]


def _block(kernel: Kernel, stored: Sequence[Term]) -> BoxGraph:
    """The figures of a block graph: loads, threads, accumulators and stores."""
    graph = BoxGraph()
    steps = block_steps(kernel)
    # Registers that a later thread reads are outputs of the thread that computes them, like tiles
    # that it writes.
    needed = {term for step in steps if isinstance(step, Thread) for term in _reads(step)}
    for step in steps:
        if isinstance(step, Thread):
            operands = _reads(step)
            written = [term for term in step.terms if term.operator is WRITE or term in needed]
            zone = int(step.terms[0].place in _AFTER_ZONE)
            graph.add(_thread(step, operands, written), operands, written, zone)
        elif step.operator is LOAD:
            graph.add(_load(step), (), [step])
        elif step.operator is ACCUMULATE:
            graph.add(_accumulator(step), step.arguments, [step], 1)
        else:
            zone = int(step.place is Place.AFTER)
            graph.add(_operator(step, tag=True), _values(step), [step], zone)
    for index, ((tile, maps), term) in enumerate(zip(kernel.outputs, stored, strict=True)):
        name = "store" if len(stored) == 1 else f"store {index}"
        least = wide(str(term.type), 10.5) + 14
        store = chip(name, _splits(maps), svg_boxes.STORE, 1, least=least)
        graph.add(SvgBox(store.width, store.height, store.body, store.inputs), [tile], (), 2)
    return graph


def _load(term: Term) -> SvgBox:
    source = term.arguments[0]
    name = f" {source.parameter('name')}" if source.operator is INPUT else ""
    splits = _splits(term.parameter("map"), term.parameter("loop"))
    return chip(f"load{name}", splits, svg_boxes.LOAD, 0, str(term.type))


def _accumulator(term: Term) -> SvgBox:
    kind: str = term.parameter("kind")
    detail = {"none": "", "redtox": f"redtox {term.parameter('columns')}"}.get(kind, kind)
    return chip("accumulate", detail, svg_boxes.ACCUMULATOR, 1, str(term.type))


def _reads(thread: Thread) -> list[Term]:
    """The operands of a thread: tiles that it reads, registers of threads before."""
    operands: dict[Term, None] = {}
    for term in thread.terms:
        for argument in term.arguments:
            if argument not in thread.terms and argument.place is not Place.ANYWHERE:
                operands[_tile(argument)] = None
    return list(operands)


def _tile(term: Term) -> Term:
    return term.arguments[0] if term.operator is READ else term


def _written(term: Term) -> Term:
    """The registers that a tile is written from."""
    return term.arguments[0] if term.operator is WRITE else term


def _thread(thread: Thread, operands: Sequence[Term], written: Sequence[Term]) -> SvgBox:
    """A box of operators on registers, with a dot for each tile read or written."""
    graph = BoxGraph()
    for operand in operands:
        graph.add(_dot(0, 1), (), [operand])
    for term in thread.terms:
        if term.operator is not WRITE:
            graph.add(
                _operator(term, tag=False),
                [_tile(argument) for argument in _values(term)],
                [term],
                1,
            )
    # Ports of results are figures of the last zone, so that the layout routes lines to them.
    dots = [
        graph.add(_dot(1, 0, str(term.type)), [_tile(_written(term))], zone=2) for term in written
    ]
    layout, inside = graph.drawn()
    left = _GUTTER + _RIM / 2
    width, height = left + layout.width + _PAD, layout.height - _DOT
    parts = [
        box(width, height, svg_boxes.THREAD, 0, _DOT / 2),
        svg_boxes.sideways("thread", 16, _DOT / 2, _DOT / 2 + height),
        f'<g transform="translate({left:.1f} 0)">{inside}</g>',
    ]
    ports = [
        left + x + figure.width / 2
        for (x, _), figure in zip(layout.places, graph.figures, strict=True)
    ]
    outputs = [ports[dot] for dot in dots]
    parts += [
        svg_boxes.tagged(str(term.type), x, layout.height)
        for term, x in zip(written, outputs, strict=True)
    ]
    tall = layout.height + svg_boxes.TAG_SPACE
    return SvgBox(width, tall, "".join(parts), ports[: len(operands)], outputs, pointed=False)


def _dot(operands: int, results: int, tag: str = "") -> SvgBox:
    """A port of a thread, with room for the tag below."""
    width = max(_DOT, wide(tag, 10.5) + 14 if tag else 0.0)
    body = box(_DOT, _DOT, svg_boxes.DOT, (width - _DOT) / 2)
    middle = width / 2
    return SvgBox(width, _DOT, body, [middle] * operands, [middle] * results, pointed=False)
