"""From a program to the sources that are worth a trial; pure work."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from msgspec import Struct

from ..equivalence import verify
from ..tensor import Program
from ..tensor.files import from_json, to_json
from .algebra import improve
from .effort import Budget
from .emit import emit, names
from .spelling import Spelling, spellings


class Question(Struct, frozen=True):
    """What is asked of the process that rewrites."""

    program: bytes
    budget: Budget
    seed: int
    strict: bool


class Contender(Struct, frozen=True):
    """One way to write a program down."""

    how: str
    """What was done to the original, in words."""
    form: int
    """Which rewritten program it is; 0 is the original."""
    program: bytes
    source: str
    function: str
    verdict: tuple[str, ...]
    """What is known of the program and how; of the original, nothing need be."""


class Contest(Struct, frozen=True, tag=True):
    """All that is to be tried, the original as it is first; and what was left out as unproven."""

    contenders: tuple[Contender, ...]
    refused: tuple[str, ...]


def contest(question: Question, tell: Callable[[str], None]) -> Contest:
    """Rewrites a program, verifies what comes out, and writes each down in several ways."""
    program, budget = from_json(question.program), question.budget
    forms: list[tuple[Program, tuple[str, ...], str]] = [(program, (), "as it is")]
    refused: list[str] = []
    for found in improve(program, seconds=budget.search_seconds, most=budget.forms):
        verdict = verify(program, found, seed=question.seed, strict=question.strict, floats=False)
        if verdict.status.accepted:
            forms.append((found, tuple(verdict.summary()), f"rewritten {len(forms)}"))
            tell(f"rewritten {len(forms) - 1}: {verdict.summary()[0]}")
        else:
            refused.append(f"{verdict.status}: {verdict.reason}")
            tell(f"a rewrite is left out: {refused[-1]}")
    ways = [list(_ways(*form, number)) for number, form in enumerate(forms)]
    chosen = _by_turns(ways, budget.contenders)
    return Contest(tuple(chosen), tuple(refused))


def _ways(program: Program, verdict: tuple[str, ...], how: str, form: int) -> Iterator[Contender]:
    """The program in each spelling; of the original, as it is comes first."""
    packed = to_json(program)
    function, _ = names(program)
    order = list(spellings(program))
    if form == 0:
        order.sort(key=lambda spelling: spelling != Spelling())
    seen: set[str] = set()
    for spelling in order:
        source = emit(program, spelling)
        if source not in seen:
            seen.add(source)
            told = how if spelling == Spelling() else f"{how}; {spelling}"
            yield Contender(told, form, packed, source, function, verdict)


def _by_turns(ways: list[list[Contender]], most: int) -> list[Contender]:
    """The first of each, then the second of each, as far as there is room; sources once."""
    found: dict[str, Contender] = {}
    for turn in range(max(map(len, ways))):
        for way in ways:
            if turn < len(way) and len(found) < most:
                found.setdefault(way[turn].source, way[turn])
    return list(found.values())
