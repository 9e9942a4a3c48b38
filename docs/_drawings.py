"""Draws the programs of the documentation: `python docs/_drawings.py`.

A picture `assets/NAME.svg` shows the program NAME that stands on its page as text.
"""

from __future__ import annotations

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


if __name__ == "__main__":
    main()
