"""Draws the programs of the documentation: `python docs/_drawings.py`.

A picture `assets/NAME.svg` shows the program NAME that stands on its page as text.
"""

from __future__ import annotations

import re
from pathlib import Path

from aiosearch.tensor.drawing import draw
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


if __name__ == "__main__":
    main()
