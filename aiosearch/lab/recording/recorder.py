"""The recorder: walks a tree once, and writes what each node has and takes.

`overhead` measures what the engine's own explorer adds to a node, beside what a `Walk` writes down
of it.
"""

from __future__ import annotations

import gc
import platform
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from ..._blocking import waited_for
from ...checks.verdict import Status, Verdict
from ...engine.explore.bundles import ROOT, Codec
from ...engine.explore.capabilities import is_async
from ...engine.explore.claims import LocalClaims
from ...engine.explore.explorer import DepthFirstExplorer, Explorer, clock
from ...engine.explore.heap_explorer import HeapExplorer
from ...engine.wire.reference import return_type
from ...orders import DepthFirst, Order, find_order
from ...problem import AnyProblem, Obligation
from ...search import check_problem
from .format import BLOCK_NODES, Footer, Header, RecordingError, RecordingWriter
from .walk import Walk

if TYPE_CHECKING:
    from ...checks import Verifier

LAPS = 3
MOST_NODES = 20_000
LONGEST_NS = 50_000_000


def overhead(problem: AnyProblem, order: Order, statuses: Mapping[bytes, Status], z3: str) -> float:
    """Explores the tree's beginning in turns, as the recorder and as a worker would; gives the
    seconds of a node by which they differ. Below zero where the recorder takes longer."""
    laps = []
    for _ in range(LAPS):
        walk = _walked(Walk(problem, order, True, z3), statuses)
        if not walk.nodes:
            return 0.0
        nodes, spent = _explored(problem, order, walk, statuses)
        if nodes:
            # A difference of two means over the same nodes: the problem's own time drops out
            laps.append(spent / nodes - walk.spent / walk.nodes)
    return median(laps) / 1e9 if laps else 0.0


def _walked(walk: Walk, statuses: Mapping[bytes, Status]) -> Walk:
    steps = walk.steps()
    end = clock() + LONGEST_NS
    verdict = None
    while walk.nodes < MOST_NODES and clock() < end:
        try:
            question = steps.send(verdict)
        except StopIteration:
            break
        verdict = None
        if question is not None:
            verdict = Verdict(statuses.get(walk.digest(question), Status.REFUTED))
    steps.close()
    return walk


def _explored(
    problem: AnyProblem, order: Order, walk: Walk, statuses: Mapping[bytes, Status]
) -> tuple[int, int]:
    """Has a worker's explorer do as many nodes as `walk`; gives their number and nanoseconds."""
    asked: list[bytes] = []
    explorer = _explorer(problem, order, walk, asked)
    explorer.load(ROOT)
    spent = 0
    while explorer.counts.nodes < walk.nodes:
        began = time.thread_time_ns()
        explorer.run(clock() + 10 * LONGEST_NS, walk.nodes - explorer.counts.nodes)
        for digest in asked:
            assert isinstance(explorer, HeapExplorer)
            explorer.answer(digest, statuses.get(digest, Status.REFUTED))
        spent += time.thread_time_ns() - began
        if not asked:
            break
        asked.clear()
    nodes = explorer.counts.nodes
    explorer.close()
    return nodes, spent


def _explorer(problem: AnyProblem, order: Order, walk: Walk, asked: list[bytes]) -> Explorer[Any]:
    codec: Codec[Any] = Codec(type(problem).__qualname__, return_type(problem, "root"))
    keyed = hasattr(problem, "key")
    if type(order) is DepthFirst and not (keyed or hasattr(problem, "obligation")):
        return DepthFirstExplorer(problem, codec)

    def ask(digest: bytes, obligation: Obligation, priority: float) -> None:
        asked.append(digest)

    claims = LocalClaims() if keyed else None
    return HeapExplorer(problem, codec, False, order, claims, ask, walk.digest, "keep")


LONGEST_PARAMETERS = 1000


def record(
    problem: AnyProblem,
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
    # Preorder is what the file holds, and a subtree's nodes must follow each other
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
    problem: AnyProblem,
    path: Path,
    order: Order,
    unknown_lives: bool,
    most: float,
    goes_on: Callable[[int], bool],
) -> Footer:
    writer = RecordingWriter(path, _header(problem, order))
    gc.collect()
    gc.freeze()  # or what others have made would be looked at again in the middle of some node
    try:
        if hasattr(problem, "obligation"):
            from ...checks import Verifier  # z3 is for problems that ask

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
    walk: Walk, writer: RecordingWriter, goes_on: Callable[[int], bool], verifier: Verifier | None
) -> None:
    """Goes all the way, with a verdict for each question, as long as `goes_on` says so."""
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


def _header(problem: AnyProblem, order: Order) -> Header:
    from ... import __version__

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
