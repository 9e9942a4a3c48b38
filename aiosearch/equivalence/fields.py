"""Programs over a random prime field: equal programs agree, others disagree but by a small chance.

Both programs are evaluated at the same independent uniform elements, exactly. Programs that are
equal, as functions wherever both are defined, for a reason that the values know (arithmetic,
exponentials as a group ring, roots by their squares) always agree.

Agreement is that of functions: divisors that are zero at single points are left out of account,
which floats have to look after. Programs are not accepted that may be undefined in whole regions
where the original is defined (`finite_field.definedness`).

The bound. Where programs differ, agreement needs two different things to be taken for equal: two
elements that are compared, or on the way there two exponents, radicands or arguments. Each such
pair is a polynomial in the inputs that is not zero, of degree at most `degree`, and at a random
point it vanishes with a chance of at most `degree / prime` (Schwartz and Zippel). Its coefficients
are integers of at most `bits` bits; a random prime divides one with a chance below `bits / 2**126`.
The pairs are counted as they are met: up to the first mistake, if there is one, the evaluation is
that of the exact functions, so that the mistake is among them. Recognising a small constant adds
its share. A draw in which a divisor is zero is drawn again, at most `ATTEMPTS` times in all, any of
which may go wrong. The bound of several draws is the product of theirs.

Example: (x + y)² and x² + 2xy + y² agree in every draw. (x + y)² and x² + y² agree only where 2xy =
0, a polynomial of degree 2: at most 2 in 2^126 draws.

The bound belongs to the shapes that were compared, and says nothing of others. See
docs/why/verdicts.md.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from ..documents import Document
from ..tensor.analysis.abstract_interpretation import sizes
from ..tensor.errors import ShapeError
from ..tensor.evaluation import evaluate
from ..tensor.terms import Program, Term
from ..tensor.types import DType
from .finite_field import random_primes as drawn
from .finite_field.array_algebra import Array, Fields, array
from .finite_field.definedness import PARTIAL, domains
from .finite_field.degree_bounds import Degrees, degree_bounds
from .finite_field.extension_field import ExponentialSum, ExtensionField, FieldObstacle, Value

ATTEMPTS = 4
"""How often a draw is made before a zero divisor counts as the program's own."""

_ROOTS = "roots, of which a product may be a rational function"
"""The doubt that remains where `_independent` fails."""
_EXTRA = 6
"""Draws made beyond those asked for, to show that roots are no rational functions."""

Place: TypeAlias = tuple[int, tuple[int, ...]]
"""An output and an index into it."""


@dataclass(frozen=True, slots=True)
class FieldEvidence:
    """The evidence of `compare_fields`: how two programs fared in random fields."""

    outcome: str
    """`agree`; `differ`, as formal functions; or `unknown`, for the `reason` given."""
    seed: int
    draws: int
    redrawn: int
    """Draws that were repeated because a divisor was zero."""
    bound: float
    """The chance that different programs agree in all `draws`; 1 where they did not agree."""
    degree: float
    """At least the degree of every polynomial that was compared with zero."""
    functions: tuple[str, ...]
    """Functions met beyond arithmetic and exponentials, such as `sqrt`."""
    reason: str = ""
    output: int | None = None
    """The first output that differs."""
    index: tuple[int, ...] | None = None
    """The index at which `output` differs first."""

    def __str__(self) -> str:
        if self.outcome == "agree":
            chance = f"different programs would agree with probability {self.bound:.1e} at most"
            return f"agree in {self.draws} draws of seed {self.seed}; {chance}"
        place = "" if self.index is None else f" in output {self.output} at {list(self.index)}"
        why = f": {self.reason}" if self.reason else ""
        return f"{self.outcome}{place}{why}"

    def to_dict(self) -> Document:
        """The evidence for JSON, without what is empty."""
        attributes = dataclasses.asdict(self)
        return {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in attributes.items()
            if value not in ("", None)
        }


@dataclass(frozen=True, slots=True)
class _FieldDraw:
    """One draw: the algebra with what it met, and the first difference."""

    algebra: Fields
    redrawn: int
    difference: _Difference | None


@dataclass(frozen=True, slots=True)
class _Difference:
    """Two elements that differ, and what is formal in their difference."""

    place: Place
    doubts: frozenset[str]
    """Why the functions might be equal nevertheless; see `ExtensionField.doubts`."""
    roots: frozenset[int]
    odd: frozenset[int]
    """The subset of `roots` whose radicands are no squares in the field of this draw."""


def compare_fields(
    a: Program,
    b: Program,
    *,
    seed: int,
    draws: int = 2,
    prime: int | None = None,
    until: float = math.inf,
    strict: bool = False,
) -> FieldEvidence:
    """Compares two programs of equal inputs, of which `a` is the original.

    Without a `prime`, each draw has its own. What is not done when the monotonic clock has passed
    `until` is `unknown`. Where the original writes NaN, as jax does for what is outside of an
    array, nothing is asked of `b`, unless `strict`. Raises ShapeError where inputs or outputs do
    not match.
    """
    _demand_same_shapes("input", a.inputs, b.inputs)
    _demand_same_shapes("output", a.outputs, b.outputs)
    finished: list[_FieldDraw] = []
    try:
        # More draws than asked for are made only where a difference with roots needs a proof.
        while len(finished) < draws or _undecided(finished, draws):
            finished.append(_draw(a, b, seed, len(finished), prime, until, strict))
            if _settled(finished):
                break
    except FieldObstacle as obstacle:
        return FieldEvidence("unknown", seed, len(finished), 0, 1.0, 0.0, (), str(obstacle))
    return _evidence(a, b, finished, seed, prime)


def _differences(finished: Sequence[_FieldDraw]) -> list[_Difference]:
    """The differences of all draws that have one."""
    return [draw.difference for draw in finished if draw.difference is not None]


def _settled(finished: Sequence[_FieldDraw]) -> bool:
    """Whether no further draw will say more of how the programs differ."""
    differences = _differences(finished)
    return bool(differences) and (bool(differences[0].doubts) or _independent(differences))


def _undecided(finished: Sequence[_FieldDraw], draws: int) -> bool:
    """Whether a difference may still be explained by roots, and draws are left to decide it."""
    return bool(_differences(finished)) and len(finished) < draws + _EXTRA


def _independent(differences: Sequence[_Difference]) -> bool:
    """Whether no product of the roots in a difference is a rational function.

    Then a sum with these roots as summands is not zero. A product is no rational function if, in
    some draw, an odd number of its radicands are no squares: so the draws have to tell all products
    apart from one. With radicands x and y, draws with (square, no square) and (no square, square)
    show that √x, √y and √(xy) are all irrational.
    """
    roots = sorted(differences[0].roots)
    rows = [
        sum(1 << bit for bit, root in enumerate(roots) if root in difference.odd)
        for difference in differences
        if difference.roots == differences[0].roots
    ]
    # Rows of non-squares over GF(2): full rank means that every product of roots has an odd number
    # of non-squares in some draw. Elimination on bit masks.
    rank = 0
    for bit in range(len(roots)):
        pivot = next((row for row in rows if row >> bit & 1), None)
        if pivot is None:
            return False
        rank += 1
        rows = [row ^ pivot if row >> bit & 1 else row for row in rows]
    return rank == len(roots)


def _evidence(
    a: Program, b: Program, finished: Sequence[_FieldDraw], seed: int, prime: int | None
) -> FieldEvidence:
    """Sums up the draws: outcome, bound, and the first difference."""
    algebras = [draw.algebra for draw in finished]
    functions = tuple(sorted(set[str]().union(*(algebra.scalars.met for algebra in algebras))))
    limits = degree_bounds(
        a,
        b,
        widest=max((algebra.field.widest for algebra in algebras), default=1),
        released=max((algebra.scalars.released for algebra in algebras), default=0),
    )
    differences = _differences(finished)
    outcome, bound, output, index = "agree", 1.0, None, None
    if differences:
        doubts = differences[0].doubts or (frozenset() if _independent(differences) else {_ROOTS})
        outcome = "unknown" if doubts else "differ"
        output, index = differences[0].place
    elif doubts := _undefined(a, b, algebras):
        outcome = "unknown"
    else:
        # Draws are independent: each has its own prime and elements.
        bound = math.prod(_chance(limits, algebra, prime) for algebra in algebras)
    reason = "; ".join(sorted(doubts))
    redrawn = sum(draw.redrawn for draw in finished)
    return FieldEvidence(
        outcome,
        seed,
        len(finished),
        redrawn,
        bound,
        limits.degree,
        functions,
        reason,
        output,
        index,
    )


def _undefined(a: Program, b: Program, algebras: Sequence[Fields]) -> frozenset[str]:
    """Why programs that agree may yet be defined in different regions."""
    # Arithmetic and exponentials alone are defined everywhere but at zero divisors.
    if not any(algebra.scalars.met or algebra.scalars.decided for algebra in algebras):
        return frozenset()
    added = set[str]().union(*(algebra.scalars.added for algebra in algebras))
    ours, theirs = domains(a), domains(b)
    reasons = {
        f"{name} of what the original takes none of"
        for name in added
        if name in theirs.partial or name not in PARTIAL
    }
    for number, (our, their) in enumerate(zip(ours.outputs, theirs.outputs, strict=True)):
        if their and not our and ours.partial:
            reasons.add(f"output {number} may be undefined where that of the original is defined")
    if any(algebra.scalars.decided for algebra in algebras) and (
        ours.swallowed or theirs.swallowed
    ):
        reasons.add("a comparison of what may be undefined")
    return frozenset(reasons)


def _chance(limits: Degrees, algebra: Fields, prime: int | None) -> float:
    """The chance that one draw shows agreement of programs that differ."""
    field, constants = algebra.field, algebra.scalars.constants
    # With a prime that the caller chose, there is no chance over primes: the bound is for that
    # field.
    bits = limits.bits if prime is None else 0.0
    # One union bound: each counted pair fails with at most (degree + bits) / 2^126.
    pairs = field.compared * (limits.degree + bits) / (prime or 2 ** (drawn.PRIME_BITS - 1))
    # A uniform element is within `limit` of 0 or p with this chance, for each that was tested.
    guesses = constants.guesses * 2 * constants.limit / field.prime
    return min(1.0, ATTEMPTS * (pairs + guesses))


def _draw(
    a: Program,
    b: Program,
    seed: int,
    number: int,
    prime: int | None,
    until: float,
    strict: bool,
) -> _FieldDraw:
    """One draw, repeated while a divisor is zero; raises `FieldObstacle` after `ATTEMPTS`."""
    modulus = drawn.prime(seed, number) if prime is None else prime
    for attempt in range(ATTEMPTS):
        name = repr((seed, number, attempt)).encode()
        algebra = Fields(ExtensionField(modulus, name, until=until), strict)
        if any(term.dtype is DType.BOOL for term in a.inputs):
            algebra.field.doubts.add("inputs that are true or false")
        words: Any = algebra
        inputs = [
            _random(term, algebra.field.prime, name, index) for index, term in enumerate(a.inputs)
        ]
        try:
            left = evaluate(a, words, inputs)
            # From here on, roots of products may be joined, as the original took both.
            algebra.scalars.trust()
            right = evaluate(b, words, inputs)
            difference = _first_difference(algebra.field, left, right)
        # A divisor that is not the zero function vanishes at a random point with a chance of degree
        # / prime; one that is vanishes in all attempts.
        except ZeroDivisionError:
            continue
        return _FieldDraw(algebra, attempt, difference)
    raise FieldObstacle(f"division by zero: a divisor is zero in {ATTEMPTS} draws of {ATTEMPTS}")


def _random(term: Term, prime: int, name: bytes, index: int) -> Array:
    """Random field elements for an input."""
    shape = sizes(term)
    values = drawn.elements(prime, math.prod(shape), "input", name, index)
    return array(values).reshape(shape)


def _first_difference(
    field: ExtensionField, left: Sequence[Array], right: Sequence[Array]
) -> _Difference | None:
    """The first element, in row-major order, at which `left` and `right` differ."""
    for output, (x, y) in enumerate(zip(left, right, strict=True)):
        for at, (ours, theirs) in enumerate(zip(x.flat, y.flat, strict=True)):
            if not field.equal(ours, theirs):
                index = tuple(int(n) for n in np.unravel_index(at, x.shape))
                return _difference(field, (output, index), ours - theirs)
    return None


def _difference(field: ExtensionField, place: Place, value: Value) -> _Difference:
    """The roots and doubts in `value`, the difference at `place`."""
    # A shadow exists only without roots, so the difference is not zero for certain.
    if field.shadow(value) is not None:
        return _Difference(place, frozenset(field.doubts), frozenset(), frozenset())
    if isinstance(value, ExponentialSum) and value.inverses:
        value, _ = value.cleared()
    terms = value.terms if isinstance(value, ExponentialSum) else {}
    roots = {g for _, generators in terms for g in generators if g in field.squares}
    # Euler's criterion: u^((p-1)/2) is 1 exactly for squares.
    half = (field.prime - 1) // 2
    odd = {root for root in roots if pow(field.squares[root], half, field.prime) != 1}
    return _Difference(place, frozenset(field.doubts), frozenset(roots), frozenset(odd))


def _demand_same_shapes(what: str, ours: Sequence[Term], theirs: Sequence[Term]) -> None:
    """Raises ShapeError where the inputs or outputs of two programs do not match."""
    if len(ours) != len(theirs):
        raise ShapeError(f"programs of {len(ours)} and {len(theirs)} {what}s")
    for index, (left, right) in enumerate(zip(ours, theirs, strict=True)):
        if left.shape != right.shape:
            raise ShapeError(
                f"{what} {index} is {left.type} in one program, {right.type} in another"
            )
