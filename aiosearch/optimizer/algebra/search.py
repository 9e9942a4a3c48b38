"""`improve`: a best-first search over programs equal by rewrite rules, the cheapest first.

Problem: find programs that are equal to one and estimated to be faster, within seconds.

Example: `trace(x @ y)` for f32[512, 512], estimated at 2 · 512³ operations, becomes by
`diagonal_of_product` the sum of `x * y.T`, which has 512² of them.

`RewriteSearch` applies one rule of `rules` at a time to any term. Rules may be optimistic, and some
make a program more expensive before another makes it cheaper: nodes up to `_COST_LIMIT` times the
original are kept. `EnumerationSearch` needs no rule but only changes one value. `improve` lets each
go on from the best that the other has found, which reaches programs that neither finds alone.

Invariant: a node is a whole program in its simplest form (`Tidier`), and its key (`identity`) is
the program up to the order of commutative operands, so that each is expanded once.

Cost: a node costs one pass of `rewritten` over its terms, and one `Tidier.program` and `estimate`
for each neighbour; time is bounded by `seconds`. benchmarks/algebra.py prints what is found and
when.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import zip_longest
from typing import Any

from msgspec import Struct

from ...limits import Limits
from ...orders import BestFirst, Order
from ...problem import Problem
from ...search import solve
from ...tensor import Program, ShapeError, Term
from ...tensor.analysis.substitution import substituted
from ...tensor.files import from_json, to_json
from ...tensor.mugraph import RESULT
from .cost import estimate, worth
from .enumeration import EnumerationSearch, Recomputation
from .rules import functions as _functions
from .rules import movement as _movement
from .rules import products as _contractions
from .rules import rows as _rows
from .rules import scaling as _scaling
from .rules.registry import fits, rewritten
from .rules.simplification import Tidier

_COST_LIMIT = 1.6
"""Programs that are estimated at this many times the original are not expanded."""
_COST_LIMIT_WITH_WEIGHTS = 2.2
"""`_COST_LIMIT` where weights may be merged: a product more is on the way to one product less."""
_MORE_TERMS = 24
"""Programs with more than twice the terms of the original, and this many, are not expanded."""


class RewrittenProgram(Struct, frozen=True):
    """A node: a program, and the rules that led to it."""

    program: bytes
    """As JSON."""
    cost: float
    """Estimated microseconds."""
    trail: tuple[str, ...]
    """The names of the rules, first to last."""


@dataclass(frozen=True)
class RewriteSearch:
    """The problem of finding programs equal to one by the rules; its answers are those estimated to
    be cheaper."""

    original: bytes
    """As JSON."""
    constant: tuple[int, ...] = ()
    """Positions of the inputs that stay the same: what depends on them alone costs nothing."""

    def root(self) -> RewrittenProgram:
        """The original in its simplest form."""
        program = self._tidier.program(self._program)
        return RewrittenProgram(to_json(program), self._estimate(program), ())

    def expand(self, node: RewrittenProgram) -> Sequence[RewrittenProgram]:
        """Every promising program one rule away."""
        # The engine expands the root three times, twice to see that it is repeatable: of a large
        # program that would be most of a brief search.
        if node not in self._expanded:
            self._expanded.clear()
            self._expanded[node] = tuple(self._promising_steps(node))
        return self._expanded[node]

    def _promising_steps(self, node: RewrittenProgram) -> Iterator[RewrittenProgram]:
        program = self._read(node.program)
        # Several rules may lead to one program; the search knows nodes by `key`, but to make one
        # costs an estimate.
        seen = {program}
        for name, neighbour in neighbours(program, self._tidier):
            if neighbour not in seen:
                seen.add(neighbour)
                cost = self._estimate(neighbour)
                if self._promising(neighbour, cost):
                    yield RewrittenProgram(to_json(neighbour), cost, (*node.trail, name))

    def solutions(self, node: RewrittenProgram) -> tuple[RewrittenProgram, ...]:
        """The program, where `estimate` says that it is cheaper."""
        return (node,) if node.cost <= self._worth else ()

    def cost(self, solution: RewrittenProgram) -> float:
        """The estimated time of an answer, in microseconds."""
        return solution.cost

    def priority(self, node: RewrittenProgram) -> float:
        """The estimated time, a little more for each rule on the way: of programs that are as cheap
        the nearest comes first."""
        # Two thousandths for each rule: enough to prefer the shorter of two ways, too little to
        # hide a gain of a percent for long.
        return node.cost * (1 + 0.002 * len(node.trail))

    def key(self, node: RewrittenProgram) -> bytes:
        """Names the program, whatever rules led to it."""
        return identity(self._read(node.program))

    def _estimate(self, program: Program) -> float:
        # Rounded, so that sums of the same costs in another order tie, and the shorter trail wins.
        return round(estimate(program, self.constant), 4)

    def _promising(self, program: Program, cost: float) -> bool:
        terms = sum(1 for _ in program.terms())
        # Rules such as `distributed` can be applied for ever: without a limit on terms the search
        # drowns in long programs that are estimated to be as cheap.
        return cost <= self._cost_limit and terms <= 2 * self._terms + _MORE_TERMS

    @cached_property
    def _program(self) -> Program:
        return from_json(self.original)

    @cached_property
    def _cost(self) -> float:
        return estimate(self._program, self.constant)

    @cached_property
    def _worth(self) -> float:
        return worth(self._cost, self.constant)

    @cached_property
    def _cost_limit(self) -> float:
        return (_COST_LIMIT_WITH_WEIGHTS if self.constant else _COST_LIMIT) * self._cost

    @cached_property
    def _terms(self) -> int:
        return sum(1 for _ in self._program.terms())

    @cached_property
    def _tidier(self) -> Tidier:
        return Tidier()

    @cached_property
    def _expanded(self) -> dict[RewrittenProgram, Sequence[RewrittenProgram]]:
        return {}

    @cached_property
    def _recent(self) -> dict[bytes, Program]:
        return {}

    def _read(self, document: bytes) -> Program:
        """The program of a node; the last one is kept, as `expand`, `solutions` and `key` ask for
        it in turn."""
        program = self._recent.get(document)
        if program is None:
            self._recent.clear()
            program = self._recent[document] = from_json(document)
        return program


def neighbours(program: Program, tidier: Tidier) -> Iterator[tuple[str, Program]]:
    """The programs that one application of a rule makes of `program`, each with the rule's name.

    Where a rule applies to several terms, also what it makes of all of them at once: a network with
    as many equal layers would need a step for each.
    """
    places: dict[str, dict[Term, Term]] = {}
    single: list[tuple[str, dict[Term, Term]]] = []
    for term in program.terms():
        for name, equal in rewritten(term):
            places.setdefault(name, {}).setdefault(term, equal)
            single.append((name, {term: equal}))
    # The first rewrite of a rule at each term: all combinations would be as many as the product of
    # their numbers.
    several = [(name, changes) for name, changes in places.items() if len(changes) > 1]
    # All places at once come first: they are the larger step, and the search may end at any time.
    for name, changes in [*several, *single]:
        try:
            changed = tidier.program(substituted(program, changes))
        except ShapeError:
            continue
        # A simplification may lose a type that literals have lent.
        if all(map(fits, changed.outputs, program.outputs)):
            yield name, changed


def identity(program: Program) -> bytes:
    """A digest of a program up to the order of operands of commutative operators."""
    names: dict[Term, bytes] = {}
    for term in program.terms():
        operands = [names[argument] for argument in term.arguments]
        if term.operator.commutative:
            operands.sort()
        text = repr((term.operator.name, term.parameters)).encode()
        # Digests and not Python's hashes, which differ in each process: keys are compared across
        # processes.
        names[term] = hashlib.blake2b(b"".join([text, *operands]), digest_size=16).digest()
    whole = b"".join(names[output] for output in program.outputs)
    return hashlib.blake2b(whole, digest_size=16).digest()


# They are imported for the rules that they register.
del _contractions, _functions, _movement, _rows, _scaling


CANCELLING = frozenset({"sum_of_square", "distributed", "sum_of_sum", "sub"})
"""Rules and steps whose results may subtract large numbers that are nearly equal, and so lose
digits."""


def improve(
    program: Program,
    *,
    constant: tuple[int, ...] = (),
    seconds: float = 2.0,
    nodes: int | None = None,
    most: int = 8,
) -> list[Program]:
    """Programs estimated to be faster, the fastest first; yet to be verified.

        faster = improve(program, seconds=1.0, most=4)

    `constant` has the positions of inputs that stay the same. The search runs in this process,
    until `seconds` are spent, or `nodes` by each of its searches. Half of the programs came about
    without a rule of `CANCELLING`, which are more accurate.
    """
    steps = derivations(program, constant=constant, seconds=seconds, nodes=nodes, most=most)
    return [from_json(step.program) for step in steps]


def derivations(
    program: Program,
    *,
    constant: tuple[int, ...] = (),
    seconds: float = 2.0,
    nodes: int | None = None,
    most: int = 8,
) -> list[RewrittenProgram]:
    """What `improve` gives, each with the rules that led to it (`RewrittenProgram.trail`)."""
    if not searchable(program):
        return []
    answers = _Answers(program, constant, time.monotonic() + seconds, nodes)
    answers.rewrite(answers.original, 1 / 2)
    # From the best by rules; where that leads nowhere, from the original, whose values were not
    # rewritten.
    if not answers.enumerate(answers.best, 1 / 2):
        answers.enumerate(answers.original, 1)
    elif answers.rewrite(answers.best, 1 / 2):
        answers.enumerate(answers.best, 1)
    return answers.chosen(most)


class _Answers:
    """What several searches have found, each going on from what those before it did."""

    def __init__(
        self, program: Program, constant: tuple[int, ...], until: float, nodes: int | None
    ) -> None:
        self.original = RewrittenProgram(to_json(program), estimate(program, constant), ())
        self._constant = constant
        self._until = until
        self._nodes = nodes
        self._found: dict[bytes, RewrittenProgram] = {}

    @property
    def best(self) -> RewrittenProgram:
        """The cheapest program so far; the original before anything is found."""
        return min(self._found.values(), key=_order, default=self.original)

    def rewrite(self, start: RewrittenProgram, share: float) -> bool:
        """Searches by rules, for a share of the time that is left; gives whether anything is better
        than before."""
        return self._search(RewriteSearch(start.program, self._constant), BestFirst(), start, share)

    def enumerate(self, start: RewrittenProgram, share: float) -> bool:
        """Searches bottom up, for a share of the time that is left; gives whether anything is
        better than before."""
        problem = EnumerationSearch(start.program, self._constant)
        return self._search(problem, BestFirst(prune=True), start, share)

    def _search(
        self,
        problem: Problem[Any, RewrittenProgram | Recomputation],
        order: Order,
        start: RewrittenProgram,
        share: float,
    ) -> bool:
        left, before = self._until - time.monotonic(), self.best
        if left <= 0:
            return False
        # In this process: starting workers would take a good part of the time.
        limits = Limits(seconds=left * share, nodes=self._nodes)
        result = solve(problem, order=order, workers=0, limits=limits, cache=None)
        for solution in result.solutions:
            self._add(from_json(solution.program), (*start.trail, *solution.trail))
        return self.best is not before

    def _add(self, program: Program, trail: tuple[str, ...]) -> None:
        tidy = Tidier().program(program)
        step = RewrittenProgram(to_json(tidy), round(estimate(tidy, self._constant), 4), trail)
        earlier = self._found.setdefault(identity(tidy), step)
        if _order(step) < _order(earlier):
            self._found[identity(tidy)] = step

    def chosen(self, most: int) -> list[RewrittenProgram]:
        """The fastest `most` programs, by turns one of all and one of those that lose no digits, in
        order of their cost."""
        best = sorted(self._found.values(), key=_order)
        safe = [step for step in best if CANCELLING.isdisjoint(step.trail)]
        # Half of the programs shall lose no digits: if the fast ones are refused for their errors,
        # others are there to be timed.
        turns = [step for pair in zip_longest(best, safe) for step in pair if step is not None]
        chosen = list(dict.fromkeys(turns))[:most]
        return sorted(chosen, key=_order)


def _order(step: RewrittenProgram) -> tuple[float, int]:
    return step.cost, len(step.trail)


def searchable(program: Program) -> bool:
    """Whether all sizes are known, and no term is the result of a fused kernel."""
    return all(
        term.operator is not RESULT and all(isinstance(size, int) for size in term.shape)
        for term in program.terms()
    )
