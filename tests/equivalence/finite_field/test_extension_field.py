"""Field values: sums of exponentials, roots and inverses behave as the functions they stand for."""

from __future__ import annotations

from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aiosearch.equivalence.finite_field.extension_field import ExponentialSum, ExtensionField, Value
from aiosearch.equivalence.finite_field.random_primes import elements, prime
from aiosearch.equivalence.finite_field.scalar_functions import Scalars

PRIME = prime(1, 0)
FIELD = ExtensionField(PRIME)
SCALARS = Scalars(FIELD)


@cache
def leaves() -> list[Value]:
    """Elements, exponentials of them, roots of them."""
    plain: list[Value] = list(elements(PRIME, 3, "leaves"))
    return [*plain, 0, 1, *map(SCALARS.exp, plain), *map(SCALARS.sqrt, plain[:2])]


def _sum(pair: tuple[Value, Value]) -> Value:
    return (pair[0] + pair[1]) % PRIME


def _product(pair: tuple[Value, Value]) -> Value:
    return pair[0] * pair[1] % PRIME


def _quotient(pair: tuple[Value, Value]) -> Value:
    x, y = pair
    return 0 if FIELD.is_zero(y) else x * FIELD.invert(y) % PRIME


def _branches(children: st.SearchStrategy[Value]) -> st.SearchStrategy[Value]:
    pairs = st.tuples(children, children)
    return pairs.map(_sum) | pairs.map(_product) | pairs.map(_quotient)


values = st.recursive(st.sampled_from(leaves()), _branches, max_leaves=5)


@given(values, values, values)
@settings(max_examples=150)
def test_addition_and_multiplication_are_those_of_a_commutative_ring(
    x: Value, y: Value, z: Value
) -> None:
    assert FIELD.equal((x + y) % PRIME, (y + x) % PRIME)
    assert FIELD.equal(x * y % PRIME, y * x % PRIME)
    assert FIELD.equal(((x + y) % PRIME + z) % PRIME, (x + (y + z) % PRIME) % PRIME)
    assert FIELD.equal(x * y % PRIME * z % PRIME, x * (y * z % PRIME) % PRIME)
    assert FIELD.equal(x * ((y + z) % PRIME) % PRIME, (x * y + x * z) % PRIME)


@given(values, values)
@settings(max_examples=150)
def test_subtraction_undoes_addition(x: Value, y: Value) -> None:
    assert FIELD.equal(((x + y) % PRIME - y) % PRIME, x)
    assert FIELD.is_zero((x - x) % PRIME)


@given(values, values)
@settings(max_examples=150)
def test_division_undoes_multiplication(x: Value, y: Value) -> None:
    if not FIELD.is_zero(y):
        assert FIELD.equal(x * y % PRIME * FIELD.invert(y) % PRIME, x)
        assert FIELD.equal(FIELD.invert(FIELD.invert(y)), y)


@given(values, values)
@settings(max_examples=150)
def test_keys_add_as_values_add(x: Value, y: Value) -> None:
    assert FIELD.key((x + y) % PRIME) == (FIELD.key(x) + FIELD.key(y)) % PRIME


@given(st.lists(st.tuples(values, values), max_size=4))
@settings(max_examples=100)
def test_a_dot_product_is_the_sum_of_the_products(pairs: list[tuple[Value, Value]]) -> None:
    total: Value = 0
    for x, y in pairs:
        total = (total + x * y) % PRIME
    assert FIELD.equal(FIELD.dot(pairs), total)


def test_exponentials_of_different_exponents_never_cancel() -> None:
    one, other = SCALARS.exp(3), SCALARS.exp(5)
    assert not FIELD.is_zero(one - other)
    assert not FIELD.is_zero(2 * one + 7 * other)


def test_a_value_without_exponential_root_or_inverse_is_a_plain_integer() -> None:
    x = SCALARS.exp(3)
    assert isinstance(x, ExponentialSum)
    assert x - x == 0
    assert x * FIELD.invert(x) == 1
    assert (x + 5) - x == 5
    assert SCALARS.sqrt(11) * SCALARS.sqrt(11) == 11


def test_fractions_over_one_sum_add_without_being_multiplied_up() -> None:
    row = [SCALARS.exp(value) for value in elements(PRIME, 8, "row")]
    below = FIELD.invert(FIELD.total(row))
    total = FIELD.total(value * below for value in row)
    assert isinstance(total, ExponentialSum)
    assert len(total.terms) == len(row)
    assert FIELD.equal(total, 1)


def test_sums_that_are_multiples_of_each_other_share_one_inverse() -> None:
    x, y = SCALARS.exp(3), SCALARS.exp(10)
    plain = FIELD.invert(x + y)
    moved = FIELD.invert((x + y) * SCALARS.exp(5) * 7)
    assert isinstance(plain, ExponentialSum)
    assert isinstance(moved, ExponentialSum)
    assert list(plain.inverses) == list(moved.inverses)
    assert FIELD.equal(plain, moved * SCALARS.exp(5) * 7)


def test_a_product_with_the_sum_below_cancels_at_once() -> None:
    x = SCALARS.exp(3) + 1
    assert x * 5 * FIELD.invert(x) == 5


def test_a_quotient_that_is_zero_in_disguise_has_no_inverse() -> None:
    x, y = SCALARS.exp(3), SCALARS.exp(4)
    below = FIELD.invert(x + y)
    disguised = x * below + y * below - 1
    with pytest.raises(ZeroDivisionError):
        FIELD.invert(disguised)
    with pytest.raises(ZeroDivisionError):
        FIELD.invert(0)


def test_a_key_of_a_quotient_of_sums_is_doubted() -> None:
    field = ExtensionField(PRIME)
    functions = Scalars(field)
    field.key(functions.exp(3))
    assert not field.doubts
    field.key(field.invert(functions.exp(3) + 1))
    assert field.doubts


def test_names_are_the_same_in_every_field_of_one_seed() -> None:
    names = [("tanh", 3), ("tanh", 4), ("erf", 3)]
    one = [ExtensionField(PRIME, b"seed").symbol(*name) for name in names]
    again = [ExtensionField(PRIME, b"seed").symbol(*name) for name in reversed(names)]
    other = [ExtensionField(PRIME, b"other").symbol(*name) for name in names]
    assert one == again[::-1]
    assert len({*one, *other}) == 6


def test_pairs_that_might_be_confused_are_counted() -> None:
    field = ExtensionField(PRIME)
    functions = Scalars(field)
    before = field.compared
    _ = functions.exp(3) + functions.exp(4) + functions.exp(5)
    assert field.compared >= before + 3


def test_equal_values_have_equal_shadows() -> None:
    """With all exponentials one; roots have none, nor has what is then divided by zero."""
    field = ExtensionField(PRIME)
    functions = Scalars(field)
    one, two = functions.exp(3), functions.exp(4)
    quotient = field.invert(one + two)
    assert field.shadow(one * two * 5) == 5
    assert field.shadow(quotient * 6) == 3
    assert field.equal(quotient * one + quotient * two, 1)
    assert not field.equal(quotient * one, quotient * 3)
    assert field.shadow(field.invert(one - two)) is None
    assert field.shadow(functions.sqrt(3) + one) is None
