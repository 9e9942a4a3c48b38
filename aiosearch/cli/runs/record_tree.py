"""`aiosearch search --record-tree`: walks the tree once, and keeps its shape and times."""

from __future__ import annotations

import signal
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from ...recording import Footer, record
from ..inputs.request import Request, make_request
from ..output.streams import Exit, UsageError, give, give_json, reserved_stdout, tell
from ..output.units import count, duration, of, size

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

    from ..commands.search import SearchArguments

TELL_SECONDS = 5.0
_STRANGERS = ("journal", "resume", "trace", "listen", "token_file")
_HEEDED = ("nodes", "seconds")


def run(file: str, arguments: SearchArguments) -> int:
    """Records, and gives the exit code."""
    for flag in _STRANGERS:
        if getattr(arguments, flag):
            name = flag.replace("_", "-")
            raise UsageError(f"--record-tree explores by itself; leave --{name} out")
    request = make_request(arguments)
    limits = request.options["limits"]
    for limit in limits.__struct_fields__:
        if limit not in _HEEDED and getattr(limits, limit) is not None:
            raise UsageError(f"--record-tree heeds --nodes and --seconds; leave --{limit} out")
    path = Path(file)
    with reserved_stdout(), _interrupts() as interrupts:
        footer = _record(request, path, interrupts, arguments.quiet)
    if arguments.json:
        give_json({"file": str(path), "footer": footer})
    else:
        give(_summary(footer, path))
    return Exit.INTERRUPTED if interrupts else Exit.FINE


def _record(request: Request, path: Path, interrupts: list[int], quiet: bool) -> Footer:
    told_at = time.monotonic()

    def pulse(nodes: int) -> bool:
        nonlocal told_at
        if not quiet and time.monotonic() > told_at + TELL_SECONDS:
            told_at = time.monotonic()
            tell(f"{count(nodes)} nodes")
        return not interrupts

    limits = request.options["limits"]
    return record(
        request.problem,
        path,
        order=request.options["order"],
        unknown_lives=request.options["on_unknown"] != "drop",
        nodes=limits.nodes,
        seconds=limits.seconds,
        pulse=pulse,
    )


@contextmanager
def _interrupts() -> Iterator[list[int]]:
    """Gathers the first signal; the second one breaks off, and leaves no file."""
    received: list[int] = []

    def arrived(number: int, frame: FrameType | None) -> None:
        received.append(number)
        if len(received) > 1:
            raise KeyboardInterrupt

    signals = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.signal(number, arrived) for number in signals}
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _summary(footer: Footer, path: Path) -> str:
    whole = "the whole tree" if footer.complete else "stopped before the end"
    bytes_each = path.stat().st_size / max(footer.nodes, 1)
    text = f"{path}: {whole}, {of(footer.nodes, 'node')} of {duration(footer.seconds)}"
    if footer.questions:
        text += f", {of(footer.questions, 'check')} of {duration(footer.check_seconds)}"
    return f"{text}; {size(path.stat().st_size)}, {bytes_each:.1f} bytes a node"
