"""Programs over a random prime field: equal programs agree, others disagree but by a small chance.

Both programs are evaluated at the same independent uniform elements, exactly. Programs that are
equal, as functions wherever both are defined, for a reason that the values know (arithmetic,
exponentials as a group ring, roots by their squares) always agree.

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

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from ..tensor.errors import ShapeError
from ..tensor.evaluate import evaluate
from ..tensor.terms import Program, Term
from . import draws as drawn
from .degrees import Degrees, degrees, sizes
from .field_algebra import Array, Fields, Obstacle, array
from .ring import Field, Ring, Value

ATTEMPTS = 4
"""How often a draw is made before a zero divisor counts as the program's."""

_ROOT = "a root that may be a rational function"
_EXTRA = 6
"""Draws made beyond those asked for to show that a root is no rational function."""

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


@dataclass(frozen=True, slots=True)
class _Draw:
    algebra: Fields
    redrawn: int
    place: Place | None
    """Where the programs differ first."""
    doubts: frozenset[str]
    """Why they might be equal nevertheless."""


def compare_fields(
    a: Program, b: Program, *, seed: int, draws: int = 2, prime: int | None = None
) -> FieldEvidence:
    """Compares two programs of equal inputs, of which `a` is the original.

    Without a prime, each draw has its own. Raises ShapeError where inputs or outputs do not match.
    """
    _demand_same_shapes("input", a.inputs, b.inputs)
    _demand_same_shapes("output", a.outputs, b.outputs)
    made: list[_Draw] = []
    try:
        while len(made) < draws or _undecided(made, draws):
            made.append(_draw(a, b, seed, len(made), prime))
            if made[-1].place is not None and made[-1].doubts != {_ROOT}:
                break
    except Obstacle as obstacle:
        return FieldEvidence("unknown", seed, len(made), 0, 1.0, 0.0, (), str(obstacle))
    return _evidence(made, seed, degrees(a, b), prime)


def _undecided(made: Sequence[_Draw], draws: int) -> bool:
    """Whether one more draw may show that a difference is not that of a root from a function."""
    return len(made) < draws + _EXTRA and any(draw.doubts for draw in made)


def _evidence(
    made: Sequence[_Draw], seed: int, limits: Degrees, prime: int | None
) -> FieldEvidence:
    redrawn = sum(draw.redrawn for draw in made)
    functions = tuple(sorted(set[str]().union(*(draw.algebra.scalars.met for draw in made))))
    degree = max((_degree(limits, draw.algebra.field) for draw in made), default=0.0)
    apart = [draw for draw in made if draw.place is not None]
    if not apart:
        bound = math.prod(_chance(limits, draw.algebra, prime) for draw in made)
        return FieldEvidence("agree", seed, len(made), redrawn, bound, degree, functions)
    draw = min(apart, key=lambda draw: len(draw.doubts))
    assert draw.place is not None
    outcome = "unknown" if draw.doubts else "differ"
    reason = "; ".join(sorted(draw.doubts))
    return FieldEvidence(
        outcome, seed, len(made), redrawn, 1.0, degree, functions, reason, *draw.place
    )


def _degree(limits: Degrees, field: Field) -> float:
    """Exponents are sums of arguments, less means over the sums that were inverted.

    There are no more of them than the degree of what they are in; a logarithm makes one a value.
    """
    once = 2 * limits.degree**3 * (1 + field.widest)
    return float(once ** (1 + limits.logs))


def _chance(limits: Degrees, algebra: Fields, prime: int | None) -> float:
    """Of agreement in one draw by programs that differ."""
    field, scalars = algebra.field, algebra.scalars
    degree = _degree(limits, field)
    bits = degree * limits.bits if prime is None else 0.0
    pairs = field.compared * (degree + bits) / (prime or 2 ** (drawn.BITS - 1))
    guesses = scalars.guesses * 2 * scalars.limit / field.prime
    return min(1.0, ATTEMPTS * (pairs + guesses))


def _draw(a: Program, b: Program, seed: int, number: int, prime: int | None) -> _Draw:
    """One draw, made again while a divisor is zero."""
    modulus = drawn.prime(seed, number) if prime is None else prime
    for attempt in range(ATTEMPTS):
        name = repr((seed, number, attempt)).encode()
        algebra = Fields(Field(modulus, name))
        words: Any = algebra
        inputs = [
            _random(term, algebra.field.prime, name, index) for index, term in enumerate(a.inputs)
        ]
        try:
            left = evaluate(a, words, inputs)
            algebra.scalars.trust()
            right = evaluate(b, words, inputs)
            place, doubts = _first_difference(algebra.field, left, right)
        except ZeroDivisionError:
            continue
        return _Draw(algebra, attempt, place, doubts)
    raise Obstacle(f"a divisor is zero in {ATTEMPTS} draws of {ATTEMPTS}: division by zero")


def _random(term: Term, prime: int, name: bytes, index: int) -> Array:
    shape = sizes(term)
    values = drawn.elements(prime, math.prod(shape), "input", name, index)
    return array(values).reshape(shape)


def _first_difference(
    field: Field, left: Sequence[Array], right: Sequence[Array]
) -> tuple[Place | None, frozenset[str]]:
    for output, (x, y) in enumerate(zip(left, right, strict=True)):
        for at, (one, other) in enumerate(zip(x.flat, y.flat, strict=True)):
            if not field.equal(one, other):
                index = tuple(int(n) for n in np.unravel_index(at, x.shape))
                return (output, index), _doubts(field, one - other)
    return None, frozenset()


def _doubts(field: Field, difference: Value) -> frozenset[str]:
    """Why a value that is not zero might stand for zero.

    One root whose radicand is no square in the field is the root of no square of a function, so
    that what has it as a summand is not zero. Of several roots one draw cannot say that.
    """
    if isinstance(difference, Ring) and difference.inverses:
        difference, _ = difference.cleared()
    terms = difference.terms if isinstance(difference, Ring) else {}
    roots = {g for _, generators in terms for g in generators if g in field.squares}
    half = (field.prime - 1) // 2
    if len(roots) > 1:
        return frozenset(field.doubts | {"several roots, which may depend on each other"})
    if any(pow(field.squares[root], half, field.prime) == 1 for root in roots):
        return frozenset(field.doubts | {_ROOT})
    return frozenset(field.doubts)


def _demand_same_shapes(what: str, one: Sequence[Term], other: Sequence[Term]) -> None:
    if len(one) != len(other):
        raise ShapeError(f"programs of {len(one)} and {len(other)} {what}s")
    for index, (left, right) in enumerate(zip(one, other, strict=True)):
        if left.shape != right.shape:
            raise ShapeError(
                f"{what} {index} is {left.type} in one program, {right.type} in another"
            )
