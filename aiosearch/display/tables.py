"""Text tables: columns that line up within a width, and colours where a terminal shows them.

>>> print("\\n".join(lined_up([("name", "took"), ("queue", "3 s")], right={1})))
name   took
queue   3 s
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Collection, Iterable, Sequence
from enum import StrEnum
from typing import TextIO

from ..plain import plain

GAP = "  "


class Colour(StrEnum):
    """Colours and weights, as terminals know them."""

    BOLD = "1"
    FAINT = "2"
    GREEN = "32"
    YELLOW = "33"


def painted(text: str, *colours: Colour) -> str:
    """The text in these colours, for a terminal."""
    return f"\x1b[{';'.join(colours)}m{text}\x1b[0m" if colours and text else text


def shows_colour(stream: TextIO) -> bool:
    """Whether a stream is a terminal that is to have colours: `NO_COLOR` and `TERM=dumb` say no."""
    is_allowed = not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    return is_allowed and stream.isatty()


def lined_up(
    rows: Iterable[Sequence[str]], right: Collection[int] = frozenset(), width: int = 0
) -> list[str]:
    """The rows as text, with the columns of `right` at their right; a row that `width` has no room
    for has several lines. A width of 0 has room for everything.

    Words are kept whole, and so is what stands at the right: figures.
    """
    cells = [[_words(cell, at in right) for at, cell in enumerate(row)] for row in rows]
    columns = list(zip(*cells, strict=True))
    widths = [max(len(" ".join(words)) for words in column) for column in columns]
    if width:
        least = [max(len(word) for words in column for word in words) for column in columns]
        widths = _narrowed(widths, least, width - len(GAP) * (len(widths) - 1))
    return [_row(row, widths, right) for row in cells]


def time_text(seconds: float) -> str:
    """Writes 850 ns, 12.3 us or 4.56 ms."""
    for unit, factor in (("ns", 1e9), ("us", 1e6), ("ms", 1e3)):
        if seconds * factor < 999.5:
            return f"{seconds * factor:.3g} {unit}"
    return f"{seconds:.3g} s"


def _words(cell: str, figure: bool) -> list[str]:
    return [plain(cell)] if figure else plain(cell).split(" ")


def _narrowed(widths: Sequence[int], least: Sequence[int], room: int) -> list[int]:
    """Takes from the widest columns as long as their longest words have room."""
    narrowed = list(widths)
    while sum(narrowed) > room:
        able = [place for place, width in enumerate(narrowed) if width > least[place]]
        if not able:
            break
        narrowed[max(able, key=narrowed.__getitem__)] -= 1
    return narrowed


def _row(cells: Sequence[Sequence[str]], widths: Sequence[int], right: Collection[int]) -> str:
    columns = [_lines(words, width) for words, width in zip(cells, widths, strict=True)]
    lines = []
    for number in range(max(map(len, columns))):
        parts = [column[number] if number < len(column) else "" for column in columns]
        shown = [
            part.rjust(width) if place in right else part.ljust(width)
            for place, (part, width) in enumerate(zip(parts, widths, strict=True))
        ]
        lines.append(GAP.join(shown).rstrip())
    return "\n".join(lines)


def _lines(words: Sequence[str], width: int) -> list[str]:
    """As many words on a line as fit."""
    lines = [words[0]]
    for word in words[1:]:
        if len(lines[-1]) + 1 + len(word) <= width:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return lines


def table(rows: Iterable[Sequence[str]], right: frozenset[int] = frozenset()) -> str:
    """Lines the columns up, those of `right` at their right."""
    return "\n".join(table_rows(rows, right))


def table_rows(rows: Iterable[Sequence[str]], right: frozenset[int] = frozenset()) -> list[str]:
    """The same row by row; one that a terminal has no room for has several lines."""
    return lined_up(rows, right, _terminal_width())


def _terminal_width() -> int:
    """Columns of the terminal that is written to; 0 where none is, or where it does not say."""
    return shutil.get_terminal_size((0, 0)).columns if sys.stdout.isatty() else 0
