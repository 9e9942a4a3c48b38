"""Work in a process of its own, which may die of it: its result, or why there is none.

One GPU profiler may subscribe to CUPTI in a process, and what a library leaves there may end the
process later. So each side of a comparison on a GPU runs where no other one did.
"""

from __future__ import annotations

from collections.abc import Callable
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Any


class ApartError(Exception):
    """What became of work that has no result."""


def apart(work: Callable[..., Any], *given: Any, seconds: float) -> Any:
    """What the work returns in a fresh process; raises ApartError where it raises, dies or is late.

    Everything has to be picklable, as it is for `multiprocessing`.
    """
    context = get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_run, args=(sender, work, given), daemon=True)
    process.start()
    sender.close()
    try:
        if not receiver.poll(seconds):
            raise ApartError(f"it took longer than {seconds:g} s")
        right, result = receiver.recv()
    except EOFError:
        process.join()
        raise ApartError(f"its process died with exit code {process.exitcode}") from None
    finally:
        receiver.close()
        process.kill()
        process.join()
    if not right:
        raise ApartError(result)
    return result


def _run(sender: Connection, work: Callable[..., Any], given: tuple[Any, ...]) -> None:
    try:
        message: tuple[bool, Any] = (True, work(*given))
    except Exception as error:
        lines = str(error).strip().splitlines()
        message = (False, f"{type(error).__name__}: {lines[0] if lines else ''}")
    sender.send(message)
