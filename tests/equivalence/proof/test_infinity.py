"""Infinity is read as a number, and what has no limit there is no number."""

from __future__ import annotations

import pytest

from aiosearch.equivalence.proof import prove
from aiosearch.tensor import Program, Size, Term, apply, literal, tensor

N, M = Size.named("n"), Size.named("m")
X, Y = (tensor(name, "f64", (N, M)) for name in "XY")
END = literal(float("inf"))
MASKED = apply("select", apply("less", X, Y), -END, X)
OTHER = apply("select", apply("less", X, Y), -END, Y)


def exp(x: Term) -> Term:
    return apply("exp", x)


def softmax(x: Term, shift: Term) -> Term:
    scores = exp(x - shift)
    return scores / apply("sum", scores, axes=[1], keep=True)


def top(x: Term) -> Term:
    return apply("max", x, axes=[1], keep=True)


def proved(a: Term, b: Term) -> bool:
    inputs = (X, Y)
    return prove(Program("a", inputs, (a,)), Program("b", inputs, (b,)), {"n": 5, "m": 7}).proved


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (MASKED, MASKED + (END - END)),
        (exp(MASKED), exp(MASKED - OTHER) * exp(OTHER)),
        (exp(MASKED), exp(MASKED - top(MASKED)) * exp(top(MASKED))),
        (MASKED * Y / Y + Y / Y, MASKED * Y / Y + exp(MASKED) / exp(MASKED)),
        (MASKED + Y, MASKED + Y + exp(MASKED) * 0 * MASKED),
        (MASKED, MASKED + apply("sin", MASKED) - apply("sin", MASKED)),
        (
            apply("cast", apply("less", END, END * 2), dtype="f64") + MASKED,
            apply("cast", apply("less", -END, literal(0)), dtype="f64") + MASKED,
        ),
    ],
    ids=["difference", "shift", "softmax", "quotient", "product", "sine", "comparison"],
)
def test_what_has_no_limit_is_not_proved(a: Term, b: Term) -> None:
    """The second is not a number somewhere, or another one, where the first is one."""
    assert not proved(a, b)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (softmax(MASKED, top(MASKED)), softmax(MASKED, top(MASKED))),
        (MASKED * 2 + Y, Y + MASKED / 0.5),
        (exp(MASKED + Y), exp(MASKED) * exp(Y)),
        (apply("maximum", MASKED, Y), apply("maximum", Y, MASKED)),
    ],
    ids=["softmax", "scale", "product", "maximum"],
)
def test_the_same_operations_on_infinity_are_proved(a: Term, b: Term) -> None:
    """What has a limit, or has none in the original either, is no obstacle."""
    assert proved(a, b)
