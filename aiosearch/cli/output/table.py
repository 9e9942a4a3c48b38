"""Tables of the console script; in a terminal they are no wider than that."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterable, Sequence

from ...display.tables import lined_up


def table(rows: Iterable[Sequence[str]], right: frozenset[int] = frozenset()) -> str:
    """Lines the columns up, those of `right` at their right."""
    return "\n".join(table_rows(rows, right))


def table_rows(rows: Iterable[Sequence[str]], right: frozenset[int] = frozenset()) -> list[str]:
    """The same row by row; one that a terminal has no room for has several lines."""
    return lined_up(rows, right, _terminal_width())


def _terminal_width() -> int:
    """Columns of the terminal that is written to; 0 where none is, or where it does not say."""
    return shutil.get_terminal_size((0, 0)).columns if sys.stdout.isatty() else 0
