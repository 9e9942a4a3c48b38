"""Terms know their element type, or are refused."""

from __future__ import annotations

import pytest

from aiosearch.tensor import DType, ShapeError, Term, apply, tensor

X, Y = (tensor(name, "f32", (4, 4)) for name in "XY")
SMALLER = apply("less", X, Y)


@pytest.mark.parametrize("name", ["neg", "exp", "square", "sigmoid", "rms_norm"])
def test_truth_values_are_no_numbers(name: str) -> None:
    """Arithmetic on them is refused, which would mean something else to each evaluator."""
    with pytest.raises(ShapeError, match=f"{name} of truth values: cast them"):
        apply(name, SMALLER)


@pytest.mark.parametrize("name", ["div", "exp", "sqrt", "mean", "rms_norm"])
def test_whole_numbers_have_no_fractions(name: str) -> None:
    """What a quotient of integers is, each language says otherwise; so it is not said at all."""
    whole = tensor("W", "i32", (3, 4))
    operands = [whole, whole] if name == "div" else [whole]
    more = {"axes": [1]} if name == "mean" else {}
    with pytest.raises(ShapeError, match=f"{name} of whole numbers"):
        apply(name, *operands, **more)


@pytest.mark.parametrize("name", ["sum", "max", "min"])
def test_truth_values_are_not_reduced(name: str) -> None:
    """They are counted once they are numbers."""
    with pytest.raises(ShapeError, match="truth values"):
        apply(name, SMALLER, axes=[1])
    assert apply(name, apply("cast", SMALLER, dtype="i32"), axes=[1]).dtype is DType.I32


@pytest.mark.parametrize(
    "term",
    [
        apply("maximum", SMALLER, SMALLER),
        apply("minimum", SMALLER, SMALLER),
        apply("transpose", SMALLER, axes=[1, 0]),
        apply("concatenate", SMALLER, SMALLER, axis=0),
        apply("equal", SMALLER, SMALLER),
    ],
    ids=lambda term: term.operator.name,
)
def test_truth_values_are_moved_joined_and_compared(term: Term) -> None:
    """The result is a truth value."""
    assert term.dtype is DType.BOOL


@pytest.mark.parametrize("base", [0, -2.0, float("inf")])
def test_an_exponential_has_a_positive_base(base: float) -> None:
    with pytest.raises(ShapeError, match=r"the base .*: it is a positive number"):
        apply("exponential", tensor("X", "f32", (3,)), base=base)
