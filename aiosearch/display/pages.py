"""HTML pages that stand alone: one file, with pictures and styles in it, which loads nothing.

Every text that comes from outside goes through `escaped`; a policy in the page's head forbids it to
load anything and to run any script but the page's own.

>>> element("td", "a < b", classes="number")
'<td class="number">a &lt; b</td>'
"""

from __future__ import annotations

import base64
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from html import escape

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
_STYLE = """
:root { --ink: #0f172a; --faint: #64748b; --line: #e2e8f0; --win: #15803d; --paper: #ffffff; }
* { box-sizing: border-box; }
body { margin: 0; background: #f1f5f9; color: var(--ink);
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif; }
main { max-width: 1080px; margin: 0 auto; padding: 24px 20px 60px; }
h1 { font-size: 26px; margin: 8px 0 4px; }
h2 { font-size: 19px; margin: 0 0 10px; }
h3 { font-size: 15px; margin: 18px 0 6px; }
section { background: var(--paper); border: 1px solid var(--line); border-radius: 10px;
  padding: 18px 22px; margin: 18px 0; overflow-x: auto; }
p { margin: 6px 0; }
.small { color: var(--faint); font-size: 12px; font-weight: 400; }
.faint { color: var(--faint); }
.big { font-size: 34px; font-weight: 700; margin-right: 10px; }
.win { color: var(--win); font-weight: 600; }
.facts { display: flex; flex-wrap: wrap; gap: 10px 34px; margin-top: 12px; }
.facts div { min-width: 90px; }
.facts b { display: block; font-size: 20px; }
.facts span { color: var(--faint); font-size: 13px; }
table { border-collapse: collapse; width: 100%; margin: 6px 0; font-size: 14px; }
th { text-align: left; color: var(--faint); font-weight: 500; font-size: 13px; }
th, td { padding: 5px 12px 5px 0; border-bottom: 1px solid var(--line); vertical-align: top; }
.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
tr.win td { background: #f0fdf4; color: var(--win); font-weight: 600; }
pre { margin: 6px 0; padding: 12px 14px; background: #f8fafc; border: 1px solid var(--line);
  border-radius: 8px; overflow-x: auto;
  font: 13px/1.45 ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace; }
pre.folded { white-space: pre-wrap; overflow-wrap: anywhere; }
pre i { color: #94a3b8; font-style: normal; }
pre .line { display: block; padding: 0 6px; border-left: 4px solid transparent; }
details { margin: 8px 0; }
summary { cursor: pointer; color: #0369a1; }
img { max-width: 100%; height: auto; }
"""


def escaped(text: object) -> str:
    """The text as HTML shows it, in an element or in an attribute."""
    return escape(str(text), quote=True)


@dataclass(frozen=True)
class HTML:
    """A text that is HTML already, where others are escaped."""

    text: str


def element(name: str, text: object, classes: str = "") -> str:
    """An element with a text in it, which is escaped unless it is `HTML`."""
    body = text.text if isinstance(text, HTML) else escaped(text)
    attribute = f' class="{escaped(classes)}"' if classes else ""
    return f"<{name}{attribute}>{body}</{name}>"


def table(
    head: Sequence[str],
    rows: Iterable[Sequence[object]],
    numbers: Collection[int] = frozenset(),
    winners: Collection[int] = frozenset(),
) -> str:
    """A table; columns of `numbers` are at their right, rows of `winners` stand out."""

    def cells(name: str, texts: Sequence[object]) -> str:
        return "".join(
            element(name, text, "number" if place in numbers else "")
            for place, text in enumerate(texts)
        )

    lines = [f"<tr>{cells('th', head)}</tr>"]
    for number, row in enumerate(rows):
        mark = ' class="win"' if number in winners else ""
        lines.append(f"<tr{mark}>{cells('td', row)}</tr>")
    return f"<table>{''.join(lines)}</table>"


def facts(pairs: Iterable[tuple[str, str]]) -> str:
    """Figures in a row, each above what it is."""
    texts = (f"<div>{element('b', value)}{element('span', name)}</div>" for name, value in pairs)
    return f'<div class="facts">{"".join(texts)}</div>'


def picture(svg: str, description: str) -> str:
    """A drawing: as an image of its own, so that its styles and names stay in it."""
    data = base64.b64encode(svg.encode()).decode()
    return f'<img alt="{escaped(description)}" src="data:image/svg+xml;base64,{data}">'


def code(text: str, folded: bool = False) -> str:
    """A text as it is, in a type in which all characters are as wide; long lines may be folded."""
    return element("pre", text, "folded" if folded else "")


def details(summary: str, body: str, is_open: bool = False) -> str:
    """What is shown when a reader asks for it, or at once; `body` is HTML."""
    return f"<details{' open' * is_open}>{element('summary', summary)}{body}</details>"


def section(title: str, *bodies: str) -> str:
    """A part of a page; `bodies` are HTML."""
    heading = element("h2", title) if title else ""
    return f"<section>{heading}{''.join(bodies)}</section>"


def fragment(*bodies: str) -> str:
    """Parts of a page for a notebook, whose own page they do not change."""
    style = _STYLE.replace(":root", ".aiosearch").replace("body {", ".aiosearch {")
    scoped = style.replace("* {", ".aiosearch * {")
    rules = f"<style>@scope (.aiosearch) {{{scoped}}}</style>"
    return f'{rules}<div class="aiosearch">{"".join(bodies)}</div>'


def page(title: str, *bodies: str, refresh: float | None = None) -> str:
    """A whole page; with `refresh` it is loaded again after so many seconds."""
    again = "" if refresh is None else f'<meta http-equiv="refresh" content="{refresh:g}">\n'
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n{again}'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"{element('title', title)}\n<style>{_STYLE}</style>\n</head>\n"
        "<body>\n<main>\n" + "\n".join(bodies) + "\n</main>\n</body>\n</html>\n"
    )
