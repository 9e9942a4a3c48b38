"""`referee`: asks z3 once about every value class that the subterm test accepted.

A proof agrees with the test. What is not proved is unknown: under quantified axioms z3 never
denies, unless something is wrong. So a denial is a disagreement, and speaks against the search.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import anyio

from ...checks import Status, Verifier
from ...checks.cache import DEFAULT_CACHE
from ...problem import Obligation
from ...superoptimizer import DerivationGraph, ShouldContinue, always_continue
from ...tensor.abstract import Abstract
from .subterm_questions import SubtermQuestions
from .unlabelled_terms import UnlabelledTerms, without_sizes

RLIMIT = 80_000
"""The resource limit of a question, as in Mirage's first version."""


@dataclass(frozen=True)
class Refereed:
    """How many values there are by what z3 says, each without its labels."""

    agree: int
    unknown: int
    unproved: tuple[str, ...]
    """The terms of which it is unknown."""
    denied: tuple[str, ...]
    """The terms that z3 says are no parts: there it disagrees."""
    terms: int
    """How many terms the values are; each was asked about once, or is in the cache."""
    asked: int
    """How many of the terms z3 was asked about."""
    seconds: float
    """CPU seconds of z3."""
    left: int = 0
    """Terms that were not asked about, as `going` ended it before; they are unknown, but not among
    `unproved`."""


async def referee(
    tables: DerivationGraph,
    *,
    processes: int = 1,
    rlimit: int = RLIMIT,
    cache: Path | Literal["default"] | None = DEFAULT_CACHE,
    going: ShouldContinue = always_continue,
) -> Refereed:
    """Asks whether each class's term is a part of the reference; ends early where `going` says so.

    Raises WorkerError where z3 cannot be started.
    """
    unlabelled = UnlabelledTerms(tables)
    terms = list(dict.fromkeys(unlabelled.terms))
    questions = SubtermQuestions(unlabelled.targets, terms)
    statuses: dict[Abstract, Status] = {}
    axioms = {"parts": questions.axioms}
    async with Verifier(processes, cache, axioms, rlimit) as verifier:

        async def ask(term: Abstract) -> None:
            goal = Obligation(questions.query(term), "parts", key=questions.key(term))
            statuses[term] = (await verifier.check(goal)).status
            if not going(f"asking z3: {len(statuses)} of {len(terms)} terms"):
                group.cancel_scope.cancel()

        async with anyio.create_task_group() as group:
            for term in terms:
                group.start_soon(ask, term)
        checked = verifier.statistics()
    said = [statuses.get(term, Status.UNKNOWN) for term in unlabelled.terms]
    by_status = {
        status: [term for term in terms if statuses.get(term) is status] for status in Status
    }
    return Refereed(
        said.count(Status.PROVED),
        said.count(Status.UNKNOWN),
        tuple(map(without_sizes, by_status[Status.UNKNOWN])),
        tuple(map(without_sizes, by_status[Status.REFUTED])),
        len(terms),
        checked.checks,
        checked.cpu_seconds,
        len(terms) - len(statuses),
    )
