"""Proves that two programs over symbolic sizes are equal, element by element.

Problem: decide whether `sum(mul(X, Y), axes=[1])` and `sum(mul(Y, X), axes=[1])` are one function
for all sizes n, m.

Method: output element i of both is read as a normal form, here Σ over j < m of X[i,j]·Y[i,j], with
a variable i < n for each axis. Equal keys prove equality. Where an index crosses the seam of a
concatenation, or a reshape splits it, reading raises `CasesNeeded` or `SplitNeeded`; the element is
then compared in each case. Where keys differ, common denominators are cleared (`equal`), then z3 is
asked (`equal_reals`), then axes of at most `SHORT` places are written out.

Beside the value, the candidate's conditions count: every demand of `b` (a divisor that is not zero,
a radicand that is not negative) has to be one of `a`, so that the candidate is defined wherever the
original is.

Invariant: a proof uses the axioms of `Rule` alone; a failure says nothing. Cost: the normal forms
of one element in each of at most `CASES` cases, plus at most `z3_reals.PATIENCE_MS` where z3 is
asked. See docs/why/verdicts.md.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, partial

from ...documents import Document
from ...tensor.errors import TensorError
from ...tensor.evaluation import evaluate
from ...tensor.terms import LITERAL, Program, Term
from . import z3_reals
from .arithmetic import collect, minus, multiply, of_base, raised
from .conditions import NOTHING, Conditions, Need, Scalar
from .cut_points import CutPoints, ValuePair
from .elements import ElementAlgebra, IndexedTensor
from .indices import (
    CASES,
    CasesNeeded,
    IndexSum,
    Names,
    SplitNeeded,
    Unprovable,
    Var,
    digits,
    ranges,
)
from .normal_form import ONE, Monomial, Poly, SumBase, assuming
from .rules import Rule, fire, recorded
from .sums import fused, joined
from .work import ProofWork

CLEARINGS = 4
"""How many different denominators `equal` multiplies by before it gives up."""
FIRST_STEPS = 8_000
"""The steps of the first attempt, of each output as it is; most proofs take fewer."""
SHORT = 5
"""Sums over at most this many places are written out where a proof fails otherwise."""


@dataclass(frozen=True)
class Proof:
    """Whether a proof was found, by which `rules`; if not, the `obstacle`."""

    proved: bool
    rules: tuple[Rule, ...] = ()
    obstacle: str = ""

    def __str__(self) -> str:
        if not self.proved:
            return f"none found: {self.obstacle}"
        count = len(self.rules)
        headline = f"found, by {count} rule{'s' * (count != 1)}"
        return headline + "".join(f"\n      {rule}" for rule in self.rules)

    def to_dict(self) -> Document:
        """The proof for JSON: its rules, or its obstacle."""
        if not self.proved:
            return {"proved": False, "obstacle": self.obstacle}
        return {"proved": True, "rules": [rule.value for rule in self.rules]}


def prove(
    a: Program,
    b: Program,
    values: Mapping[str, int],
    work: ProofWork | None = None,
    *,
    strict: bool = False,
) -> Proof:
    """Proves that `b` equals `a`, at all sizes that the names in `values` may take.

    Both are read as functions of real numbers, and compared wherever `a` is one. Where floats go on
    after a division by zero, only running them can tell. `values` gives an example of each size,
    such as {"n": 6}. No more is done than `work` allows, and its steps are counted there. With
    `strict`, a choice between a value and NaN is not taken for the value.
    """
    # The rules that fire in attempts that fail are recorded too; the list may name more axioms than
    # the proof needs.
    with recorded() as rules:
        obstacle = _Attempts(a, b, values, work or ProofWork(), strict).obstacle()
        return Proof(False, (), obstacle) if obstacle else Proof(True, tuple(sorted(rules)))


class _Attempts:
    """The attempts at a proof of two programs: as they are, with cuts, and with all that is left.

    Programs that are small, or need what is known of their inputs, are proved as they are; what is
    left over of larger ones is proved in parts (`cut_points`).
    """

    def __init__(
        self, a: Program, b: Program, values: Mapping[str, int], work: ProofWork, strict: bool
    ) -> None:
        self._programs = a, b
        self._values = values
        self._work = work
        self._strict = strict
        self._obstacles: dict[int, str] = {}
        """By the number of each output that is not proved yet."""
        self._large: set[int] = set()
        """The outputs of which the steps of an attempt were too few."""

    def obstacle(self) -> str:
        """The first obstacle; empty where there is a proof."""
        a, b = self._programs
        # Terms are interned: outputs that are one term are one function, without reading it.
        different = [
            number
            for number, (ours, theirs) in enumerate(zip(a.outputs, b.outputs, strict=True))
            if ours is not theirs
        ]
        self._obstacles = dict.fromkeys(different, "")
        self._whole(FIRST_STEPS)
        if self._obstacles:
            self._in_parts()
        # An output that no more steps would prove speaks for all.
        if all(not text or at in self._large for at, text in self._obstacles.items()):
            self._whole(self._work.left)
        number, text = next(((at, text) for at, text in self._obstacles.items() if text), (0, ""))
        return f"output {number}: {text}" if text else ""

    def _whole(self, steps: int) -> None:
        """Compares outputs as they are, each with at most so many `steps`, up to an obstacle."""
        for number in list(self._obstacles):
            with self._work.part(steps) as part:
                text = self._obstacle(partial(self._read, number))
            if not text:
                del self._obstacles[number]
                continue
            if part.spent > part.steps:
                text = f"it takes more than {self._work.steps:,} steps"
                self._large.add(number)
            self._obstacles[number] = text
            # Where one output is large or different, others are as a rule.
            return

    def _in_parts(self) -> None:
        a, b = self._programs
        try:
            points = CutPoints(a, b, self._values)
            points.merge(self._work, lambda pair: not self._obstacle(pair))
        # A program that has no small shape, or is too large to be looked at in the steps left.
        except (TensorError, Unprovable):
            return
        for number in [at for at in self._obstacles if points.is_merged(at)]:
            del self._obstacles[number]

    def _read(self, number: int, algebra: ElementAlgebra) -> tuple[IndexedTensor, IndexedTensor]:
        """Output `number` of both programs as functions of indices."""
        a, b = self._programs
        inputs = [algebra.input(term.parameter("name"), term.shape) for term in a.inputs]
        outputs = (evaluate(program, algebra, inputs)[number] for program in (a, b))
        return next(outputs), next(outputs)

    def _obstacle(self, read: ValuePair) -> str:
        """The obstacle to a proof of two values; empty where there is a proof."""
        try:
            return _ComparedValues(read, self._values, self._means).obstacle()
        except Unprovable as error:
            return str(error)
        # Normal forms recurse as deep as the program nests functions in functions.
        except RecursionError:
            return "the program is too deep"

    @cached_property
    def _means(self) -> _Means:
        """What attempts are of use for these programs."""
        ours, theirs = ([*program.terms()] for program in self._programs)
        sizes = {size for term in (*ours, *theirs) for size in term.shape}
        return _Means(
            short_sums=any(isinstance(size, int) and 1 < size <= SHORT for size in sizes),
            finite=not any(map(_is_infinite, ours)),
            tanh=any(term.operator.name in _OF_TANH for term in (*ours, *theirs)),
            strict=self._strict,
        )


_OF_TANH = ("tanh", "gelu_tanh")
"""Operators whose meaning has a tanh in it."""


def _is_infinite(term: Term) -> bool:
    """Whether `term` is the literal of an infinity."""
    value = term.parameter("value") if term.operator is LITERAL else 0
    return isinstance(value, float) and math.isinf(value)


@dataclass(frozen=True)
class _Means:
    """What there is about two programs that one attempt or another is made for."""

    short_sums: bool
    """Whether some axis has at most `SHORT` places at all shapes."""
    finite: bool
    """Whether the original has no infinity in it."""
    tanh: bool
    strict: bool
    """Whether a candidate has to be undefined where the original is."""


class _ComparedValues:
    """The comparison of two values that `read` gives in an algebra."""

    def __init__(self, read: ValuePair, values: Mapping[str, int], means: _Means) -> None:
        self._pair = read
        self._values = values
        self._means = means
        self._unrolled = 1
        self._exponentials = False

    def obstacle(self) -> str:
        """The obstacle to a proof; empty where there is a proof."""
        try:
            obstacle = self._attempt()
        except Unprovable as error:
            obstacle = str(error)
        # Writing out x[0]+x[1]+x[2] loses the symbolic form that longer sums need, and exponentials
        # are longer than a tanh, so they come second.
        for unrolled, exponentials in self._other_readings():
            self._unrolled, self._exponentials = unrolled, exponentials
            try:
                # The first obstacle is the one in the reader's terms: it names sums, not their
                # written-out places.
                if obstacle and not self._attempt():
                    return ""
            except Unprovable:
                continue
        return obstacle

    def _other_readings(self) -> Iterator[tuple[int, bool]]:
        """How many places of sums are written out, and whether tanh is."""
        if self._means.short_sums:
            yield SHORT, False
        if self._means.tanh:
            yield 1, True

    def _attempt(self) -> str:
        """Compares all cases of an element; returns the first obstacle."""
        ours, theirs = self._read()
        if ours.shape != theirs.shape:
            return f"shapes {list(ours.shape)} and {list(theirs.shape)}"
        # No element, nothing to compare.
        if any(size == 0 for size in ours.shape):
            return ""
        free = [Var(size) for size in ours.shape]
        work = [(tuple(IndexSum.of(var) for var in free), tuple(free))]
        # Each split replaces a variable by smaller ones; the limit also ends a split that recurs.
        for _ in range(CASES):
            if not work:
                return ""
            indices, vars_ = work.pop()
            try:
                obstacle = self._case(ours, theirs, indices, vars_)
                if obstacle:
                    return obstacle
            except SplitNeeded as split:
                work.append(digits(indices, vars_, split))
            except CasesNeeded as cases:
                work += ranges(indices, vars_, cases)
        return "too many cases"

    def _read(self) -> tuple[IndexedTensor, IndexedTensor]:
        """Both values as functions of indices, by `ElementAlgebra`."""
        return self._pair(
            ElementAlgebra(
                self._values,
                self._unrolled,
                finite=self._means.finite,
                exponentials=self._exponentials,
                strict=self._means.strict,
            )
        )

    def _case(
        self,
        ours: IndexedTensor,
        theirs: IndexedTensor,
        indices: Sequence[IndexSum],
        free: Sequence[Var],
    ) -> str:
        """Compares one element; then once more under the signs that the original needs."""
        first = ours.at(indices)
        obstacle = _elements(first, theirs.at(indices), free)
        needed = _signs(first.sure) if obstacle else frozenset()
        if not needed:
            return obstacle
        # Read once more: if the original takes √x, then x >= 0 wherever it is defined, and the
        # candidate may be simplified by that.
        with assuming(needed):
            again_ours, again_theirs = self._read()
            again = _elements(again_ours.at(indices), again_theirs.at(indices), free, first.sure)
        return obstacle if again else ""


def _signs(conditions: Conditions) -> frozenset[str]:
    """Keys of the bases that cannot be negative where `conditions` hold."""
    bases: set[str] = set()
    for need, poly in conditions.by_key.values():
        if need is Need.NONNEGATIVE and len(poly.terms) == 1:
            term = poly.terms[0]
            if term.number > 0 and len(term.factors) == 1 and term.factors[0][1] == 1:
                bases.add(term.factors[0][0].key({}))
    return frozenset(bases)


def _elements(
    ours: Scalar, theirs: Scalar, free: Sequence[Var], assumed: Conditions = NOTHING
) -> str:
    """The obstacle to equality of two elements, or of their conditions; empty if there is none."""
    facts = ours.sure.and_(assumed)
    if not equal_reals(ours.poly, theirs.poly, facts):
        names = {var: f"i{number}" for number, var in enumerate(free)}
        return f"{_short(ours.poly, names)} is not seen to be {_short(theirs.poly, names)}"
    unmet = _unmet(facts, theirs.demands, free)
    return f"the second needs {unmet}, which the first does not" if unmet else ""


def equal(a: Poly, b: Poly) -> bool:
    """Whether two expressions are equal wherever both are defined.

    False also where that is not seen.
    """
    if a.key({}) == b.key({}):
        return True
    difference = minus(a, b)
    for _ in range(CLEARINGS):
        if not difference.terms:
            return True
        below = _denominator(difference)
        if below is None:
            return False
        fire(Rule.COMMON_DENOMINATOR)
        difference = cleared(difference, *below)
    return not difference.terms


def equal_reals(a: Poly, b: Poly, facts: Conditions) -> bool:
    """Whether `equal` holds, or z3 proves it where maxima, signs and choices are met."""
    if equal(a, b):
        return True
    # Importing z3 takes longer than most proofs; it is asked only about what normal forms leave
    # opaque.
    if not z3_reals.worth_asking(a, b) or not z3_reals.same(a, b, facts):
        return False
    fire(Rule.Z3)
    return True


def _denominator(a: Poly) -> tuple[SumBase, int] | None:
    """A sum that divides some summand of `a`, and its highest power there."""
    for term in a.terms:
        for base, power in term.factors:
            if isinstance(base, SumBase) and power < 0 and not base.vars.intersection(term.bound):
                # The highest negative power: one multiplication clears the denominator from all
                # summands.
                key = base.key({})
                most = max(
                    -exponent
                    for summand in a.terms
                    for factor, exponent in summand.factors
                    if exponent < 0 and factor.key({}) == key
                )
                return base, -int(-most // 1)
    return None


def cleared(a: Poly, base: SumBase, power: int) -> Poly:
    """Multiplies by a power of a sum, so that it divides no summand any more."""
    # Terms that hold the base have its power reduced, which keeps it whole; others are multiplied
    # by the sum, distributed.
    divided, spread = of_base(base, Fraction(power)), raised(base.poly, Fraction(power))
    key = base.key({})
    terms: list[Monomial] = []
    for term in a.terms:
        below = any(factor.key({}) == key for factor, _ in term.factors)
        terms += multiply(Poly((term,)), divided if below else spread).terms
    return collect(terms)


def _unmet(sure: Conditions, demands: Conditions, free: Sequence[Var]) -> str:
    """A demand of the candidate that is not granted, as text.

    One on a range follows from its parts.
    """
    names = {var: f"i{number}" for number, var in enumerate(free)}
    for need in Need:
        ours, theirs = (
            [fused(_for_all(p, free)) for kind, p in conditions.by_key.values() if kind is need]
            for conditions in (sure, demands)
        )
        # Conditions may be stated in digits by one program and in ranges by the other: fused and
        # joined, they meet.
        granted = {fused(term).key({}) for term in (*ours, *joined(ours))}
        for term in joined([term for term in theirs if term.key({}) not in granted]):
            if fused(term).key({}) not in granted:
                return f"{_short(Poly((term,)), names)} {need}"
    return ""


def _for_all(poly: Poly, free: Sequence[Var]) -> Monomial:
    """A condition on all values of its bound variables, written as a sum to get a sum's key."""
    forall = [var for var in poly.vars if var not in free]
    return Monomial(ONE, (), ((SumBase(poly), ONE),), None, forall)


def _short(a: Poly, names: Names, limit: int = 160) -> str:
    """The text of a normal form, cut at `limit` characters."""
    text = a.key(names)
    return text if len(text) <= limit else f"{text[:limit]}…"
