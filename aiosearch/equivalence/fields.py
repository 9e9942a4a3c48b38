"""Programs over a random prime field: equal programs agree, others disagree but by a small chance.

Both programs are evaluated at the same independent uniform elements, exactly. Programs that are
equal, as functions wherever both are defined, for a reason that the values know (arithmetic,
exponentials as a group ring, roots by their squares) always agree.

Agreement is that of functions: divisors that are zero at single points are left out of account,
which floats have to look after. Programs are not accepted that may be undefined in whole regions
where the original is defined.

The bound. Where programs differ, agreement needs two different things to be taken for one: two
elements that are compared, or on the way there two exponents, radicands or arguments. Each such
pair is a polynomial in the inputs that is not zero, of degree at most `degree`, and at a random
point it vanishes with a chance of at most `degree / prime` (Schwartz and Zippel). Its coefficients
are integers of at most `bits` bits; a random prime divides one with a chance below `bits / 2**126`.
The pairs are counted as they are met: up to the first mistake, if there is one, the evaluation is
that of the exact functions, so that the mistake is among them. Recognising a small constant adds
its share. A draw in which a divisor is zero is drawn again, at most `ATTEMPTS` times in all, any
of which may go wrong. The bound of several draws is the product of theirs.

The bound belongs to the shapes that were compared: it says nothing of others.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from ..tensor.errors import ShapeError
from ..tensor.evaluation.evaluate import evaluate
from ..tensor.terms import Program, Term
from ..tensor.types import DType
from .abstract_interpretation import sizes
from .finite_field import random_primes as drawn
from .finite_field.array_algebra import Array, Fields, array
from .finite_field.definedness import PARTIAL, domains
from .finite_field.degree_bounds import Degrees, degree_bounds
from .finite_field.extension_field import ExponentialSum, ExtensionField, FieldObstacle, Value

ATTEMPTS = 4
"""How often a draw is made before a zero divisor counts as the program's."""

_ROOTS = "roots, of which a product may be a rational function"
_EXTRA = 6
"""Draws made beyond those asked for, to show that roots are no rational functions."""

Place: TypeAlias = tuple[int, tuple[int, ...]]
"""An output and an index of it."""


@dataclass(frozen=True, slots=True)
class FieldEvidence:
    """What comparing two programs in fields has shown."""

    outcome: str
    """`agree`; `differ`, as formal functions; or `unknown`, for the reason given."""
    seed: int
    draws: int
    redrawn: int
    bound: float
    """The chance that different programs agree in all these draws; 1 where they did not agree."""
    degree: float
    """At least the degree of every polynomial that was compared with zero."""
    functions: tuple[str, ...]
    """What was met that is more than arithmetic and exponentials."""
    reason: str = ""
    output: int | None = None
    """The first output that differs."""
    index: tuple[int, ...] | None = None
    """Where it differs first."""

    def __str__(self) -> str:
        if self.outcome == "agree":
            chance = f"different programs would agree with probability {self.bound:.1e} at most"
            return f"agree in {self.draws} draws of seed {self.seed}; {chance}"
        place = "" if self.index is None else f" in output {self.output} at {list(self.index)}"
        why = f": {self.reason}" if self.reason else ""
        return f"{self.outcome}{place}{why}"

    def to_dict(self) -> dict[str, Any]:
        found = dataclasses.asdict(self)
        return {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in found.items()
            if value not in ("", None)
        }


@dataclass(frozen=True, slots=True)
class _FieldDraw:
    algebra: Fields
    redrawn: int
    difference: _Difference | None


@dataclass(frozen=True, slots=True)
class _Difference:
    """Two elements that differ, and what is formal in it."""

    place: Place
    doubts: frozenset[str]
    """Why the functions might be equal nevertheless."""
    roots: frozenset[int]
    odd: frozenset[int]
    """Those of the roots whose radicands are no squares in the field."""


def compare_fields(
    a: Program, b: Program, *, seed: int, draws: int = 2, prime: int | None = None
) -> FieldEvidence:
    """Compares two programs of equal inputs, of which `a` is the original.

    Without a prime, each draw has its own. Raises ShapeError where inputs or outputs do not match.
    """
    _demand_same_shapes("input", a.inputs, b.inputs)
    _demand_same_shapes("output", a.outputs, b.outputs)
    made: list[_FieldDraw] = []
    try:
        while len(made) < draws or _undecided(made, draws):
            made.append(_draw(a, b, seed, len(made), prime))
            if _settled(made):
                break
    except FieldObstacle as obstacle:
        return FieldEvidence("unknown", seed, len(made), 0, 1.0, 0.0, (), str(obstacle))
    return _evidence(a, b, made, seed, prime)


def _differences(made: Sequence[_FieldDraw]) -> list[_Difference]:
    return [draw.difference for draw in made if draw.difference is not None]


def _settled(made: Sequence[_FieldDraw]) -> bool:
    """Whether no further draw will say more of how the programs differ."""
    found = _differences(made)
    return bool(found) and (bool(found[0].doubts) or _independent(found))


def _undecided(made: Sequence[_FieldDraw], draws: int) -> bool:
    return bool(_differences(made)) and len(made) < draws + _EXTRA


def _independent(found: Sequence[_Difference]) -> bool:
    """Whether no product of the roots in a difference is a rational function.

    Then what has them as summands is not zero. A product is none where, in some draw, an odd number
    of its radicands are no squares: so the draws have to tell all products apart from one.
    """
    roots = sorted(found[0].roots)
    rows = [
        sum(1 << bit for bit, root in enumerate(roots) if root in difference.odd)
        for difference in found
        if difference.roots == found[0].roots
    ]
    rank = 0
    for bit in range(len(roots)):
        pivot = next((row for row in rows if row >> bit & 1), None)
        if pivot is None:
            return False
        rank += 1
        rows = [row ^ pivot if row >> bit & 1 else row for row in rows]
    return rank == len(roots)


def _evidence(
    a: Program, b: Program, made: Sequence[_FieldDraw], seed: int, prime: int | None
) -> FieldEvidence:
    algebras = [draw.algebra for draw in made]
    functions = tuple(sorted(set[str]().union(*(own.scalars.met for own in algebras))))
    limits = degree_bounds(
        a,
        b,
        widest=max((own.field.widest for own in algebras), default=1),
        released=max((own.scalars.released for own in algebras), default=0),
    )
    found = _differences(made)
    outcome, bound, output, index = "agree", 1.0, None, None
    if found:
        doubts = found[0].doubts or (frozenset() if _independent(found) else {_ROOTS})
        outcome = "unknown" if doubts else "differ"
        output, index = found[0].place
    elif doubts := _undefined(a, b, algebras):
        outcome = "unknown"
    else:
        bound = math.prod(_chance(limits, own, prime) for own in algebras)
    reason = "; ".join(sorted(doubts))
    redrawn = sum(draw.redrawn for draw in made)
    return FieldEvidence(
        outcome,
        seed,
        len(made),
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
    if not any(own.scalars.met or own.scalars.decided for own in algebras):
        return frozenset()
    added = set[str]().union(*(own.scalars.added for own in algebras))
    ours, theirs = domains(a), domains(b)
    found = {
        f"{name} of what the original takes none of"
        for name in added
        if name in theirs.partial or name not in PARTIAL
    }
    for number, (our, their) in enumerate(zip(ours.outputs, theirs.outputs, strict=True)):
        if their and not our and ours.partial:
            found.add(f"output {number} may be undefined where that of the original is defined")
    if any(own.scalars.decided for own in algebras) and (ours.swallowed or theirs.swallowed):
        found.add("a comparison of what may be undefined")
    return frozenset(found)


def _chance(limits: Degrees, algebra: Fields, prime: int | None) -> float:
    """Of agreement in one draw by programs that differ."""
    field, constants = algebra.field, algebra.scalars.constants
    bits = limits.bits if prime is None else 0.0
    pairs = field.compared * (limits.degree + bits) / (prime or 2 ** (drawn.PRIME_BITS - 1))
    guesses = constants.guesses * 2 * constants.limit / field.prime
    return min(1.0, ATTEMPTS * (pairs + guesses))


def _draw(a: Program, b: Program, seed: int, number: int, prime: int | None) -> _FieldDraw:
    """One draw, made again while a divisor is zero."""
    modulus = drawn.prime(seed, number) if prime is None else prime
    for attempt in range(ATTEMPTS):
        name = repr((seed, number, attempt)).encode()
        algebra = Fields(ExtensionField(modulus, name))
        if any(term.dtype is DType.BOOL for term in a.inputs):
            algebra.field.doubts.add("inputs that are true or false")
        words: Any = algebra
        inputs = [
            _random(term, algebra.field.prime, name, index) for index, term in enumerate(a.inputs)
        ]
        try:
            left = evaluate(a, words, inputs)
            algebra.scalars.trust()
            right = evaluate(b, words, inputs)
            difference = _first_difference(algebra.field, left, right)
        except ZeroDivisionError:
            continue
        return _FieldDraw(algebra, attempt, difference)
    raise FieldObstacle(f"division by zero: a divisor is zero in {ATTEMPTS} draws of {ATTEMPTS}")


def _random(term: Term, prime: int, name: bytes, index: int) -> Array:
    shape = sizes(term)
    values = drawn.elements(prime, math.prod(shape), "input", name, index)
    return array(values).reshape(shape)


def _first_difference(
    field: ExtensionField, left: Sequence[Array], right: Sequence[Array]
) -> _Difference | None:
    for output, (x, y) in enumerate(zip(left, right, strict=True)):
        for at, (one, other) in enumerate(zip(x.flat, y.flat, strict=True)):
            if not field.equal(one, other):
                index = tuple(int(n) for n in np.unravel_index(at, x.shape))
                return _difference(field, (output, index), one - other)
    return None


def _difference(field: ExtensionField, place: Place, value: Value) -> _Difference:
    if field.shadow(value) is not None:
        return _Difference(place, frozenset(field.doubts), frozenset(), frozenset())
    if isinstance(value, ExponentialSum) and value.inverses:
        value, _ = value.cleared()
    terms = value.terms if isinstance(value, ExponentialSum) else {}
    roots = {g for _, generators in terms for g in generators if g in field.squares}
    half = (field.prime - 1) // 2
    odd = {root for root in roots if pow(field.squares[root], half, field.prime) != 1}
    return _Difference(place, frozenset(field.doubts), frozenset(roots), frozenset(odd))


def _demand_same_shapes(what: str, one: Sequence[Term], other: Sequence[Term]) -> None:
    if len(one) != len(other):
        raise ShapeError(f"programs of {len(one)} and {len(other)} {what}s")
    for index, (left, right) in enumerate(zip(one, other, strict=True)):
        if left.shape != right.shape:
            raise ShapeError(
                f"{what} {index} is {left.type} in one program, {right.type} in another"
            )
