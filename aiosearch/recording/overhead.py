"""What the engine's own explorer adds to a node, beside what the recorder writes down of it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from statistics import median
from typing import Any

from ..checks.verdict import Status, Verdict
from ..engine.bundles import ROOT, Codec
from ..engine.claims import LocalClaims
from ..engine.explorer import DepthFirstExplorer, Explorer, clock
from ..engine.general import GeneralExplorer
from ..engine.reference import return_type
from ..orders import DepthFirst, Order
from ..problem import Obligation
from .walk import Walk

LAPS = 3
MOST_NODES = 20_000
LONGEST_NS = 50_000_000


def overhead(problem: Any, order: Order, statuses: Mapping[bytes, Status], z3: str) -> float:
    """Explores the tree's beginning in turns, as the recorder and as a worker would; gives the
    seconds of a node by which they differ. Below zero where the recorder takes longer."""
    laps = []
    for _ in range(LAPS):
        walk = _walked(Walk(problem, order, True, z3), statuses)
        if not walk.nodes:
            return 0.0
        nodes, spent = _explored(problem, order, walk, statuses)
        if nodes:
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
    problem: Any, order: Order, walk: Walk, statuses: Mapping[bytes, Status]
) -> tuple[int, int]:
    """Has a worker's explorer do as many nodes; gives their number and nanoseconds."""
    asked: list[bytes] = []
    explorer = _explorer(problem, order, walk, asked)
    explorer.load(ROOT)
    spent = 0
    while explorer.counts.nodes < walk.nodes:
        began = time.thread_time_ns()
        explorer.run(clock() + 10 * LONGEST_NS, walk.nodes - explorer.counts.nodes)
        for digest in asked:
            assert isinstance(explorer, GeneralExplorer)
            explorer.answer(digest, statuses.get(digest, Status.REFUTED))
        spent += time.thread_time_ns() - began
        if not asked:
            break
        asked.clear()
    nodes = explorer.counts.nodes
    explorer.close()
    return nodes, spent


def _explorer(problem: Any, order: Order, walk: Walk, asked: list[bytes]) -> Explorer[Any]:
    codec: Codec[Any] = Codec(type(problem).__qualname__, return_type(problem, "root"))
    keyed = hasattr(problem, "key")
    if type(order) is DepthFirst and not (keyed or hasattr(problem, "obligation")):
        return DepthFirstExplorer(problem, codec)

    def ask(digest: bytes, obligation: Obligation, priority: float) -> None:
        asked.append(digest)

    claims = LocalClaims() if keyed else None
    return GeneralExplorer(problem, codec, False, order, claims, ask, walk.digest, "keep")
