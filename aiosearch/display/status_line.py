"""A line that changes in place, where a person looks: the terminal or the notebook.

`ProgressLine` is a hook that shows how a search is going: `Search(problem, on=ProgressLine())`.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Protocol, TextIO

from ..events import AnyEvent, Progress, SearchFinished
from ..plain import plain

_LEAST_SECONDS = 0.1
"""Between two lines: a hook must not hold its search up."""


class StatusLine(Protocol):
    """Shows a line in the place of the one before."""

    def show(self, text: str) -> None: ...

    def close(self) -> None:
        """Takes the line away."""
        ...


class TerminalLine:
    """The last line of a terminal."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def show(self, text: str) -> None:
        self._stream.write(f"\r\x1b[2K{text}")
        self._stream.flush()

    def close(self) -> None:
        self.show("")


class NotebookLine:
    """An output of a notebook's cell that is written over."""

    def __init__(self, display: Callable[..., NotebookHandle]) -> None:
        self._display = display
        self._handle: NotebookHandle | None = None

    def show(self, text: str) -> None:
        shown = {"text/plain": text}
        if self._handle is None:
            self._handle = self._display(shown, raw=True, display_id=True)
        else:
            self._handle.update(shown, raw=True)

    def close(self) -> None:
        if self._handle is not None:
            self._handle.update({"text/plain": ""}, raw=True)


class NotebookHandle(Protocol):
    """What IPython gives for an output that may be updated."""

    def update(self, shown: dict[str, str], *, raw: bool) -> None: ...


def usual_line() -> StatusLine | None:
    """Where a person looks: a notebook or a terminal; `None` where nobody does."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    if shell is not None and type(shell).__name__ == "ZMQInteractiveShell":
        return NotebookLine(ipython.display.display)  # type: ignore[union-attr]  # it has a shell
    return TerminalLine(sys.stderr) if sys.stderr is not None and sys.stderr.isatty() else None


class ProgressLine:
    """A hook that shows how a search is going, in a terminal or a notebook; elsewhere it is silent.

    The line is gone when the search ends.
    """

    def __init__(self, line: StatusLine | None = None) -> None:
        """Shows it in `line`; by default where a person looks."""
        self._line = usual_line() if line is None else line
        self._shown = -_LEAST_SECONDS

    def __call__(self, event: AnyEvent) -> None:
        if self._line is None:
            return
        match event:
            case Progress():
                now = time.monotonic()
                if now - self._shown >= _LEAST_SECONDS:
                    self._shown = now
                    self._line.show(plain(progress_text(event)))
            case SearchFinished():
                self._line.close()


def gap_share(cost: float, bound: float) -> float:
    """How far a cost is above a bound, as a part of the cost."""
    return 0.0 if cost == bound else max(cost - bound, 0.0) / max(abs(cost), 1e-12)


def _gap_text(cost: float, bound: float | None) -> str:
    return "" if bound is None else f" (bound {bound:g}, gap {gap_share(cost, bound):.1%})"


def progress_text(event: Progress) -> str:
    """How far a search is: `1,200,000 nodes, 82,000/s, best 12, 31% explored, 14 s left`."""
    parts = [f"{event.nodes:,} nodes", f"{event.nodes_per_second:,.0f}/s"]
    if event.best_cost is not None:
        parts.append(f"best {event.best_cost:g}{_gap_text(event.best_cost, event.bound)}")
    elif event.solutions:
        parts.append(f"{event.solutions:,} solutions")
    if event.explored is not None:
        parts.append(f"{event.explored:.0%} explored")
    if event.remaining is not None:
        parts.append(f"{event.remaining:.0f} s left")
    return ", ".join(parts)
