"""Every axiom proves what it says, and nothing where its side condition is violated."""

from __future__ import annotations

import pytest

from aiosearch.equivalence.proof import Rule, prove
from aiosearch.tensor import Program, Size, Term, apply, literal, tensor

N, M = Size.named("n"), Size.named("m")
VALUES = {"n": 5, "m": 7}
X = tensor("X", "f64", (N, M))
Y = tensor("Y", "f64", (N, M))
R = tensor("R", "f64", (N, 1))
"""One number for each row: does not depend on the column."""


def exp(x: Term) -> Term:
    return apply("exp", x)


def log(x: Term) -> Term:
    return apply("log", x)


def sqrt(x: Term) -> Term:
    return apply("sqrt", x)


def row(x: Term) -> Term:
    return apply("sum", x, axes=[1], keep=True)


def top(x: Term) -> Term:
    return apply("max", x, axes=[1], keep=True)


def larger(x: Term, y: Term) -> Term:
    return apply("maximum", x, y)


def power(x: Term, exponent: Term | float) -> Term:
    return apply("pow", x, exponent if isinstance(exponent, Term) else literal(exponent))


def _positive(x: Term) -> Term:
    return apply("less", x * 0, x)


def _finite(x: Term) -> Term:
    return apply("less", apply("abs", x), literal(float("inf")))


def log_softmax(x: Term, shift: Term) -> Term:
    return x - shift - log(row(exp(x - shift)))


def guarded_logsumexp(x: Term) -> Term:
    """As jax writes it, whose shift is 0 where the largest is infinite."""
    shift = apply("select", _finite(top(x)), top(x), literal(0))
    return log(apply("abs", row(exp(x - shift)))) + shift


def proof(a: Term, b: Term) -> set[Rule] | None:
    """The rules of a proof, if there is one."""
    inputs = (X, Y, R)
    found = prove(Program("a", inputs, (a,)), Program("b", inputs, (b,)), VALUES)
    return set(found.rules) if found.proved else None


HOLDS: list[tuple[Rule, Term, Term]] = [
    (Rule.DISTRIBUTE, X * (Y + R), X * Y + X * R),
    (Rule.SUM_PRODUCT, row(X * R), row(X) * R),
    (Rule.SUM_CONSTANT, row(apply("broadcast", R, shape=[N, M])), row(X) - row(X - R)),
    (Rule.EXP_SUM, exp(X) * exp(Y), exp(X + Y)),
    (Rule.EXP_SUM, exp(X) / exp(Y), exp(X - Y)),
    (Rule.EXP_LOG, exp(log(X)) + log(X), X + log(X)),
    (Rule.EXP_LOG, exp(log(X) - log(Y)), X / Y + 0 * (log(X) + log(Y))),
    (Rule.LOG_EXP, log(exp(X)), X),
    (Rule.LOG_PRODUCT, log(exp(X) * row(exp(Y))), X + log(row(exp(Y)))),
    (Rule.ROOT_PRODUCT, sqrt(row(X * X) * row(Y * Y)), sqrt(row(X * X)) * sqrt(row(Y * Y))),
    (Rule.ROOT_SQUARE, sqrt(X * X), apply("abs", X)),
    (Rule.TAKE_OUT, Y / (X * R + X), Y / X / (R + 1)),
    (Rule.COMMON_DENOMINATOR, X / (X + Y) + Y / (X + Y), X - X + 1),
    (Rule.MAX_SET, larger(larger(X, Y), X), larger(Y, X)),
    (Rule.MAX_SHIFT, top(X + R), top(X) + R),
    (Rule.MAX_SCALE, top(X * 2), top(X) * 2),
    (Rule.TANH, apply("tanh", X), 1 - 2 / (exp(X * 2) + 1)),
    (Rule.TANH, apply("sigmoid", X), (apply("tanh", X * 0.5) + 1) * 0.5),
    (Rule.TANH, apply("silu", X), X * 0.5 * (apply("tanh", X * 0.5) + 1)),
    (
        Rule.TANH,
        1 - apply("tanh", X) * apply("tanh", X),
        4 / (exp(X) + exp(-X)) / (exp(X) + exp(-X)),
    ),
    (Rule.FINITE, top(X) + Y, apply("select", _finite(top(X)), top(X), X * 0) + Y),
    (Rule.FINITE, log_softmax(X, top(X)), X - guarded_logsumexp(X)),
    (Rule.Z3, larger(X, Y), (X + Y + apply("abs", X - Y)) * 0.5),
]

FAILS: list[tuple[str, Term, Term]] = [
    ("what is summed depends on the place", row(X * Y), row(X) * Y),
    ("a sum of products is no product of sums", row(X * Y), row(X) * row(Y)),
    ("a constant is counted once for each place", row(X - X + R), R),
    ("tanh is no logistic of the same", apply("tanh", X), apply("sigmoid", X)),
    ("a test of the original stays", apply("select", _finite(X), X, X * 0), X),
    ("what is infinite is not below infinity", X, apply("select", _finite(exp(X) / 0), X, Y)),
    ("exponents multiply no bases", exp(X) * exp(Y), exp(X * Y)),
    ("exp(log x) = x gains no domain from the right", X, exp(log(X))),
    ("log x² is not 2·log x where x < 0", log(X * X), 2 * log(X)),
    ("log(x·y) gains no domain from the right", log(X * Y), log(X) + log(Y)),
    ("√(x·y) gains no domain from the right", sqrt(X * Y), sqrt(X) * sqrt(Y)),
    ("√(x²) is not x where x < 0", sqrt(X * X), X),
    ("√(x²·y) is not x·√y where x < 0", sqrt(X * X * Y), X * sqrt(Y)),
    ("x·y/y gains no domain from the right", X, X * Y / Y),
    ("x/x gains no domain from the right", X - X + 1, X / X),
    ("a quotient of sums is no sum of quotients", row(X) / row(Y), row(X / Y)),
    ("1/(x + y) is not 1/x + 1/y", 1 / (X + Y), 1 / X + 1 / Y),
    ("max does not scale by numbers below zero", top(X * -2), top(X) * -2),
    ("max does not scale by what may be below zero", top(X * R), top(X) * R),
    ("max does not shift by what depends on the place", top(X + Y), top(X) + Y),
    ("max is not the sum", larger(X, Y), X + Y),
    ("max(x, y) is not max(x, -y)", larger(X, Y), larger(X, -Y)),
    ("√x·√x as powers gains no domain", X, power(X, 0.5) * power(X, 0.5)),
    ("x²/x as powers gains no domain", X, X * X * power(X, -1)),
    ("a power of what may be below zero is no number", X, X + power(Y, X) - power(Y, X)),
    ("a chosen branch needs its condition", apply("select", _positive(X), log(X), X), log(X)),
    (
        "what divides in one branch may be zero in the other",
        apply("select", apply("equal", X + Y, X * 0), X * 0 + 5, (X + Y) / (X + Y)),
        X - X + 1,
    ),
    (
        "√(|x|·y) is √|x|·√y only where y ≥ 0, even if x = 0",
        sqrt(apply("abs", X) * Y + apply("abs", X) * R),
        sqrt(apply("abs", X)) * sqrt(Y + R),
    ),
    ("√(x·max(x, 0)) is 0 below zero, where √x is no number", sqrt(X * larger(X, X * 0)), X),
    (
        "√(x²·y) is 0 where x is, whatever y is",
        sqrt(X * X * Y),
        apply("select", apply("less", Y, X * 0), X * 0 + 7, sqrt(X * X * Y)),
    ),
]


@pytest.mark.parametrize(("rule", "a", "b"), HOLDS, ids=[rule.name for rule, _, _ in HOLDS])
def test_an_axiom_proves_what_it_says(rule: Rule, a: Term, b: Term) -> None:
    """Both ways of writing it are proved equal, by this rule among others."""
    rules = proof(a, b)
    assert rules is not None
    assert rule in rules


@pytest.mark.parametrize(("a", "b"), [pair[1:] for pair in FAILS], ids=[why for why, _, _ in FAILS])
def test_an_axiom_needs_its_side_condition(a: Term, b: Term) -> None:
    """Where the condition is violated there is no proof."""
    assert proof(a, b) is None


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (exp(log(X)), X),
        (log(X) + log(Y), log(X * Y)),
        (sqrt(X) * sqrt(Y), sqrt(X * Y)),
        (X * Y / Y, X),
        (X / X, X - X + 1),
        (power(Y, X) + X, X + power(Y, X)),
        (apply("select", _positive(X), X, X), X),
    ],
    ids=["exp log", "log", "root", "quotient", "one", "power", "select"],
)
def test_a_rewrite_may_define_more(a: Term, b: Term) -> None:
    """The answer must agree where the original is defined; elsewhere it is free."""
    assert proof(a, b) is not None


def test_a_mask_leaves_one_place_of_a_sum() -> None:
    """What is summed where i = j, and is nothing elsewhere, is one element; below j it is many."""
    square = tensor("S", "f64", (N, N))
    rows = apply("iota", shape=[N, 1], axis=0, dtype="i32")
    columns = apply("iota", shape=[1, N], axis=1, dtype="i32")
    diagonal = Program("d", (square,), (apply("diagonal", square),))
    for compared, proved in (("equal", True), ("less_equal", False)):
        masked = apply("select", apply(compared, rows, columns), square, literal(0))
        found = Program("m", (square,), (apply("sum", masked, axes=[1]),))
        proof = prove(found, diagonal, VALUES)
        assert proof.proved is proved
        assert (Rule.SUM_MASK in proof.rules) is proved
