"""Cut points: a large proof as many small ones, of the places where two programs differ.

Problem: the normal form of a gradient is exponentially larger than its program, as every value that
is used twice is expanded twice. Most of a rewritten program is the original, though.

Method, as in equivalence checking of circuits (SAT sweeping): both programs are evaluated on random
numbers at a small shape. From the inputs on, each value of the candidate that comes out as a value
of the original, but for axes of size one, is proved to be that value; it is *merged* with it, and
what is computed from merged values by the same operators is one value without any proof. A proof of
two values reads them down to the values that they share, the cut, of which it knows nothing but
their sign, and where they are defined; where that is too little, the cut is made further down
(`DEPTHS`).

Example: `a = exp(f(x)·y + f(x)·z)` and `b = exp(f(x)·(y + z))` share f(x), whatever it is. With the
new variable u for f(x), u·y + u·z and u·(y + z) are proved to be one; the two exponentials are one
then, by congruence.

Invariant: what is merged is equal wherever the original is defined, and the candidate is defined
there. So that this is said of cuts too, a cut that may be undefined or infinite has that as a
condition (`ElementAlgebra.cut`). Random numbers only suggest; every merge is proved. Cost: of each
value of the candidate that the original does not have at most `PAIRS` proofs at each of `DEPTHS`,
with `STEPS_EACH` steps.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import chain, islice
from typing import Any, TypeAlias

import numpy as np

from ...tensor.algebra import Function
from ...tensor.analysis.abstract_interpretation import sizes
from ...tensor.analysis.generalise import Generalised
from ...tensor.errors import TensorError
from ...tensor.evaluation import evaluate, step
from ...tensor.floats import Array, Floats
from ...tensor.sizes import Dim
from ...tensor.terms import INPUT, Program, Term, apply, walk
from ...tensor.types import DType, Place
from ..finite_field.definedness import Domains, Sign, ValueRange
from ..inputs.distributions import draw_inputs
from .elements import CutValue, ElementAlgebra, IndexedTensor
from .indices import Unprovable
from .work import ProofWork

DEPTHS = (0, 1, 2, 4)
"""How many operators below the first shared values the cut is made, in turn."""
PAIRS = 2
"""Values of the original that one value of the candidate is compared with, at most."""
STEPS_EACH = 4_000
"""The steps of one proof of two values."""
FAILURES = 16
"""Pairs in succession that are not proved, after which no further one is tried."""
MOST_ELEMENTS = 1 << 25
"""Of all values together, at the smallest shape of a program: they are held in memory at once."""
DRAWS = ("positive", "normal")
"""The distributions on which values are compared; at most of what is drawn they are finite."""
_NEAR = 1e-8
"""The relative difference of float64 values that may be one value."""

ValuePair: TypeAlias = Callable[[ElementAlgebra], tuple[IndexedTensor, IndexedTensor]]
"""Reads two values in an algebra."""
Kind: TypeAlias = "tuple[DType | Dim | None, ...]"
"""The type of a value, and its sizes other than one."""


class CutPoints:
    """The values of two programs at named sizes, and which of the second are of the first."""

    def __init__(self, a: Program, b: Program, values: Mapping[str, int]) -> None:
        self._programs = a, b
        self._values = values
        self._merged: dict[Term, Term] = dict(zip(b.inputs, a.inputs, strict=True))
        ours, theirs = _outside_of_kernels(a), _outside_of_kernels(b)
        self._ours = ours
        self._theirs = [term for term in theirs if term not in set(ours)]
        self._facts = _Facts(a, [*ours, *self._theirs], len(ours), values)
        self._congruent: dict[tuple[object, ...], Term] = {}
        for term in ours:
            self._congruent.setdefault(self._signature(term), term)

    def merge(self, work: ProofWork, proved: Callable[[ValuePair], bool]) -> None:
        """Merges values of the second program, from its inputs on, with what `work` is left.

        `proved` says whether two values are equal.
        """
        outputs = dict(zip(self._programs[1].outputs, self._programs[0].outputs, strict=True))
        credit = FAILURES
        for term in self._theirs:
            congruent = self._congruent.get(self._signature(term))
            candidates = () if congruent else self._candidates(term, outputs.get(term))
            for candidate in candidates:
                if self._equal(candidate, term, work, proved):
                    congruent, credit = candidate, FAILURES
                    break
                credit -= 1
            # What is computed from a value that is not proved is not proved either, but by chance.
            if not credit or not work.left:
                return
            if congruent is not None:
                self._merged[term] = congruent
            else:
                self._congruent[self._signature(term)] = term

    def is_merged(self, number: int) -> bool:
        """Whether output `number` of both programs is one value."""
        ours, theirs = (program.outputs[number] for program in self._programs)
        return self._class(ours) is self._class(theirs)

    def _class(self, term: Term) -> Term:
        """The value of the original that `term` is, or itself."""
        return self._merged.get(term, term)

    def _signature(self, term: Term) -> tuple[object, ...]:
        """Equal for terms that apply one operator to the same values."""
        operands = [id(self._class(argument)) for argument in term.arguments]
        if term.operator.commutative:
            operands.sort()
        return term.operator.name, term.parameters, term.type, *operands

    def _candidates(self, term: Term, output: Term | None) -> Iterator[Term]:
        """Values of the original that `term` may be: that at its place, and those near to it."""
        first = () if output is None or output.type != term.type else (output,)
        near = dict.fromkeys(chain(first, self._facts.near(term)))
        for candidate in islice(near, PAIRS):
            same_type = self._facts.reshaped(candidate, term)
            if same_type is not None:
                yield same_type

    def _equal(
        self,
        ours: Term,
        theirs: Term,
        work: ProofWork,
        proved: Callable[[ValuePair], bool],
    ) -> bool:
        cut: list[Term] | None = None
        for depth in DEPTHS:
            before, cut = cut, self._cut(ours, theirs, depth)
            # No deeper cut than before: the proof would be the same.
            if cut == before:
                return False
            pair = _Reading(self, ours, theirs, cut)
            with work.part(STEPS_EACH):
                equal = proved(pair)
            if equal or not work.left:
                return equal
        return False

    def _cut(self, ours: Term, theirs: Term, depth: int) -> list[Term]:
        """The values that both are computed from, `depth` operators below the first such values."""
        shared = set(self._below(ours)).intersection(self._below(theirs))
        cut = [
            term
            for term in dict.fromkeys((*self._below(ours, shared), *self._below(theirs, shared)))
            if term in shared
        ]
        for _ in range(depth):
            # An input or a kernel's result stays; nothing is below it that could be a cut.
            cut = list(dict.fromkeys(below for term in cut for below in self._operands(term)))
        whole = dict.fromkeys(map(self._facts.unreshaped, cut))
        return [term for term in whole if self._facts.may_be_cut(term)]

    def _operands(self, term: Term) -> Sequence[Term]:
        operands = [self._class(argument) for argument in term.arguments]
        outside = all(argument.place in _OUTSIDE for argument in term.arguments)
        return operands if operands and outside else [term]

    def _below(self, root: Term, stop: Container[Term] = ()) -> Iterator[Term]:
        """`root` and what it is computed from, operands first, over merged values."""
        seen: set[Term] = set()
        stack = [(root, False)]
        while stack:
            term, ready = stack.pop()
            if term in seen:
                continue
            if ready:
                seen.add(term)
                yield term
                continue
            stack.append((term, True))
            if term not in stop:
                stack.extend((self._class(argument), False) for argument in term.arguments)


@dataclass(frozen=True)
class _Reading:
    """Two values over a cut."""

    points: CutPoints
    ours: Term
    theirs: Term
    cut: Sequence[Term]

    def __call__(self, algebra: ElementAlgebra) -> tuple[IndexedTensor, IndexedTensor]:
        points = self.points
        values: dict[Term, IndexedTensor] = {}
        for number, term in enumerate(self.cut):
            name = f"cut {number}"
            values[term] = algebra.cut(name, term.shape, points._facts.cut_value(term))
        for root in (self.ours, self.theirs):
            for term in points._below(root, values):
                if term in values:
                    continue
                if term.operator is INPUT:
                    values[term] = algebra.input(term.parameter("name"), term.shape)
                else:
                    operands = [values[points._class(argument)] for argument in term.arguments]
                    values[term] = step(term, algebra, operands)
        return values[self.ours], values[self.theirs]


_OUTSIDE = (Place.DEVICE, Place.ANYWHERE)


def _outside_of_kernels(program: Program) -> list[Term]:
    """The values of a program that are no tiles in kernels, operands first."""
    return [term for term in program.terms() if term.place in _OUTSIDE]


class _CutDomains(Domains):
    """Where values may be undefined at all, at single points too, and where infinity comes in."""

    def __init__(self) -> None:
        super().__init__()
        self.infinite = False

    def constant(self, value: Fraction | float) -> ValueRange:
        self.infinite |= not isinstance(value, Fraction)
        return super().constant(value)

    def divide(self, x: ValueRange, y: ValueRange) -> ValueRange:
        return self._demand("a quotient", y.sign is Sign.POSITIVE, super().divide(x, y))

    def function(self, function: Function, *arguments: ValueRange) -> ValueRange:
        range_ = super().function(function, *arguments)
        # A power has no `means`, and is none of a negative number.
        return self._demand("pow", function.name != "pow", range_)


class _Facts:
    """What is known of each value: numbers at a small shape, its sign, where it is defined."""

    def __init__(
        self, a: Program, terms: Sequence[Term], count: int, values: Mapping[str, int]
    ) -> None:
        """The first `count` of `terms` are those of the original."""
        axes = {
            f"{number} {axis}": size
            for number, term in enumerate(a.inputs)
            for axis, size in enumerate(term.shape)
        }
        every = Generalised((Program(a.name, a.inputs, tuple(terms)),), dict(values), axes, {})
        (small,) = every.reduced()
        count_of_elements = sum(math.prod(sizes(term)) for term in small.terms())
        if count_of_elements > MOST_ELEMENTS:
            raise Unprovable(f"its smallest shape has {count_of_elements:,} numbers")
        self._terms = {term: number for number, term in enumerate(terms)}
        self._numbers = [_computed(small, draw) for draw in DRAWS]
        self._projections = [
            sum(_projection(numbers[place]) for numbers in self._numbers)
            for place in range(len(terms))
        ]
        self._ours = terms[:count]
        # By type, in the order of their projections: of thousands of values, few are compared.
        self._sorted: defaultdict[Kind, tuple[list[float], list[int]]] = defaultdict(
            lambda: ([], [])
        )
        for place in sorted(range(count), key=self._projections.__getitem__):
            projections, places = self._sorted[_kind(terms[place])]
            projections.append(self._projections[place])
            places.append(place)
        self._cuts = list(_cut_values(small))
        self._unreshaped: dict[Term, Term] = {}
        self._depending: set[Term] = set()
        for term in walk(terms):
            if term.operator is INPUT or not self._depending.isdisjoint(term.arguments):
                self._depending.add(term)

    def near(self, term: Term) -> Iterator[Term]:
        """The values of the original that have the numbers of `term`, in the order of terms."""
        middle = self._projections[self._terms[term]]
        width = _NEAR * max(1.0, abs(middle))
        projections, places = self._sorted[_kind(term)]
        first = bisect_left(projections, middle - width)
        last = bisect_right(projections, middle + width)
        for place in sorted(places[first:last]):
            if self._are_near(place, self._terms[term]):
                yield self._ours[place]

    def _are_near(self, ours: int, theirs: int) -> bool:
        pairs = [(numbers[ours], numbers[theirs]) for numbers in self._numbers]
        return any(np.isfinite(x).any() for x, _ in pairs) and all(
            x.size == y.size and np.allclose(x.ravel(), y.ravel(), _NEAR, _NEAR, equal_nan=True)
            for x, y in pairs
        )

    def reshaped(self, ours: Term, theirs: Term) -> Term | None:
        """A value of the original in the shape of `theirs`; `None` where it has none."""
        if ours.type == theirs.type:
            return ours
        try:
            term = apply("reshape", ours, shape=theirs.shape)
        except TensorError:
            return None
        self._unreshaped[term] = ours
        return term if term.type == theirs.type else None

    def unreshaped(self, term: Term) -> Term:
        """What a term of `reshaped` was before: as a cut, that is one value in all shapes."""
        return self._unreshaped.get(term, term)

    def may_be_cut(self, term: Term) -> bool:
        """Whether a variable may stand for `term`, which is no input and depends on some."""
        return term in self._depending and term.operator is not INPUT

    def cut_value(self, term: Term) -> CutValue:
        """What a proof may know of `term` where it is a cut."""
        return self._cuts[self._terms[term]]


def _kind(term: Term) -> Kind:
    """What terms have alike that differ at most in axes of size one."""
    return term.dtype, *(size for size in term.shape if size != 1)


def _computed(program: Program, distribution: str) -> list[Array]:
    """The outputs in float64, which may be of no number where inputs are outside of a domain."""
    with np.errstate(all="ignore"):
        inputs = draw_inputs(program, distribution, 0)
        outputs = evaluate(program, Floats(np.float64), inputs)
    return [np.asarray(output, np.float64) for output in outputs]


def _projection(numbers: Array) -> float:
    """A number that is near for arrays that are near, and for few others."""
    finite = np.where(np.isfinite(numbers), numbers, 0.0).ravel()
    # Weights of about one size that no symmetry of a program has.
    return float(finite @ np.cos(np.arange(1, finite.size + 1))) / max(1, finite.size)


def _cut_values(program: Program) -> Iterator[CutValue]:
    """Of each output, in order: its sign, and whether it may be undefined or infinite."""
    algebra = _CutDomains()
    words: Any = algebra
    ranges: dict[Term, ValueRange] = {term: ValueRange(sizes(term)) for term in program.inputs}
    infinite: dict[Term, bool] = {}
    for term in program.terms():
        algebra.infinite = any(infinite[argument] for argument in term.arguments)
        if term not in ranges:
            ranges[term] = step(term, words, [ranges[argument] for argument in term.arguments])
        infinite[term] = algebra.infinite
    for term in program.outputs:
        range_ = ranges[term]
        yield CutValue(
            positive=range_.sign is Sign.POSITIVE,
            nonnegative=range_.sign is not Sign.ANY,
            partial=range_.partial,
            infinite=infinite[term],
        )
