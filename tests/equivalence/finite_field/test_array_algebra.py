"""What operators mean in fields is what they mean in fractions, wherever those can tell."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from aiosearch.equivalence.finite_field.array_algebra import Array, Fields, array
from aiosearch.equivalence.finite_field.extension_field import ExtensionField, FieldObstacle
from aiosearch.equivalence.finite_field.random_primes import prime
from aiosearch.tensor import OPERATORS, Floats, Program, Term, apply, evaluate, tensor

PRIME = prime(3, 0)

X = tensor("X", "f32", (2, 3))
Y = tensor("Y", "f32", (2, 3))
W = tensor("W", "f32", (3, 4))
S = tensor("S", "f32", (2, 2))
IMAGE = tensor("I", "f32", (1, 5, 2))
FILTERS = tensor("F", "f32", (2, 2, 3))
INPUTS = (X, Y, W, S, IMAGE, FILTERS)

RATIONAL: dict[str, Term] = {
    "abs": apply("abs", X),
    "add": X + Y,
    "argmax": apply("argmax", X, axis=1),
    "argmin": apply("argmin", X, axis=0),
    "broadcast": apply("broadcast", apply("sum", X, axes=(0,), keep=True), shape=(4, 3)),
    "cast": apply("cast", apply("cast", X, dtype="bool"), dtype="f32"),
    "clamp": apply("clamp", X, low=-0.5, high=1.0),
    "concatenate": apply("concatenate", X, Y, axis=1),
    "convolution": apply(
        "convolution", IMAGE, FILTERS, strides=(2,), low=(1,), high=(0,), dilation=(2,)
    ),
    "cumsum": apply("cumsum", X, axis=1),
    "diagonal": apply("diagonal", S),
    "div": X / Y,
    "equal": apply("equal", X, X + 0 * Y),
    "fold": apply("fold", W, axis=1, size=2),
    "iota": X + apply("iota", shape=(2, 3), axis=1, dtype="f32"),
    "less": apply("less", X, Y),
    "less_equal": apply("less_equal", X, Y),
    "literal": X * 0.25,
    "matmul": X @ W,
    "max": apply("max", X, axes=(1,)),
    "maximum": apply("maximum", X, Y),
    "mean": apply("mean", X, axes=(0, 1)),
    "min": apply("min", X, axes=(0,), keep=True),
    "minimum": apply("minimum", X, Y),
    "mul": X * Y,
    "neg": -X,
    "not_equal": apply("not_equal", X, Y),
    "pad": apply("pad", X, axis=1, low=1, high=2, value=0.5),
    "power": apply("power", X, exponent=-3),
    "reciprocal": apply("reciprocal", X),
    "relu": apply("relu", X),
    "reshape": apply("reshape", X, shape=(3, 2)),
    "select": apply("select", apply("less", X, Y), X, Y),
    "slice": apply("slice", W, axis=1, start=0, stop=4, step=3),
    "sqrt": apply("sqrt", X * X * 4),
    "square": apply("square", X),
    "stack": apply("stack", X, Y, axis=1),
    "sub": X - Y,
    "sum": apply("sum", X, axes=(0,)),
    "transpose": apply("transpose", X, axes=(1, 0)),
}

FORMAL = ["cos", "erf", "erfc", "exp", "exponential", "expm1", "floor", "gelu", "gelu_tanh", "log"]
FORMAL += ["log1p", "pow", "rms_norm", "round", "rsqrt", "sigmoid", "silu", "sin", "tanh"]
FORMAL += ["cummax", "cummin", "digamma", "lgamma", "rem"]
BY_PLACES = ["scatter_add", "take"]
"""Tried in `tests/equivalence/test_places.py`."""
GIVEN: dict[str, dict[str, Any]] = {
    "exponential": {"base": 3}, "cummax": {"axis": 1}, "cummin": {"axis": 0},
}  # fmt: skip
OF_KERNELS = ["accumulate", "input", "load", "read", "result", "write"]


class Fractions(Floats):
    """Exact arithmetic on arrays of fractions."""

    def constant(self, value: Fraction | float) -> Array:
        return array(Fraction(value))

    def iota(self, shape: Sequence[int], axis: int) -> Array:
        return np.vectorize(Fraction, otypes=[object])(super().iota(shape, axis))

    def add(self, x: Array, y: Array) -> Array:
        return array(x + y)

    def subtract(self, x: Array, y: Array) -> Array:
        return array(x - y)

    def multiply(self, x: Array, y: Array) -> Array:
        return array(x * y)

    def divide(self, x: Array, y: Array) -> Array:
        return array(x / y)

    def sqrt(self, x: Array) -> Array:
        found = np.vectorize(lambda v: Fraction(float(v) ** 0.5).limit_denominator(1000))
        return array(found(x))

    def size(self, x: Array, axis: int) -> Array:
        return array(Fraction(x.shape[axis]))

    def largest(self, x: Array, axes: Sequence[int]) -> Array:
        return np.max(x, axis=tuple(axes), keepdims=True)

    def cast(self, x: Array, dtype: str) -> Array:
        return x != 0 if dtype == "bool" else x


def fractions(shape: tuple[int, ...], seed: int) -> Array:
    """Small fractions, none of them zero."""
    drawn = np.random.default_rng(seed)
    above = drawn.integers(1, 9, shape) * drawn.choice([-1, 1], shape)
    below = drawn.choice([1, 2, 4, 3], shape)
    return array([Fraction(int(a), int(b)) for a, b in zip(above.flat, below.flat, strict=True)])


def residue(fields: Fields, value: Any) -> int:
    return fields.scalars.constants.element(
        Fraction(int(value) if isinstance(value, np.bool_) else value)
    )


def run(term: Term, algebra: Any, inputs: list[Array]) -> Array:
    return evaluate(Program("p", INPUTS, (term,)), algebra, inputs)[0]


@pytest.mark.parametrize("name", sorted(RATIONAL))
def test_an_operator_agrees_with_exact_fractions(name: str) -> None:
    fields = Fields(ExtensionField(PRIME))
    exact = [fractions(term.shape, seed).reshape(term.shape) for seed, term in enumerate(INPUTS)]
    drawn = [array([residue(fields, v) for v in own.flat]).reshape(own.shape) for own in exact]
    expected = run(RATIONAL[name], Fractions(), exact)
    found = run(RATIONAL[name], fields, drawn)
    assert found.shape == expected.shape == RATIONAL[name].shape
    assert [residue(fields, value) for value in expected.flat] == list(found.flat)


def test_every_operator_is_tried_in_fractions_or_formally() -> None:
    assert sorted({*RATIONAL, *FORMAL, *BY_PLACES, *OF_KERNELS}) == sorted(OPERATORS)


@pytest.mark.parametrize("name", FORMAL)
def test_an_operator_that_leaves_the_fractions_gives_what_it_gave_before(name: str) -> None:
    operands = (X, Y) if name in ("pow", "rem") else (X,)
    term = apply(name, *operands, **GIVEN.get(name, {}))
    drawn = [array(range(2, 2 + int(np.prod(own.shape)))).reshape(own.shape) for own in INPUTS]
    fields = Fields(ExtensionField(PRIME))
    one, again = run(term, fields, drawn), run(term, fields, drawn)
    assert one.shape == term.shape
    assert all(fields.field.equal(x, y) for x, y in zip(one.flat, again.flat, strict=True))


def test_sums_and_products_of_exponentials_follow_the_same_path_as_plain_ones() -> None:
    fields = Fields(ExtensionField(PRIME))
    x = array([[2, 3], [5, 7]])
    e = fields.exp(x)
    total = fields.sum(e, (0, 1))
    assert total.shape == (1, 1)
    pieces = fields.matmul(fields.matmul(array([[1, 1]]), e), array([[1], [1]]))
    assert fields.field.equal(total[0, 0], pieces[0, 0])


def test_a_matmul_of_exponentials_broadcasts_leading_axes() -> None:
    fields = Fields(ExtensionField(PRIME))
    e = fields.exp(array(range(1, 9)).reshape(2, 2, 2))
    found = fields.matmul(e, array([[[1, 0], [0, 1]]]))
    assert all(fields.field.equal(x, y) for x, y in zip(found.flat, e.flat, strict=True))


def test_sums_over_no_elements_are_zero() -> None:
    fields = Fields(ExtensionField(PRIME))
    empty = np.empty((2, 0), dtype=object)
    assert fields.sum(empty, (1,)).tolist() == [[0], [0]]
    assert fields.matmul(empty, np.empty((0, 1), dtype=object)).tolist() == [[0], [0]]


def test_the_largest_of_nothing_is_an_obstacle() -> None:
    with pytest.raises(FieldObstacle, match="largest of no elements"):
        Fields(ExtensionField(PRIME)).largest(np.empty((2, 0), dtype=object), (1,))


def test_elements_times_places_that_fill_the_memory_are_an_obstacle() -> None:
    field = Fields(ExtensionField(prime(0, 0), "seed"))
    table, places = array(np.ones((3000, 100), object)), array(np.zeros((20, 1), object))
    with pytest.raises(FieldObstacle, match="6,000,000 products of elements and the places"):
        field.take(table, places, 0)


def test_infinity_is_a_number_known_by_name() -> None:
    fields = Fields(ExtensionField(PRIME))
    above, below = (fields.constant(sign * float("inf")) for sign in (1, -1))
    assert fields.add(above, below) == 0
    assert fields.scalars.met == {"infinity"}


def test_an_integer_cast_of_what_is_not_whole_is_known_by_name() -> None:
    fields = Fields(ExtensionField(PRIME))
    found = fields.cast(array([-3 % PRIME, 10**30]), "i32")
    assert found[0] == -3 % PRIME
    assert fields.scalars.met == {"rounding"}
