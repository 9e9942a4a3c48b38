"""Tables of the console script; in a terminal they are no wider than that."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterable, Sequence

from ...plain import plain

GAP = "  "


def table(rows: Iterable[Sequence[str]], right: frozenset[int] = frozenset()) -> str:
    """Lines the columns up, those of `right` at their right."""
    return "\n".join(table_rows(rows, right))


def table_rows(rows: Iterable[Sequence[str]], right: frozenset[int] = frozenset()) -> list[str]:
    """The same row by row; one that a terminal has no room for has several lines.

    Words are kept whole, and so is what stands at the right: figures.
    """
    cells = [[_words(cell, at in right) for at, cell in enumerate(row)] for row in rows]
    columns = list(zip(*cells, strict=True))
    widths = [max(len(" ".join(words)) for words in column) for column in columns]
    if room := _terminal_width():
        least = [max(len(word) for words in column for word in words) for column in columns]
        widths = _narrowed(widths, least, room - len(GAP) * (len(widths) - 1))
    return [_row(row, widths, right) for row in cells]


def _words(cell: str, figure: bool) -> list[str]:
    return [plain(cell)] if figure else plain(cell).split(" ")


def _terminal_width() -> int:
    """Columns of the terminal that is written to; 0 where none is, or where it does not say."""
    return shutil.get_terminal_size((0, 0)).columns if sys.stdout.isatty() else 0


def _narrowed(widths: Sequence[int], least: Sequence[int], room: int) -> list[int]:
    """Takes from the widest columns as long as their longest words have room."""
    narrowed = list(widths)
    while sum(narrowed) > room:
        able = [place for place, width in enumerate(narrowed) if width > least[place]]
        if not able:
            break
        narrowed[max(able, key=narrowed.__getitem__)] -= 1
    return narrowed


def _row(cells: Sequence[Sequence[str]], widths: Sequence[int], right: frozenset[int]) -> str:
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
