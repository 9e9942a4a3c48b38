"""Functions of field values: the laws that hold, and those that do not."""

from __future__ import annotations

from fractions import Fraction

import pytest

from aiosearch.equivalence.finite_field.extension_field import ExtensionField, Value
from aiosearch.equivalence.finite_field.random_primes import elements, prime
from aiosearch.equivalence.finite_field.scalar_functions import UNDEFINED, Scalars
from aiosearch.tensor.operators.pointwise import COS, ERF, POW, TANH

PRIME = prime(2, 0)
X, Y, Z = elements(PRIME, 3, "unknowns")


@pytest.fixture
def k() -> Scalars:
    return Scalars(ExtensionField(PRIME))


def test_the_exponential_of_a_sum_is_the_product(k: Scalars) -> None:
    assert k.field.equal(k.exp(X) * k.exp(Y), k.exp((X + Y) % PRIME))
    assert k.exp(X) * k.exp(-X % PRIME) == 1
    assert k.exp(0) == 1


def test_the_exponential_of_a_sum_with_roots_and_exponentials_is_the_product(k: Scalars) -> None:
    x, y = k.sqrt(X) * 3 + k.exp(Y), k.exp(Z) * k.sqrt(Y)
    assert k.field.equal(k.exp(x) * k.exp(y), k.exp(x + y))
    assert k.exp(x) * k.exp(-x) == 1


def test_the_exponential_of_a_product_is_nothing_else(k: Scalars) -> None:
    assert not k.field.equal(k.exp(X * Y % PRIME), k.exp(X) * k.exp(Y))
    assert not k.field.equal(k.exp(2 * X % PRIME), 2 * k.exp(X))


def test_a_logarithm_undoes_an_exponential_both_ways(k: Scalars) -> None:
    assert k.log(k.exp(X)) == X
    assert k.exp(k.log(X)) == X
    assert k.log(1) == 0
    total = k.exp(X) + k.exp(Y)
    assert k.field.equal(k.exp(k.log(total)), total)


def test_the_exponential_of_a_difference_of_logarithms_is_the_quotient(k: Scalars) -> None:
    found = k.exp(k.log(X) - k.log(Y))
    assert found == X * pow(Y, -1, PRIME) % PRIME
    assert k.released == 2


def test_an_exponential_leaves_a_logarithm_as_a_summand(k: Scalars) -> None:
    total = k.exp(X) + k.exp(Y)
    moved = total * k.exp(Z)
    assert k.field.equal(k.log(moved), k.log(total) + Z)


def test_a_logarithm_of_a_product_is_kept_apart_and_doubted(k: Scalars) -> None:
    assert not k.field.equal(k.log(X * Y % PRIME), k.log(X) + k.log(Y))
    assert k.field.doubts


def test_a_root_has_its_square_and_no_sign(k: Scalars) -> None:
    root = k.sqrt(X)
    assert root * root == X
    assert k.sqrt(0) == 0
    assert not k.field.equal(k.sqrt(X * X % PRIME), X)
    assert not k.field.equal(k.sqrt(X * X % PRIME), -X % PRIME)
    assert not k.field.doubts


def test_a_root_halves_an_exponent(k: Scalars) -> None:
    half = X * pow(2, -1, PRIME) % PRIME
    assert k.field.equal(k.sqrt(k.exp(X)), k.exp(half))
    assert k.field.equal(k.sqrt(k.exp(X) * Y), k.exp(half) * k.sqrt(Y))


@pytest.mark.parametrize("constant", [4, 9, Fraction(1, 4), Fraction(25, 36)])
def test_the_root_of_a_square_of_a_fraction_is_the_fraction(
    k: Scalars, constant: int | Fraction
) -> None:
    root = k.sqrt(k.constants.element(Fraction(constant)))
    assert k.constants.find(root) == Fraction(float(constant) ** 0.5).limit_denominator(100)


def test_roots_of_constants_are_made_of_roots_of_primes(k: Scalars) -> None:
    assert k.field.equal(k.sqrt(12), k.sqrt(2) * k.sqrt(6))
    assert k.field.equal(k.sqrt(k.constants.element(Fraction(1, 2))) * 2, k.sqrt(2))
    assert not k.field.equal(k.sqrt(2), k.sqrt(3))


def test_a_positive_constant_leaves_a_root(k: Scalars) -> None:
    assert k.field.equal(k.sqrt(9 * X % PRIME), k.sqrt(X) * 3)
    eighth = X * pow(8, -1, PRIME) % PRIME
    assert k.field.equal(k.sqrt(eighth) * k.sqrt(8), k.sqrt(X))


def test_a_negative_constant_does_not_leave_a_root(k: Scalars) -> None:
    minus = -4 % PRIME
    assert not k.field.equal(k.sqrt(minus * X % PRIME), k.sqrt(minus) * k.sqrt(X))


def test_the_root_of_a_product_is_split_only_where_the_original_took_the_roots(
    k: Scalars,
) -> None:
    split = k.sqrt(X) * k.sqrt(Y)
    assert not k.field.equal(k.sqrt(X * Z % PRIME), k.sqrt(X) * k.sqrt(Z))
    k.trust()
    assert k.field.equal(k.sqrt(X * Y % PRIME), split)


def test_an_absolute_value_is_the_root_of_the_square(k: Scalars) -> None:
    size = k.absolute(X)
    assert size * size == X * X % PRIME
    assert k.field.equal(k.absolute(-X % PRIME), size)
    assert k.absolute(-3 % PRIME) == 3


def test_a_maximum_knows_the_set_that_it_is_of(k: Scalars) -> None:
    nested = k.maximum([k.maximum([X, Y]), k.maximum([Z, X])])
    assert nested == k.maximum([Z, Y, X])
    assert nested != k.maximum([X, Y])
    assert k.maximum([X, X]) == X
    assert k.field.equal(k.maximum([k.exp(X), k.exp(X)]), k.exp(X))


def test_a_maximum_keeps_only_the_largest_constant(k: Scalars) -> None:
    assert k.maximum([3, 5, -7 % PRIME]) == 5
    assert k.maximum([X, 3, 5]) == k.maximum([5, X])
    assert k.maximum([k.maximum([X, 0]), 0]) == k.maximum([X, 0])


@pytest.mark.parametrize(
    ("how", "x", "y", "truth"),
    [("<", 2, 3, 1), ("<", 3, 3, 0), ("<=", 3, 3, 1), ("==", 2, 3, 0), ("!=", 2, 3, 1)],
)
def test_constants_are_compared(k: Scalars, how: str, x: int, y: int, truth: int) -> None:
    assert k.compare(how, x, y) == truth


def test_a_comparison_is_known_by_its_difference(k: Scalars) -> None:
    moved = k.compare("<", (X + Z) % PRIME, (Y + Z) % PRIME)
    assert k.compare("<", X, Y) == moved
    assert k.compare("<", Y, X) != moved
    assert k.compare("==", X, Y) == k.compare("==", Y, X)
    assert (k.compare("==", X, Y) + k.compare("!=", X, Y)) % PRIME == 1


def test_a_choice_is_made_where_it_can_be(k: Scalars) -> None:
    unknown = k.compare("<", X, Y)
    assert k.select(1, X, Y) == X
    assert k.select(0, X, Y) == Y
    assert k.select(unknown, Z, Z) == Z
    assert k.select(unknown, X, Y) == k.select(unknown, X, Y)
    assert k.select(unknown, X, Y) != k.select(unknown, Y, X)


def test_what_is_undefined_leaves_a_choice_and_nothing_else(k: Scalars) -> None:
    undefined, unknown = k.quotient(0, 0), k.compare("<", X, Y)
    assert undefined is UNDEFINED
    assert k.select(unknown, X, undefined) == k.select(unknown, undefined, X) == X
    for use in (lambda: undefined + 1, lambda: 2 * undefined, lambda: k.exp(undefined)):
        with pytest.raises(ZeroDivisionError):
            use()
    with pytest.raises(ZeroDivisionError):
        k.quotient(1, 0)
    with pytest.raises(ZeroDivisionError):
        Scalars(k.field, strict=True).quotient(0, 0)


def test_a_candidate_that_is_undefined_elsewhere_says_so(k: Scalars) -> None:
    k.select(k.compare("<", X, Y), X, UNDEFINED)
    k.trust()
    k.select(k.compare("<", X, Y), Z, UNDEFINED)
    assert not k.added
    k.select(k.compare("<", X, Z), X, UNDEFINED)
    assert k.added == {"a quotient"}


def test_a_function_known_by_name_depends_on_name_and_arguments(k: Scalars) -> None:
    found: list[Value] = [
        k.named(TANH, X),
        k.named(TANH, Y),
        k.named(ERF, X),
        k.named(POW, X, Y),
        k.named(POW, Y, X),
    ]
    assert len(set(found)) == len(found)
    assert k.met == {"tanh", "erf", "pow"}


def test_even_and_odd_functions_know_what_to_do_with_a_sign(k: Scalars) -> None:
    assert k.named(COS, X) == k.named(COS, -X % PRIME)
    assert (k.named(TANH, X) + k.named(TANH, -X % PRIME)) % PRIME == 0
    assert k.named(POW, X, Y) != k.named(POW, -X % PRIME, Y)


def test_whole_constants_are_their_own_rounding(k: Scalars) -> None:
    assert k.whole(-7 % PRIME) == -7 % PRIME
    assert k.whole(X) == k.whole(X) != X


def test_a_field_too_small_for_it_recognises_no_constants() -> None:
    small = Scalars(ExtensionField(101))
    assert small.constants.find(4) is None
    assert small.sqrt(4) != 2
