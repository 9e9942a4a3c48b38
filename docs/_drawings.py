"""Draws the programs of the documentation: `python docs/_drawings.py`.

A picture `assets/NAME.svg` shows the program NAME that stands on its page as text.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

from aiosearch.tensor.drawing import draw
from aiosearch.tensor.drawings import svg_boxes
from aiosearch.tensor.text import parse

DOCS = Path(__file__).parent
FENCE = re.compile(r"^```text[^\n]*\n(program (\w+)\(.*?^})\n", re.MULTILINE | re.DOTALL)
PICTURE = re.compile(r"!\[[^\]]*\]\(\.\./assets/([\w-]+)\.svg\)")


def main() -> None:
    for page in sorted(DOCS.rglob("*.md")):
        text = page.read_text(encoding="utf-8")
        programs = {name.replace("_", "-"): program for program, name in FENCE.findall(text)}
        for name in PICTURE.findall(text):
            if name in programs:
                drawing = draw(parse(programs[name]))
                (DOCS / "assets" / f"{name}.svg").write_text(drawing, encoding="utf-8")
    (DOCS / "assets/kernels.svg").write_text(way(), encoding="utf-8")
    (DOCS / "assets/rooms.svg").write_text(rooms(), encoding="utf-8")


def way() -> str:
    """Draws the way of a program to machine code, and to a GPU's kernel."""
    graph = svg_boxes.BoxGraph()
    for name, detail, style, made_of in STEPS:
        graph.add(svg_boxes.chip(name, detail, style, len(made_of)), made_of, [name])
    layout, body = graph.drawn()
    return svg_boxes.page("from a program to machine code", layout.width, layout.height, body)


STEPS = (
    ("program", "operators of whole tensors", svg_boxes.INPUT, ()),
    ("µgraph", "fused kernels, verified equal", svg_boxes.KERNEL, ("program",)),
    ("tile IR", "what each element is", svg_boxes.KERNEL, ("program", "µgraph")),
    ("schedule", "tiles, registers, layouts", svg_boxes.OPERATOR, ("tile IR",)),
    ("tiling", "grid, loop, warps", svg_boxes.OPERATOR, ("tile IR",)),
    ("LLVM IR", "loops over vectors", svg_boxes.KERNEL, ("schedule",)),
    ("Pallas", "a kernel for a GPU", svg_boxes.OUTPUT, ("tiling",)),
    ("object code", "first run between guard pages", svg_boxes.KERNEL, ("LLVM IR",)),
    ("race", "beside the best plain JAX", svg_boxes.OUTPUT, ("object code",)),
)
"""What there is on the way, and what each is made of."""


ROOMS = {
    "cli": "the console script",
    "lab": "strategies compared",
    "tuner": "schedules by search",
    "cuda": "CUDA on a CPU",
    "optimizer": "a function to a faster one",
    "superoptimizer": "every fused program",
    "mapper": "where pieces run",
    "codegen": "programs to kernels",
    "measure": "compile, run, time",
    "capture": "JAX to programs",
    "equivalence": "are two the same?",
    "tensor": "the language of programs",
    "search": "what users open",
    "engine": "one search at work",
    "strategies": "who explores what",
    "remote": "other machines",
    "checks": "z3 behind a cache",
    "processes": "children and their end",
}
"""Packages that the map of the house shows, and what each is for."""


def rooms() -> str:
    """Draws the packages; a line leads from each to those that import it and need no other way."""
    imports = {room: imported_rooms(room) for room in ROOMS}
    reached = {room: _reached(room, imports) for room in ROOMS}
    graph = svg_boxes.BoxGraph()
    for room in sorted(ROOMS, key=lambda room: len(reached[room])):
        needs = imports[room]
        direct = sorted(need for need in needs if not any(need in reached[x] for x in needs))
        box = svg_boxes.chip(room, ROOMS[room], svg_boxes.OPERATOR, len(direct))
        graph.add(box, direct, [room])
    layout, body = graph.drawn()
    return svg_boxes.page("the packages of aiosearch", layout.width, layout.height, body)


def imported_rooms(room: str) -> set[str]:
    """Gives the rooms that the modules of a room import when they are run."""
    package = DOCS.parent / "aiosearch"
    files = (
        (package / room).rglob("*.py") if (package / room).is_dir() else [package / f"{room}.py"]
    )
    rooms: set[str] = set()
    for file in files:
        depth = len(file.relative_to(package).parts)
        for node in ast.walk(_run(ast.parse(file.read_text(encoding="utf-8")))):
            if isinstance(node, ast.ImportFrom) and node.level == depth:
                names = [node.module] if node.module else [alias.name for alias in node.names]
                rooms |= {name.partition(".")[0] for name in names}
    return rooms & ROOMS.keys() - {room}


def _run(tree: ast.Module) -> ast.Module:
    """Leaves out what only type checkers read."""
    kept = [
        node
        for node in tree.body
        if not (isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING")
    ]
    return ast.Module(kept, [])


def _reached(room: str, imports: dict[str, set[str]]) -> set[str]:
    """Gives all that a room imports, directly or by way of others."""
    reached: set[str] = set()
    waiting = list(imports[room])
    while waiting:
        need = waiting.pop()
        if need not in reached:
            reached.add(need)
            waiting += imports[need]
    return reached


if __name__ == "__main__":
    main()
