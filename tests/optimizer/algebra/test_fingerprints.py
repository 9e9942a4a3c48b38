from __future__ import annotations

from itertools import combinations
from typing import Any

import pytest

from aiosearch.equivalence.finite_field import random_primes
from aiosearch.equivalence.finite_field.extension_field import ExtensionField, Value
from aiosearch.equivalence.finite_field.scalar_functions import Scalars
from aiosearch.optimizer.algebra.fingerprints import Fingerprints, Series
from aiosearch.optimizer.algebra.terms import sizes
from aiosearch.tensor import Term, apply, literal, tensor
from aiosearch.tensor.terms import walk

A, B, C = (tensor(name, "f32", (3, 2)) for name in "abc")
M, N, K = (tensor(name, "f32", (3, 3)) for name in "mnk")
S = tensor("s", "f32", (3,))
INPUTS = (A, B, C, M, N, K, S)


def f(name: str, *xs: Term, **given: Any) -> Term:
    return apply(name, *xs, **given)


def t(x: Term) -> Term:
    return f("transpose", x, axes=(1, 0))


def total(x: Term, *axes: int) -> Term:
    return f("sum", x, axes=axes)


def names(*terms: Term, seed: int = 0) -> list[bytes | None]:
    """The name of each, where it has one."""
    prints, found = Fingerprints(seed), list[bytes | None]()
    for term in terms:
        *_, value = prints.evaluated(INPUTS, list(walk([term])))
        if value is None:
            found.append(None)
        else:
            found.append(prints.name(value, sizes(term), term.dtype, term.digest))
    return found


EQUAL = {
    "distributed": (A * (B + C), A * B + A * C),
    "associated": ((M @ N) @ K, M @ (N @ K)),
    "transposed": (t(M @ N), t(N) @ t(M)),
    "reduced": (total(M @ N, 1), total(M * f("reshape", total(N, 1), shape=(1, 3)), 1)),
    "exponentials": (f("exp", A) * f("exp", B), f("exp", A + B)),
    "an exponential of logarithms": (f("exp", f("log", A) - f("log", B)), A / B),
    "roots": (f("sqrt", A) * f("sqrt", A), A),
    "a root below": (A / f("sqrt", B), A * f("sqrt", B) / B),
    "a gate": (f("exp", A) / (literal(1) + f("exp", A)), f("sigmoid", A)),
    "the larger": (f("maximum", A, f("maximum", B, A)), f("maximum", B, A)),
    "a function by its argument": (f("tanh", A + B), f("tanh", B + A)),
    "an inverse twice": (literal(1) / (literal(1) / (f("exp", A) + B)), f("exp", A) + B),
}


@pytest.mark.parametrize("case", EQUAL)
def test_equal_values_have_one_name(case: str) -> None:
    """Whatever laws they are equal by, and at every random point."""
    for seed in range(3):
        one, other = names(*EQUAL[case], seed=seed)
        assert one is not None
        assert one == other


def test_a_value_and_its_transpose_have_one_name() -> None:
    """Also where its axes are equally long."""
    (a, turned, m, other) = names(A, t(A), M @ N, t(M @ N))
    assert a == turned
    assert m == other


def test_different_values_have_different_names() -> None:
    """Among them such as differ in one exponent, in one element or in nothing but their type."""
    values = [
        A, B, A + B, A - B, A * B, A / B, f("exp", A), f("exp", B), f("exp", A) + f("exp", B),
        f("exp", A + B), f("log", A), f("log", B), f("sqrt", A), f("sqrt", B), f("tanh", A),
        f("sigmoid", A), f("abs", A), M @ N, N @ M, M @ t(N), total(M, 0), total(M, 1),
        f("diagonal", M), f("cast", A, dtype="bf16"), f("iota", shape=(3,), axis=0, dtype="f32"),
    ]  # fmt: skip
    found = names(*values)
    assert None not in found
    assert len(set(found)) == len(values)


def test_a_name_is_that_of_the_first() -> None:
    """So it does not depend on what a process has met besides."""
    first = A * (B + C)
    assert names(first, A * B + A * C) == [first.digest, first.digest]


def test_what_is_defined_nowhere_has_no_name() -> None:
    """Nor has what is computed from it."""
    nowhere = A / (B - B)
    assert names(nowhere, nowhere + A, A) == [None, None, A.digest]


def test_what_takes_too_long_has_no_name() -> None:
    """A product of many sums of exponentials; what comes after it has one again."""
    product = literal(1) * A
    for number in range(2, 15):
        product = product * (f("exp", A) + f("exp", literal(number) * B))
    assert names(product, f("exp", A)) == [None, f("exp", A).digest]


def test_the_order_of_axes_is_found() -> None:
    """In which one value is another of its name."""
    prints = Fingerprints()
    m, turned = prints.evaluated(INPUTS, [M, t(M)])
    assert m is not None
    assert turned is not None
    assert prints.order(m, (3, 3), turned, (3, 3)) == [1, 0]
    assert prints.order(m, (3, 3), m, (3, 3)) == [0, 1]


FIELD = ExtensionField(random_primes.prime(0, 0), b"0")
SCALARS = Scalars(FIELD)
X, Y, Z = random_primes.elements(FIELD.prime, 3, "series")
E, F = SCALARS.exp(X), SCALARS.exp(Y)
SERIES = Series(FIELD)


def one_over(value: Value) -> Value:
    return FIELD.invert(value)


def test_values_that_are_equal_in_other_forms_have_one_series() -> None:
    """Inverses of sums cancel in the series where they do not in the normal form."""
    total = E + F
    whole = E * one_over(total) + F * one_over(total)
    assert whole != 1
    assert SERIES.written(whole) == SERIES.written(1)
    twice = one_over(one_over(E + 1) + one_over(F + 1))
    once = (E + 1) * (F + 1) * one_over(E + F + 2)
    assert SERIES.written(twice) == SERIES.written(once)


def test_different_values_have_different_series() -> None:
    """Exponentials of different exponents, what is of one first order, roots and logarithms."""
    values: list[Value] = [
        X, Y, E, F, E + F, E * F, E + X, E * X, one_over(E + 1), one_over(F + 1), E - X - 1, Z,
        SCALARS.sqrt(X), SCALARS.sqrt(Y), SCALARS.log(X), SCALARS.log(Y), SCALARS.log(E + 1),
        one_over(SCALARS.sqrt(X)), one_over(SCALARS.sqrt(X) + 1),
    ]  # fmt: skip
    for one, other in combinations(values, 2):
        assert SERIES.written(one) != SERIES.written(other)


def test_a_divisor_whose_series_starts_with_nothing_is_a_number_of_its_own() -> None:
    """The difference of two exponentials is no divisor of series, and still has an inverse."""
    assert SERIES.written(one_over(E - F)) == SERIES.written(one_over(E - F))
    assert SERIES.written(one_over(E - F)) != SERIES.written(one_over(F - 1))
