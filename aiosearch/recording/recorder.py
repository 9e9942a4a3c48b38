"""Records a search: walks the tree once, and writes what each node has and takes."""

from __future__ import annotations

import gc
import platform
import time
from collections.abc import Callable
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .._waiting import waited_for
from ..engine.general import is_async
from ..orders import Order, find_order
from ..search import check_problem
from .format import BLOCK_NODES, Footer, Header, RecordingError, Writer
from .overhead import overhead
from .walk import Walk

if TYPE_CHECKING:
    from ..checks import Verifier

LONGEST_PARAMETERS = 1000


def record(
    problem: Any,
    path: str | Path,
    *,
    order: str | Order | None = None,
    unknown_lives: bool = True,
    nodes: int | None = None,
    seconds: float | None = None,
    pulse: Callable[[int], bool] = lambda nodes: True,
) -> Footer:
    """Walks a problem's tree depth first, with one worker, and writes it into a file.

    What is written is what was explored: what a bound or a key kept out is not in the recording.
    Obligations are put to z3 one at a time, on a cold cache. The file appears, whole, at the end;
    stopped by `nodes` (exactly so many), by `seconds` or because `pulse` (called every few thousand
    nodes with their number) gives False, it holds what was walked until then, and says so. Raises
    ProblemError where the problem raises, and RecordingError where nothing can be recorded or
    written.
    """
    check_problem(problem)
    chosen = find_order(order, problem)
    if chosen.greedy or chosen.by_level:
        raise RecordingError("a tree is recorded depth-first; leave the order out")
    if is_async(problem):
        raise RecordingError("a recording has no event loop; give a plain expand")
    end = time.monotonic() + (seconds or float("inf"))

    def goes_on(done: int) -> bool:
        return pulse(done) and time.monotonic() < end

    async def walked() -> Footer:
        most = nodes or float("inf")
        return await _record(problem, Path(path), chosen, unknown_lives, most, goes_on)

    return waited_for(walked, "aiosearch.record")


async def _record(
    problem: Any,
    path: Path,
    order: Order,
    unknown_lives: bool,
    most: float,
    goes_on: Callable[[int], bool],
) -> Footer:
    writer = Writer(path, _header(problem, order))
    gc.collect()
    gc.freeze()  # or what others have made would be looked at again in the middle of some node
    try:
        if hasattr(problem, "obligation"):
            from ..checks import Verifier  # z3 is for problems that ask

            axioms = dict(getattr(problem, "axioms", None) or {})
            async with Verifier(cache=None, axioms=axioms) as verifier:
                walk = Walk(problem, order, unknown_lives, verifier.z3_version, most)
                await _asked(walk, writer, goes_on, verifier)
        else:
            walk = Walk(problem, order, unknown_lives, "", most)
            await _asked(walk, writer, goes_on, None)
        footer = _footer(walk, overhead(problem, order, walk.statuses, walk.z3))
        writer.close(footer)
    except BaseException:
        writer.discard()
        raise
    finally:
        gc.unfreeze()
    return footer


async def _asked(
    walk: Walk, writer: Writer, goes_on: Callable[[int], bool], verifier: Verifier | None
) -> None:
    """Goes all the way, with a verdict for each question, as long as nothing stops it."""
    steps = walk.steps()
    verdict = None
    walk.columns = writer.columns
    while True:
        try:
            question = steps.send(verdict)
        except StopIteration:
            return
        verdict = None
        if question is not None:
            assert verifier is not None
            verdict = await verifier.check(question)
        elif len(walk.columns.children) >= BLOCK_NODES:
            writer.flush()
            walk.columns = writer.columns
        if not goes_on(walk.nodes):
            steps.close()
            return


def _header(problem: Any, order: Order) -> Header:
    from .. import __version__

    cls = type(problem)
    versions = {"python": platform.python_version(), "aiosearch": __version__}
    if hasattr(problem, "obligation"):
        versions["z3-solver"] = version("z3-solver")
    return Header(
        problem=f"{cls.__module__}:{cls.__qualname__}",
        order=type(order).__name__,
        parameters=repr(problem)[:LONGEST_PARAMETERS],
        versions=versions,
        recorded=datetime.now(UTC).isoformat(timespec="seconds"),
    )


def _footer(walk: Walk, overhead: float) -> Footer:
    return Footer(
        complete=walk.complete,
        nodes=walk.nodes,
        questions=walk.questions,
        seconds=walk.spent / 1e9,
        check_seconds=walk.checked / 1e9,
        overhead=overhead,
    )
