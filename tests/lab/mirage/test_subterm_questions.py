from __future__ import annotations

import math
from collections.abc import Sequence

import pytest

from aiosearch.checks import Status, Verifier
from aiosearch.lab.mirage.subterm_questions import SubtermQuestions, logarithm
from aiosearch.problem import Obligation
from aiosearch.tensor.abstract import Abstract

X, Y, Z, W = (Abstract.of(name) for name in "XYZW")


def exp(x: Abstract) -> Abstract:
    return Abstract.of("exp", x)


def sqrt(x: Abstract) -> Abstract:
    return Abstract.of("sqrt", x)


def add(*xs: Abstract) -> Abstract:
    return Abstract.of("add", *xs)


def mul(*xs: Abstract) -> Abstract:
    return Abstract.of("multiply", *xs)


def div(*xs: Abstract) -> Abstract:
    return Abstract.of("divide", *xs)


def summed(size: int, x: Abstract) -> Abstract:
    return Abstract.of("sum", x, size=size)


async def asked(targets: Sequence[Abstract], terms: Sequence[Abstract]) -> list[Status]:
    questions = SubtermQuestions(targets, terms)
    async with Verifier(cache=None, axioms={"parts": questions.axioms}) as verifier:
        goals = [Obligation(questions.query(term), "parts") for term in terms]
        return [(await verifier.check(goal)).status for goal in goals]


PARTS = [
    ([div(div(X, Y), Z)], mul(Y, Z)),
    ([exp(add(X, Y))], exp(X)),
    ([mul(exp(X), exp(Y))], add(X, Y)),
    ([sqrt(mul(X, Y))], sqrt(Y)),
    ([mul(sqrt(X), sqrt(Y))], mul(X, Y)),
    ([add(mul(X, Y), mul(X, Z))], add(Y, Z)),
    ([summed(12, mul(div(X, Y), Z))], summed(12, mul(X, Z))),
    ([summed(3, summed(4, X))], summed(12, X)),
    ([Abstract.of("silu", Abstract.of("maximum", X, Y))], Y),
    ([Abstract.of("max over", X, size=8)], X),
    ([X, Y, Z], Z),
    ([Abstract.of("subtract", X, Y)], Abstract.of("negative", Y)),
    ([div(summed(12, X), Abstract.of("constant", size=12))], summed(12, X)),
]


@pytest.mark.parametrize(("targets", "part"), PARTS)
async def test_what_the_axioms_make_a_part_is_proved(
    targets: list[Abstract], part: Abstract
) -> None:
    assert await asked(targets, [part]) == [Status.PROVED]


async def test_what_is_no_part_is_unknown_and_never_denied() -> None:
    """The axioms have quantifiers, under which z3 denies nothing."""
    terms = [W, add(X, Z), mul(X, X), summed(12, X), exp(X)]
    assert await asked([mul(add(X, Y), Z)], terms) == [Status.UNKNOWN] * len(terms)


async def test_names_that_mean_something_to_z3_are_only_names() -> None:
    odd = [Abstract.of(name) for name in ("part", "exp", "x y", "(", "s0")]
    whole = add(add(odd[0], odd[1]), mul(odd[2], add(odd[3], odd[4])))
    assert await asked([whole], odd) == [Status.PROVED] * len(odd)


def test_logarithms_of_products_are_sums() -> None:
    assert logarithm(4096) == 12 * logarithm(2) == 12_000
    assert logarithm(6 * 35) == sum(map(logarithm, (2, 3, 5, 7)))
    assert logarithm(1) == 0
    assert logarithm(6144) == pytest.approx(1000 * math.log2(6144), abs=1)
    with pytest.raises(TypeError, match="no number"):
        logarithm(2.5)
