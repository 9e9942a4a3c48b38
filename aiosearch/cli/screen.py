"""Where a person reads how a search goes: lines that stay, and one that changes."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from ..plain import plain, plain_lines

if TYPE_CHECKING:
    from rich.live import Live

QUIET_SECONDS = 10.0
"""Without a terminal, how long nothing is written before a progress line is."""


class Screen(Protocol):
    """Shows lines."""

    @property
    def width(self) -> int: ...

    def line(self, text: str) -> None:
        """Shows a line that stays."""
        ...

    def status(self, text: str) -> None:
        """Shows how it stands now."""
        ...

    def close(self) -> None:
        """Takes away what does not stay."""
        ...


class PlainScreen:
    """Writes lines; how it stands, only when nothing else was written for a while."""

    width = 120

    def __init__(self, closed: Callable[[], None]) -> None:
        self._closed = closed
        self._last = time.monotonic()

    def line(self, text: str) -> None:
        self._last = time.monotonic()
        try:
            sys.stderr.write(plain_lines(text) + "\n")
            sys.stderr.flush()
        except OSError:
            self._closed()

    def status(self, text: str) -> None:
        if time.monotonic() - self._last >= QUIET_SECONDS:
            self.line(text)

    def close(self) -> None:
        return


class LiveScreen:
    """A terminal whose last line changes in place, and is gone at the end."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.live import Live

        self._console = Console(stderr=True, highlight=False, markup=False, emoji=False)
        self._live: Live | None = Live(console=self._console, auto_refresh=False, transient=True)
        self._live.start()

    @property
    def width(self) -> int:
        return self._console.width

    def line(self, text: str) -> None:
        self._console.print(plain_lines(text), soft_wrap=True)

    def status(self, text: str) -> None:
        from rich.text import Text

        if self._live is not None:
            self._live.update(
                Text(plain(text), "dim", no_wrap=True, overflow="ellipsis"), refresh=True
            )

    def close(self) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None


class NoScreen:
    """Shows nothing."""

    width = 80

    def line(self, text: str) -> None:
        return

    def status(self, text: str) -> None:
        return

    def close(self) -> None:
        return
