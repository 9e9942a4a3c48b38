"""`aiosearch verify --mugraph`: the graphs that Mirage saved, each against its program."""

from __future__ import annotations

import argparse
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from ..tensor import FormatError, Program, TensorError, UnknownOperator
from ..tensor.mirage import MirageGraph, load_mugraphs
from ..tensor.pairing import Pair, pairs
from ..tensor.programs import Builtin
from .exits import Exit
from .judging import RANKS, Judge, Outcome, not_judged
from .output import give, give_json, tell
from .targets import find, sizes
from .usage import UsageError

MOST_ORDERS = 5040
"""Of more orders of a graph's inputs these are tried."""


@dataclass(frozen=True)
class _Judged:
    """One graph's outcome, and which of its inputs is which."""

    outcome: Outcome
    inputs: dict[str, int]
    """The places in the file of the program's inputs."""


def compare(arguments: argparse.Namespace, judge: Judge) -> int:
    """Tells the verdict on every graph of a file, and gives the exit code."""
    started = time.perf_counter()
    reference = find(arguments.program, sizes(arguments.shape))
    graphs = _load(Path(arguments.mugraph))
    tell(f"{arguments.mugraph}: {len(graphs)} graphs, which should be {arguments.program}")
    counts: Counter[str] = Counter()
    for number, judged in enumerate(_judged(graphs, reference, judge)):
        counts[judged.outcome.status] += 1
        if arguments.json:
            named = {"graph": number, "program": arguments.program, "inputs": judged.inputs}
            give_json(named | judged.outcome.evidence)
        else:
            lines = "; ".join(" ".join(line.split()) for line in judged.outcome.lines)
            give(f"graph {number:<3}  {lines}")
    told = ", ".join(f"{counts[status]} {status}" for status in RANKS if counts[status])
    tell(f"{told or 'no graphs'}, in {time.perf_counter() - started:.1f} s")
    return Exit.FAILED if counts["refuted"] + counts["cannot judge"] else Exit.FINE


def _load(path: Path) -> list[MirageGraph | FormatError]:
    try:
        return load_mugraphs(path.read_bytes())
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from None
    except FormatError as error:
        raise UsageError(f"{path}: {error}") from None


def _judged(
    graphs: list[MirageGraph | FormatError], reference: Program | Builtin, judge: Judge
) -> Iterator[_Judged]:
    """Each graph's outcome; graphs that are the same program are compared once."""
    known: dict[Program, _Judged] = {}
    for graph in graphs:
        if isinstance(graph, UnknownOperator):
            yield _Judged(not_judged(graph, operator=graph.name), {})
        elif isinstance(graph, FormatError):
            yield _Judged(not_judged(graph), {})
        else:
            program = graph.program()
            if program not in known:
                known[program] = _judge(graph, reference, judge)
            yield known[program]


def _judge(graph: MirageGraph, reference: Program | Builtin, judge: Judge) -> _Judged:
    """The best outcome of all orders of the inputs."""
    orders = list(islice(pairs(graph, reference), MOST_ORDERS))
    found = None
    for pair in orders:
        outcome = _outcome(pair, judge, alone=len(orders) == 1)
        if found is None or outcome.rank < found.outcome.rank:
            names = [term.parameter("name") for term in pair.reference.inputs]
            found = _Judged(outcome, dict(zip(names, pair.order, strict=True)))
        if outcome.accepted:
            break
    if found is None:
        shapes = ", ".join(str(term.type) for term in graph.inputs)
        return _Judged(not_judged(f"its inputs {shapes} are not those of {reference.name}"), {})
    return found


def _outcome(pair: Pair, judge: Judge, alone: bool) -> Outcome:
    """Floats are compared only where nothing else speaks against this order of the inputs."""
    try:
        if not alone:
            quick = judge(pair.reference, pair.graph, floats=False)
            if not (judge.floats and quick.accepted):
                return quick
        return judge(pair.reference, pair.graph)
    except TensorError as error:
        return not_judged(error)
