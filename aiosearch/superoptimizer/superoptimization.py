"""`superoptimize`: search the space of a program, rank the kernel graphs, and verify the best.

Verification is by `verify`, in exact arithmetic and in floats: it shares nothing with the normal
forms by which the search recognises a program.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from anyio import to_thread

from ..devices import Device
from ..equivalence import Status, Verdict, verify
from ..events import Hook
from ..limits import Limits
from ..orders import BestFirst
from ..search import Search
from ..tensor import Program
from ..tensor.analysis.generalise import generalise
from ..tensor.files import to_json
from ..tensor.sizes import product
from .algebra.program_reader import uncast
from .build.thread_fusion import threaded
from .cost.ranking import Ranked, Ranking
from .enumeration.branch_and_bound import Fastest, Priced
from .enumeration.problem import Found, Fusion
from .progress import PhaseClock, ShouldContinue, StopRecorder, always_continue
from .space import Space

SMALL = 1 << 16
"""Elements of a tensor, above which floats are compared only where that is asked for."""


async def verified(
    reference: Program,
    programs: Sequence[Program],
    floats: bool,
    going: ShouldContinue,
    clock: PhaseClock,
) -> list[tuple[Verdict, str]]:
    """The verdict on each program, and what floats at small sizes say against it.

    Where `floats` are compared at full size, that is in the verdict. There are fewer verdicts than
    programs where `going` says stop.
    """
    verdicts: list[Verdict] = []
    for number, candidate in enumerate(programs, 1):
        if not going(f"verifying {number} of {len(programs)}"):
            break
        # Verification takes seconds: in a thread, so that the event loop goes on serving hooks.
        verdicts.append(await to_thread.run_sync(_verified, reference, candidate, False))
    pairs = list(zip(programs, verdicts, strict=False))
    if not floats:
        doubts = [await to_thread.run_sync(_doubt, reference, *pair) for pair in pairs]
        clock.took("verification")
        return list(zip(verdicts, doubts, strict=True))
    clock.took("verification")
    for number, (candidate, _) in enumerate(pairs):
        if not going(f"comparing floats {number + 1} of {len(programs)}"):
            break
        verdicts[number] = await to_thread.run_sync(_verified, reference, candidate, True)
    clock.took("floats")
    return [(verdict, "") for verdict in verdicts]


def _verified(reference: Program, program: Program, floats: bool) -> Verdict:
    return verify(reference, program, floats=floats)


def _doubt(reference: Program, program: Program, verdict: Verdict) -> str:
    """What floats say against `program` at small sizes, where the programs can be made so small."""
    if not verdict.status.accepted:
        return ""
    small = generalise([reference, program]).reduced()
    sizes = [product(term.shape) for member in small for term in member.terms()]
    if not all(isinstance(size, int) and size <= SMALL for size in sizes):
        return ""
    rounded = verify(*small)
    return rounded.reason if rounded.status is Status.REFUTED else ""


@dataclass(frozen=True)
class Answer:
    """A program that was found and verified."""

    ranked: Ranked
    program: Program
    """The program with its sizes, and chains of pointwise operators in the registers of threads."""
    verdict: Verdict
    doubt: str
    """What floats at small sizes say against the program: what they overflow on, for example."""


@dataclass(frozen=True)
class Cut:
    """What a search with a bound explored."""

    nodes: int
    pruned: int
    """Drafts that were not expanded: nothing better could become of them."""


@dataclass(frozen=True)
class Findings:
    """What a search of the space came to."""

    reference: Program
    problem: Fusion
    device: Device
    status: str
    """The status of the search: `complete` where nothing of the space was left out, but by a
    bound."""
    cut: Cut | None
    """Set where the search had a bound: then only what was found on the way to the best is here."""
    graphs: int
    """How many kernel graphs were found."""
    programs: int
    """How many programs they stand for, whatever their sizes."""
    answers: tuple[Answer, ...]
    """The best predicted programs that were verified, best first."""
    refused: tuple[str, ...]
    """What verification did not accept of the best predicted, and why."""
    pruned: Counter[str]
    """How often a derivation was not entered, by the reason."""
    sizes: dict[str, int]
    """How many classes and steps the derivation graph has."""
    seconds: dict[str, float] = field(default_factory=dict)
    """CPU seconds by phase, those of workers among them."""
    undone: tuple[str, ...] = ()
    """What was left after the search because `going` said stop, in the words that it was called
    with: that, and later work of the same kind."""


async def superoptimize(
    program: Program,
    device: Device,
    *,
    space: Space | None = None,
    top: int = 10,
    workers: int = 0,
    on: Hook | Iterable[Hook] = (),
    limits: Limits | None = None,
    floats: bool = False,
    bound: bool = False,
    strategy: str = "queue",
    journal: str | Path | None = None,
    resume: bool = False,
    tell: Callable[[str], None] = lambda text: None,
    going: ShouldContinue = always_continue,
    opened: Callable[[Search[Any, Any]], None] = lambda search: None,
) -> Findings:
    """Searches every program of a space for those equal to `program`; the best are verified.

    That is in exact arithmetic, and with `floats` in floating point too, which takes seconds each;
    without, floats are compared at small sizes, and what speaks against an answer is its `doubt`.
    With `bound` only the best is searched for, by the cost model: programs are gone through one by
    one, and what cannot be better than the best so far is left out. `opened` gets the search when
    it has begun: one that is stopped is ranked as far as it came. Raises UnsearchableError where
    the program has something that the superoptimizer does not know.
    """
    fastest = Fastest(to_json(uncast(program)), device, space or Space())
    clock, noting = PhaseClock(), StopRecorder(going)
    await to_thread.run_sync(fastest.prepare, going)
    # From here on the digest of the tables is part of the problem: a worker or a journal of another
    # version is refused in place of misread.
    fastest = fastest.tied()
    problem = fastest.fusion
    clock.took("tables")
    tell(f"tables: {len(problem.tables.classes):,} values")
    search: Search[Any, Any] = Search(
        fastest if bound else problem, order=BestFirst(prune=True) if bound else "depth-first",
        workers=workers, on=on, limits=limits, strategy=strategy, journal=journal, resume=resume,
        cache=None,
    )  # fmt: skip
    async with search:
        opened(search)
        result = await search.wait()
    clock.took("search")
    graphs = _graphs(problem, result.solutions)
    programs = sum(graph.programs for graph in graphs)
    tell(f"kernel graphs: {len(graphs):,}, programs: {programs:,}")
    best = (
        partial(fastest.ranked, result.solutions)
        if bound
        else partial(Ranking(problem.skeletons, device).best, graphs)
    )
    ranked = await to_thread.run_sync(best, top, noting)
    clock.took("ranking")
    answered = [threaded(graph.filling.program) for graph in ranked]
    judged = await verified(program, answered, floats, noting, clock)
    answers = [
        Answer(graph, built, verdict, doubt)
        for graph, built, (verdict, doubt) in zip(ranked, answered, judged, strict=False)
    ]
    tables = problem.tables
    return Findings(
        program,
        problem,
        device,
        str(result.status),
        Cut(result.statistics.nodes, result.statistics.pruned) if bound else None,
        len(graphs),
        programs,
        tuple(graph for graph in answers if graph.verdict.status.accepted),
        tuple(
            f"{graph.status}: {graph.reason}" for graph, _ in judged if not graph.status.accepted
        ),
        tables.pruned,
        {"classes": len(tables.classes), "steps": sum(map(len, tables.steps))},
        clock.seconds,
        tuple(noting.undone),
    )


def _graphs(problem: Fusion, solutions: Sequence[Found | Priced]) -> list[Found]:
    """The kernel graphs, each once, in an order that does not depend on how they were found."""
    kernels = {solution.kernels: None for solution in solutions}
    described = {
        solution.kernels: solution for solution in solutions if isinstance(solution, Found)
    }
    graphs = [described.get(solution) or problem.kernel_graph(solution) for solution in kernels]
    return sorted(graphs, key=lambda solution: (solution.least_bytes, str(solution.kernels)))
