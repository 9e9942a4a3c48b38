"""Verdicts about two programs, and `aiosearch verify --mugraph` for graphs that Mirage saved."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from ...documents import Document, JsonValue
from ...errors import AiosearchError
from ...tensor import FormatError, Program, TensorError, UnknownOperator
from ...tensor.mirage import InputPairing, MirageGraph, load_mugraphs, pairs
from ...tensor.programs import Builtin
from ..inputs.program_use import UNKNOWN_USE, ProgramUse
from ..inputs.programs import find, sizes
from ..output.streams import Exit, UsageError, give, give_json, tell

if TYPE_CHECKING:
    from ...capture.jax_types import Function, PyTree
    from ...equivalence import Runnable, Verdict
    from ..commands.verify import VerifyArguments

RANKS = ("proved", "tested", "cannot judge", "refuted")


@dataclass(frozen=True)
class Judgement:
    """A verdict and what it rests on, for people and for programs."""

    status: str
    lines: tuple[str, ...]
    """The verdict first."""
    evidence: Document

    @property
    def accepted(self) -> bool:
        return self.status in ("proved", "tested")

    @property
    def rank(self) -> int:
        """Smaller is better."""
        return RANKS.index(self.status)


@dataclass(frozen=True)
class ProgramJudge:
    """Compares two programs as the command line asks for it."""

    seed: int
    strict: bool
    floats: bool
    use: ProgramUse = UNKNOWN_USE
    tolerance: float | None = None
    seconds: float | None = None
    most_elements: int | None = None
    """Programs of larger values are compared in floats at a smaller shape."""
    tell: Callable[[str], None] | None = None
    """Hears what each layer says as soon as it has said it."""

    def __call__(self, original: Program, candidate: Program, floats: bool = True) -> Judgement:
        from ...equivalence import OutputTypesError, verify

        names = [term.parameter("name") for term in original.inputs]
        try:
            verdict = verify(
                original,
                candidate,
                seed=self.seed,
                strict=self.strict,
                floats=self.floats and floats,
                given=self.use.given(names),
                limits=self.use.limits(names),
                tolerance=self.tolerance,
                seconds=self.seconds,
                most_elements=self.most_elements,
                floats_alone=True,
                tell=self.tell,
            )
        except OutputTypesError as error:
            return _different(error)
        return _outcome(verdict)

    def running(
        self,
        original: Runnable | Program,
        candidate: Runnable | Program,
        because: str,
        names: Sequence[str] = (),
        **facts: JsonValue,
    ) -> Judgement:
        """What floats alone say of functions that cannot be compared otherwise.

        `names` are those of their inputs.
        """
        from ...equivalence import OutputTypesError, verify_functions

        try:
            verdict = verify_functions(
                original,
                candidate,
                because,
                seed=self.seed,
                strict=self.strict,
                given=self.use.given(names),
                limits=self.use.limits(names),
                tolerance=self.tolerance,
                seconds=self.seconds,
                tell=self.tell,
            )
        except OutputTypesError as error:
            return _different(error, **facts)
        return _outcome(verdict, **facts)

    def calling(
        self, original: Function, candidate: Function, example: tuple[PyTree, ...]
    ) -> Judgement:
        """The verdict on functions of arguments that are there, which may be trees of arrays."""
        from ...testing.equality import verdict_of_call

        return _outcome(
            verdict_of_call(
                original,
                candidate,
                example,
                self.use.ranges,
                self.tolerance,
                self.strict,
                self.seed,
                self.seconds or math.inf,
                self.tell,
            )
        )


def _outcome(verdict: Verdict, **facts: JsonValue) -> Judgement:
    lines = [*verdict.summary(), *_tolerable(verdict)]
    return Judgement(verdict.status, tuple(lines), verdict.to_dict() | facts)


def _tolerable(verdict: Verdict) -> list[str]:
    """Says which tolerance would accept what is refuted for lost digits alone."""
    floats = verdict.floats
    if floats is None or floats.tolerance is None or verdict.counterexample is not None:
        return []
    # One digit, rounded up.
    unit = 10.0 ** math.floor(math.log10(floats.tolerance))
    accepted = math.ceil(floats.tolerance / unit) * unit
    return [f"  it loses digits, and nothing else: --tolerance {accepted:g} accepts that"]


def _different(error: AiosearchError, **facts: JsonValue) -> Judgement:
    """The outcome where nothing has to be computed to see that they differ."""
    reason = str(error)
    lines = ("refuted", f"  because {reason}")
    return Judgement("refuted", lines, {"verdict": "refuted", "reason": reason, **facts})


def not_judged(reason: AiosearchError | str, **facts: JsonValue) -> Judgement:
    """The outcome where something stands in the way."""
    text = str(reason).removeprefix("cannot judge: ")
    lines = ("cannot judge", f"  because {text}")
    return Judgement("cannot judge", lines, {"verdict": "cannot judge", "reason": text, **facts})


MOST_ORDERS = 5040
"""Of more orders of a graph's inputs these are tried."""


@dataclass(frozen=True)
class _JudgedMugraph:
    """One graph's outcome, and which of its inputs is which."""

    outcome: Judgement
    inputs: dict[str, int]
    """The places in the file of the program's inputs."""


def compare(file: str, program: str, arguments: VerifyArguments, judge: ProgramJudge) -> int:
    """Tells the verdict on every graph of `file` beside `program`, and gives the exit code."""
    started = time.perf_counter()
    reference = find(program, sizes(arguments.shape))
    graphs = _load(Path(file))
    tell(f"{arguments.mugraph}: {_count(len(graphs))} to compare with {arguments.program}")
    bench = _MugraphChecks(reference, judge)
    bench.find_order([graph for graph in graphs if isinstance(graph, MirageGraph)])
    counts: Counter[str] = Counter()
    for number, graph in enumerate(graphs):
        judged = bench.judged(graph)
        counts[judged.outcome.status] += 1
        if arguments.json:
            named = {"graph": number, "program": arguments.program, "inputs": judged.inputs}
            give_json(named | judged.outcome.evidence)
        else:
            headline, *evidence = judged.outcome.lines
            give(f"graph {number:<3}  {headline}")
            for line in () if judged.outcome.accepted else evidence:
                give(f"         {line}")
    tally = ", ".join(f"{counts[status]} {status}" for status in RANKS if counts[status])
    tell(f"{tally or 'nothing to judge'}, in {time.perf_counter() - started:.1f} s")
    return Exit.FAILED if counts["refuted"] + counts["cannot judge"] else Exit.FINE


def _load(path: Path) -> list[MirageGraph | FormatError]:
    try:
        return load_mugraphs(path.read_bytes())
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from None
    except FormatError as error:
        raise UsageError(f"{path}: {error}") from None


def _count(number: int) -> str:
    return "1 graph" if number == 1 else f"{number} graphs"


class _MugraphChecks:
    """Judges the graphs of one file, which all have their inputs in one order."""

    def __init__(self, reference: Program | Builtin, judge: ProgramJudge) -> None:
        self._reference = reference
        self._judge = judge
        self._votes: Counter[tuple[int, ...]] = Counter()
        self._known: dict[Program, _JudgedMugraph] = {}

    def find_order(self, graphs: Sequence[MirageGraph]) -> None:
        """Finds the order of inputs in which most of the graphs are right."""
        for graph in {graph.program(): graph for graph in graphs}.values():
            orders = self._orders(graph)
            for pair in orders if len(orders) > 1 else ():
                if self._outcome(pair, floats=False).accepted:
                    self._votes[pair.order] += 1
                    break

    def judged(self, graph: MirageGraph | FormatError) -> _JudgedMugraph:
        """A graph's outcome; graphs that are the same program are compared once."""
        if isinstance(graph, UnknownOperator):
            return _JudgedMugraph(not_judged(graph, operator=graph.name), {})
        if isinstance(graph, FormatError):
            return _JudgedMugraph(not_judged(graph), {})
        program = graph.program()
        if program not in self._known:
            self._known[program] = self._best(graph)
        return self._known[program]

    def _orders(self, graph: MirageGraph) -> list[InputPairing]:
        """The orders that its inputs can have, what others of the file have first."""
        orders = islice(pairs(graph, self._reference), MOST_ORDERS)
        return sorted(orders, key=lambda pair: -self._votes[pair.order])

    def _best(self, graph: MirageGraph) -> _JudgedMugraph:
        """The outcome in the file's order, or the best one of all orders if none is known."""
        orders = self._orders(graph)
        if not orders:
            shapes = ", ".join(str(term.type) for term in graph.inputs)
            name = self._reference.name
            return _JudgedMugraph(not_judged(f"its inputs {shapes} are not those of {name}"), {})
        if self._votes[orders[0].order] or len(orders) == 1:
            return self._in_order(orders[0], floats=True)
        judgements = [self._in_order(pair, floats=False) for pair in orders]
        return min(judgements, key=lambda judged: judged.outcome.rank)

    def _in_order(self, pair: InputPairing, floats: bool) -> _JudgedMugraph:
        names = [term.parameter("name") for term in pair.reference.inputs]
        return _JudgedMugraph(
            self._outcome(pair, floats), dict(zip(names, pair.order, strict=True))
        )

    def _outcome(self, pair: InputPairing, floats: bool) -> Judgement:
        try:
            return self._judge(pair.reference, pair.graph, floats)
        except TensorError as error:
            return not_judged(error)
