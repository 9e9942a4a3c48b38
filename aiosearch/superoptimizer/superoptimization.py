"""`superoptimize`: search the space of a program, rank what was found, and verify the best.

Verifying the best of what was found: in exact arithmetic, and in floats.
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
    programs where `going` says that what there is will do.
    """
    verdicts: list[Verdict] = []
    for number, one in enumerate(programs, 1):
        if not going(f"verifying {number} of {len(programs)}"):
            break
        verdicts.append(await to_thread.run_sync(_verified, reference, one, False))
    pairs = list(zip(programs, verdicts, strict=False))
    if not floats:
        doubts = [await to_thread.run_sync(_doubt, reference, *pair) for pair in pairs]
        clock.took("verification")
        return list(zip(verdicts, doubts, strict=True))
    clock.took("verification")
    for number, (one, _) in enumerate(pairs):
        if not going(f"comparing floats {number + 1} of {len(programs)}"):
            break
        verdicts[number] = await to_thread.run_sync(_verified, reference, one, True)
    clock.took("floats")
    return [(verdict, "") for verdict in verdicts]


def _verified(reference: Program, program: Program, floats: bool) -> Verdict:
    return verify(reference, program, floats=floats)


def _doubt(reference: Program, program: Program, verdict: Verdict) -> str:
    """What floats say against it at small sizes, where the programs can be made so small."""
    if not verdict.status.accepted:
        return ""
    small = generalise([reference, program]).reduced()
    sizes = [product(term.shape) for one in small for term in one.terms()]
    if not all(isinstance(size, int) and size <= SMALL for size in sizes):
        return ""
    rounded = verify(*small)
    return rounded.reason if rounded.status is Status.REFUTED else ""


pass


@dataclass(frozen=True)
class Answer:
    """A program that was found and verified."""

    ranked: Ranked
    program: Program
    """With its numbers, and chains of pointwise operators in the registers of threads."""
    verdict: Verdict
    doubt: str
    """Where floats at small sizes speak against it: what they overflow on, for example."""


@dataclass(frozen=True)
class Cut:
    """What a search with a bound explored."""

    nodes: int
    pruned: int
    """Drafts that were left as they were: nothing better could become of them."""


@dataclass(frozen=True)
class Findings:
    """What a search of the space came to."""

    reference: Program
    problem: Fusion
    device: Device
    status: str
    """`complete` where nothing of the space was left out, but by a bound. It is of the search."""
    cut: Cut | None
    """Where a bound was: then only what was found on the way to the best is here."""
    graphs: int
    """Kernel graphs."""
    programs: int
    """Programs, whatever their numbers."""
    answers: tuple[Answer, ...]
    """The best predicted, best first."""
    refused: tuple[str, ...]
    """Of those, what verification did not accept, and why."""
    pruned: Counter[str]
    """How often a step was not taken, by the reason."""
    sizes: dict[str, int]
    """How large the tables are."""
    seconds: dict[str, float] = field(default_factory=dict)
    """CPU seconds by what was done, those of workers among them."""
    undone: tuple[str, ...] = ()
    """What was left after the search because `going` said so, in the words that it was told: that,
    and what is of its kind and would have come after it."""


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
    one, and what cannot be better than the best so far is left out.
    `opened` gets the search when it has begun: one that is stopped is ranked as far as it came.
    Raises UnsearchableError where the program has something that the superoptimizer does not know.
    """
    fastest = Fastest(to_json(uncast(program)), device, space or Space())
    clock, noting = PhaseClock(), StopRecorder(going)
    await to_thread.run_sync(fastest.prepare, going)
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
    found = _graphs(problem, result.solutions)
    programs = sum(one.programs for one in found)
    tell(f"kernel graphs: {len(found):,}, programs: {programs:,}")
    best = (
        partial(fastest.ranked, result.solutions)
        if bound
        else partial(Ranking(problem.skeletons, device).best, found)
    )
    ranked = await to_thread.run_sync(best, top, noting)
    clock.took("ranking")
    answered = [threaded(one.filling.program) for one in ranked]
    judged = await verified(program, answered, floats, noting, clock)
    answers = [
        Answer(one, made, verdict, doubt)
        for one, made, (verdict, doubt) in zip(ranked, answered, judged, strict=False)
    ]
    tables = problem.tables
    return Findings(
        program,
        problem,
        device,
        str(result.status),
        Cut(result.statistics.nodes, result.statistics.pruned) if bound else None,
        len(found),
        programs,
        tuple(one for one in answers if one.verdict.status.accepted),
        tuple(f"{one.status}: {one.reason}" for one, _ in judged if not one.status.accepted),
        tables.pruned,
        {"classes": len(tables.classes), "steps": sum(map(len, tables.steps))},
        clock.seconds,
        tuple(noting.undone),
    )


def _graphs(problem: Fusion, solutions: Sequence[Found | Priced]) -> list[Found]:
    """The kernel graphs, each once, in an order that does not depend on how they were found."""
    kernels = {one.kernels: None for one in solutions}
    known = {one.kernels: one for one in solutions if isinstance(one, Found)}
    found = [known.get(one) or problem.found(one) for one in kernels]
    return sorted(found, key=lambda one: (one.least_bytes, str(one.kernels)))
