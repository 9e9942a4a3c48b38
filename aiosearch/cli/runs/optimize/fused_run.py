"""One search of fused kernels: watched, interrupted, and its result for people and for programs."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass
from typing import Any

import anyio
import msgspec
from anyio import to_thread

from ....devices import Device
from ....display.tables import table
from ....documents import Document
from ....events import AnyEvent, Progress, SearchFinished, WorkerLost
from ....search import Search
from ....superoptimizer import (
    Answer,
    DerivationGraph,
    Findings,
    NormalFormProgram,
    PhaseClock,
    Refereed,
    Space,
    StopRecorder,
    cpu_seconds,
    limits_to_raise,
    referee,
    superoptimize,
)
from ....tensor import Program
from ....tensor.files import to_json
from ....tensor.text import write
from ...output.screen import LiveScreen, NoScreen, PlainScreen, Screen, progress_text, ticking
from ...output.units import duration, of, size
from ...signals import Interrupts


@dataclass(frozen=True)
class FusedRequest:
    """What is to be searched, and how."""

    program: Program
    device: Device
    space: Space
    top: int
    options: Document
    referee: bool
    quiet: bool


@dataclass(frozen=True)
class FusedOutcome:
    """What a search came to, and what was asked about it."""

    findings: Findings
    raised: list[tuple[str, int]]
    """Where nothing was found: limits that alone stand in the way."""
    refereed: Refereed | None
    seconds: dict[str, float]
    """CPU seconds by what was done."""
    undone: tuple[str, ...] = ()
    """What a signal kept from being done once the search had ended."""


class _BrokenOffError(Exception):
    """Takes a thread out of its work."""


class FusedRun:
    """Searches on the running loop; made and used once.

    The first signal ends what is going on: the search, the ranking, the verification. What comes
    after that is done, with what there is. The second ends everything, and so does one that comes
    before the search.
    """

    def __init__(self, request: FusedRequest) -> None:
        self._wanted = request
        self._screen: Screen = NoScreen()
        self._now = "reading the program"
        self._search: Search[Any, Any] | None = None
        self._has_begun = False
        self._enough = False
        self._is_off = False
        self.interrupted = False

    @property
    def at(self) -> str:
        """What is going on, or was when it ended."""
        return self._now

    async def run(self) -> FusedOutcome | None:
        """Gives what was found; nothing where a signal ended it before there was anything."""
        self._started = time.monotonic()
        with ExitStack() as stack, suppress(_BrokenOffError), anyio.CancelScope() as self._scope:
            self._screen = self._opened()
            stack.callback(self._screen.close)
            stack.enter_context(Interrupts(self._stop, self._break_off))
            async with ticking(self._screen, self._status):
                return await self._outcome()
        return None

    def _opened(self) -> Screen:
        if self._wanted.quiet:
            return NoScreen()
        return LiveScreen() if sys.stderr.isatty() else PlainScreen(self._break_off)

    async def _outcome(self) -> FusedOutcome:
        start_up = cpu_seconds()
        findings = await self._found()
        clock = PhaseClock()
        raised, refereed = [], None
        noting = StopRecorder(self._going)
        if not findings.graphs and findings.status == "complete":
            raised = await to_thread.run_sync(limits_to_raise, findings.problem, noting)
            clock.took("looking further")
        if self._wanted.referee:
            refereed = await self._refereed(findings.problem.tables)
            clock.took("referee")
        seconds = {"start-up": start_up, **findings.seconds, **clock.seconds}
        undone = (*findings.undone, *noting.undone)
        return FusedOutcome(findings, raised, refereed, seconds, undone)

    async def _refereed(self, tables: DerivationGraph) -> Refereed:
        processes = max(1, self._wanted.options["workers"])
        return await referee(tables, processes=processes, going=self._going)

    async def _found(self) -> Findings:
        request = self._wanted
        return await superoptimize(
            request.program,
            request.device,
            space=request.space,
            top=request.top,
            on=self._heard,
            tell=self._tell,
            going=self._going,
            opened=self._begun,
            **request.options,
        )

    def _stop(self) -> None:
        self.interrupted = True
        if not self._has_begun:
            self._break_off()
        elif self._search is not None:
            self._search.stop("interrupted")
        else:
            self._enough = True

    def _break_off(self) -> None:
        self.interrupted = self._is_off = True
        self._scope.cancel()

    def _begun(self, search: Search[Any, Any]) -> None:
        self._search, self._has_begun = search, True
        self._tell("searching kernel graphs")

    def _heard(self, event: AnyEvent) -> None:
        match event:
            case Progress():
                self._now = f"searching: {progress_text(event)}"
            case WorkerLost(died=True):
                self._tell(f"worker {event.worker} died ({event.reason}); its work is done again")
            case SearchFinished():
                self._search = None

    def _going(self, text: str) -> bool:
        if self._is_off:
            raise _BrokenOffError
        self._now = text
        goes_on, self._enough = not self._enough, False
        return goes_on

    def _tell(self, text: str) -> None:
        self._screen.line(f"{self._past():>6}  {text}")

    def _status(self) -> str:
        return f"{self._past():>6}  {self._now} ..."

    def _past(self) -> str:
        return duration(time.monotonic() - self._started)


LOOP = "range"
UNPROVED = 5
"""Terms that are told one by one where z3 does not know."""


def space_text(reference: NormalFormProgram, request: FusedRequest) -> str:
    """The declared space of a program."""
    labels = zip(reference.labels, reference.sizes, strict=True)
    rows = [
        ("program", signature(request.program)),
        ("operators", operators(request.program)),
        ("axes", ", ".join(f"{label} {size:,}" for label, size in labels)),
        ("device", request.device.name),
        ("", ""),
        *request.space.lines(),
    ]
    return table(rows)


def space_facts(reference: NormalFormProgram, request: FusedRequest) -> Document:
    """The same as data."""
    return {
        "program": json.loads(to_json(request.program)),
        "axes": dict(zip(reference.labels, reference.sizes, strict=True)),
        "device": request.device.name,
        "space": msgspec.to_builtins(request.space),
        "lines": dict(request.space.lines()),
    }


def signature(program: Program) -> str:
    """Its name and inputs."""
    inputs = (f"{term.parameter('name')} {term.type}" for term in program.inputs)
    return f"{program.name}({', '.join(inputs)})"


def operators(program: Program) -> str:
    """What it applies, in order."""
    names = [term.operator.name for term in program.terms() if term.arguments]
    return f"{len(names)}: {', '.join(names)}"


def text(outcome: FusedOutcome) -> str:
    """The figures, a line for each program, and the best one whole."""
    findings = outcome.findings
    parts = [f"{signature(findings.reference)} on {findings.device.name}", _figures(outcome)]
    if findings.answers:
        best = min(findings.answers, key=lambda answer: bool(answer.doubt))
        parts += [_listed(findings), write(best.program).rstrip()]
        parts += [
            f"in floats, {number} may be wrong: {answer.doubt}"
            for number, answer in enumerate(findings.answers, 1)
            if answer.doubt
        ]
    parts += [f"not taken: {why}" for why in findings.refused]
    if findings.status == "complete" and not findings.graphs:
        parts.append(_advice(outcome))
    if outcome.refereed is not None:
        parts.append(_refereed(outcome.refereed))
    return "\n\n".join([*parts, seconds_text(outcome.seconds)])


def _advice(outcome: FusedOutcome) -> str:
    ways = [f"--{limit.replace('_', '-')} {value}" for limit, value in outcome.raised]
    if not ways and outcome.undone:
        return "nothing equal is in this space; not all limits were tried higher"
    if not ways:
        return "nothing equal is in this space, nor where one limit is somewhat higher"
    return f"nothing equal is in this space; there is something with {' or with '.join(ways)}"


def _refereed(refereed: Refereed) -> str:
    counts = (
        f"z3 on {of(refereed.terms, 'term')}: {refereed.agree:,} values agree,"
        f" {refereed.unknown:,} unknown, {len(refereed.denied):,} denied"
    )
    if refereed.left:
        counts += f"; interrupted: {of(refereed.left, 'term')} of these not asked about"
    rows = [counts, *(f"  denied: {term}" for term in refereed.denied)]
    shown = [f"  unknown: {term}" for term in refereed.unproved[:UNPROVED]]
    hidden = len(refereed.unproved) - len(shown)
    return "\n".join([*rows, *shown, *([f"  and {hidden} more unknown"] if hidden else [])])


def _figures(outcome: FusedOutcome) -> str:
    findings = outcome.findings
    sizes = findings.sizes
    rows = [
        *_searched(findings),
        *(("interrupted", f"not done: {what}, and those after it") for what in outcome.undone),
        ("tables", f"{of(sizes['classes'], 'value')}, {of(sizes['steps'], 'step')} between them"),
        *(
            ("" if number else "pruned", f"{count:,} {reason}")
            for number, (reason, count) in enumerate(findings.pruned.most_common())
        ),
    ]
    return table(rows)


def _searched(findings: Findings) -> list[tuple[str, str]]:
    graphs = of(findings.graphs, "kernel graph")
    if findings.cut is None:
        return [
            ("search", findings.status),
            ("found", f"{of(findings.programs, 'program')} on {graphs}"),
        ]
    nodes, pruned = of(findings.cut.nodes, "state"), findings.cut.pruned
    return [
        ("search", f"{findings.status} under the cost model"),
        ("found", f"{graphs}, each better than the ones before"),
        ("visited", f"{nodes}; {pruned:,} more cannot lead to anything better"),
    ]


def _listed(findings: Findings) -> str:
    rows = [("", "predicted", "traffic", "launches", "programs", "evidence", "kernels")]
    for number, answer in enumerate(findings.answers, 1):
        prediction = answer.ranked.filling.prediction
        rows.append(
            (
                str(number),
                f"{prediction.seconds * 1e6:.2f} us",
                size(prediction.device_bytes),
                str(prediction.launches),
                f"{answer.ranked.programs:,}",
                answer.verdict.summary()[0] + (", but see below" if answer.doubt else ""),
                ", ".join(_kernels(answer, findings)),
            )
        )
    return table(rows, right=frozenset(range(5)))


def _kernels(answer: Answer, findings: Findings) -> Iterator[str]:
    """What runs one after the other; of fused kernels, how often something is split."""
    tables = findings.problem.tables
    sizes = answer.ranked.filling.sizes
    for place, kernel in enumerate(answer.ranked.built.kernels):
        if kernel.step >= 0:
            (tensor,) = kernel.tensors
            yield tables.steps[tensor][kernel.step].operator
            continue
        cuts = {name: sizes.get(f"{name}{place}", 1) for name in (*tables.reference.labels, LOOP)}
        split = " ".join(f"{name}/{cut}" for name, cut in cuts.items() if cut > 1)
        yield f"fused[{split}]"


def seconds_text(seconds: Mapping[str, float]) -> str:
    """CPU seconds, all and by what was done."""
    parts = ", ".join(f"{what} {spent:.2f}" for what, spent in seconds.items())
    return f"CPU seconds: {sum(seconds.values()):.2f}, of them {parts}"


def facts(outcome: FusedOutcome, drawn: Sequence[str]) -> Document:
    """Everything as data."""
    findings, seconds = outcome.findings, outcome.seconds
    return {
        "program": json.loads(to_json(findings.reference)),
        "device": findings.device.name,
        "space": msgspec.to_builtins(findings.problem.space),
        "status": findings.status,
        "kernel_graphs": findings.graphs,
        "programs": findings.programs,
        "cut": None if findings.cut is None else asdict(findings.cut),
        "tables": findings.sizes,
        "pruned": dict(findings.pruned.most_common()),
        "answers": [_answer(answer) for answer in findings.answers],
        "refused": findings.refused,
        "undone": outcome.undone,
        "raise": dict(outcome.raised),
        "referee": msgspec.to_builtins(outcome.refereed),
        "drawings": drawn,
        "cpu_seconds": {**seconds, "all": sum(seconds.values())},
    }


def _answer(answer: Answer) -> Document:
    filling = answer.ranked.filling
    return {
        "predicted": msgspec.to_builtins(filling.prediction),
        "sizes": filling.sizes,
        "programs": answer.ranked.programs,
        "evidence": answer.verdict.to_dict(),
        "doubt": answer.doubt,
        "text": write(answer.program),
        "program": json.loads(to_json(answer.program)),
    }
