"""Right rewrites of whole programs are proved for all shapes; wrong ones are not."""

from __future__ import annotations

import pytest

from aiosearch.equivalence.proof import Rule, prove
from aiosearch.tensor import Block, Program, Size, Term, apply, tensor

BATCH, ROWS, WIDTH, PARTS, STEPS, TILE, HALF = map(Size.named, ("b", "r", "d", "p", "s", "t", "h"))
VALUES = {"b": 2, "r": 3, "d": 5, "p": 2, "s": 3, "t": 7, "h": 4}
KEYS = PARTS * STEPS * TILE
Q = tensor("Q", "f16", (BATCH, ROWS, WIDTH))
K = tensor("K", "f16", (BATCH, WIDTH, KEYS))
V = tensor("V", "f16", (BATCH, KEYS, WIDTH))
K2 = tensor("K", "f16", (BATCH, WIDTH, 2 * HALF))
V2 = tensor("V", "f16", (BATCH, 2 * HALF, WIDTH))
X = tensor("X", "f32", (ROWS, KEYS))
W = tensor("W", "f32", (KEYS, PARTS * WIDTH))


def exp(x: Term) -> Term:
    return apply("exp", x)


def row(x: Term) -> Term:
    return apply("sum", x, axes=[2], keep=True)


def top(x: Term) -> Term:
    return apply("max", x, axes=[2], keep=True)


def softmax(x: Term) -> Term:
    return exp(x) / row(exp(x))


def safe_softmax(x: Term) -> Term:
    return exp(x - top(x)) / row(exp(x - top(x)))


def rms(x: Term, axis: int) -> Term:
    return apply("sqrt", apply("mean", apply("square", x), axes=[axis], keep=True))


def attention(*outputs: Term) -> Program:
    return Program("attention", (Q, K, V), outputs)


def split_kv() -> Program:
    """Partial sums over parts of the keys, then a second kernel that puts them together."""
    first = Block((BATCH, 1, PARTS), STEPS)
    q = first.load(Q, (0, None, None))
    k = first.load(K, (0, None, 2), 2)
    v = first.load(V, (0, None, 1), 1)
    e = exp(q @ k)
    sums, values = first.results(
        (first.accumulate(e, "sum"), (0, None, 2)), (first.accumulate(e @ v), (0, None, 2))
    )
    second = Block((BATCH, 1, 1))
    whole = second.accumulate(second.load(sums, (0,)), "sum")
    mixed = second.accumulate(second.load(values, (0,)), "redtox", WIDTH)
    (found,) = second.results((mixed / whole, (0, None, None)))
    return attention(found)


def online() -> Program:
    """Both halves of the keys, the second with the running maximum of both."""

    def halves(x: Term, axis: int) -> tuple[Term, Term]:
        return (
            apply("slice", x, axis=axis, start=0, stop=HALF),
            apply("slice", x, axis=axis, start=HALF, stop=2 * HALF),
        )

    (k1, k2), (v1, v2) = halves(K2, 2), halves(V2, 1)
    s1, s2 = Q @ k1, Q @ k2
    m1 = top(s1)
    m2 = apply("maximum", m1, top(s2))
    e1, e2 = exp(s1 - m1), exp(s2 - m2)
    again = exp(m1 - m2)
    sums = row(e1) * again + row(e2)
    return Program("online", (Q, K2, V2), (((e1 @ v1) * again + e2 @ v2) / sums,))


def normalised_linear(kind: str = "rms", over: int = 0) -> Program:
    """RMS normalisation and a linear layer in one kernel, the scale moved behind the product."""
    block = Block((PARTS, 1, 1), STEPS)
    x = block.load(X, (None, None, None), 1)
    w = block.load(W, (1, None, None), over)
    scale = block.accumulate(x, kind)
    (found,) = block.results((block.accumulate(x @ w) / scale, (1, None, None)))
    return Program("fused", (X, W), (found,))


LINEAR = Program("linear", (X, W), (apply("rms_norm", X) @ W,))
PLAIN, SAFE = attention(softmax(Q @ K) @ V), attention(safe_softmax(Q @ K) @ V)
LATE = attention((exp(Q @ K) @ V) / row(exp(Q @ K)))
WHOLE = Program("whole", (Q, K2, V2), (safe_softmax(Q @ K2) @ V2,))
NORMED = attention(softmax((Q / rms(Q, 2)) @ (K / rms(K, 1))) @ V)
SCALED = attention(softmax((Q @ K) / rms(Q, 2) / rms(K, 1)) @ V)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (PLAIN, SAFE),
        (SAFE, PLAIN),
        (SAFE, LATE),
        (PLAIN, split_kv()),
        (SAFE, split_kv()),
        (WHOLE, online()),
        (NORMED, SCALED),
        (SCALED, NORMED),
        (LINEAR, normalised_linear()),
        (normalised_linear(), LINEAR),
    ],
    ids=[
        "maximum subtracted",
        "maximum left out",
        "divided at the end",
        "split keys",
        "split keys of a safe softmax",
        "online",
        "scales moved out",
        "scales moved in",
        "fused linear layer",
        "fused linear layer taken apart",
    ],
)
def test_right_programs_are_proved(a: Program, b: Program) -> None:
    """At every shape, the sizes of the custom kernels' tiles included."""
    assert prove(a, b, VALUES).proved


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (PLAIN, attention(exp(Q @ K) @ V)),
        (PLAIN, attention(softmax(-(Q @ K)) @ V)),
        (PLAIN, attention(softmax(Q @ K) @ V * 2)),
        (NORMED, PLAIN),
        (LINEAR, normalised_linear("sum")),
        (LINEAR, normalised_linear("mean")),
    ],
    ids=["no sum", "sign", "twice", "no norm", "sum for rms", "mean for rms"],
)
def test_wrong_programs_are_not(a: Program, b: Program) -> None:
    """A proof of any of them would be a fault."""
    assert not prove(a, b, VALUES).proved


def test_outputs_are_compared_in_order() -> None:
    """Two outputs that change places are two other outputs."""
    both = Program("both", (Q,), (Q + Q, Q * Q))
    turned = Program("turned", (Q,), (Q * Q, Q + Q))
    assert prove(both, both, VALUES).proved
    assert "output 0" in prove(both, turned, VALUES).obstacle


def test_a_proof_names_its_rules() -> None:
    """What was used is said, once each."""
    rules = prove(PLAIN, SAFE, VALUES).rules
    assert Rule.EXP_SUM in rules
    assert len(set(rules)) == len(rules)


def test_deep_programs_are_no_trouble() -> None:
    """A program too deep to be read is not proved, and that is said."""

    def deep(value: Term) -> Program:
        for _ in range(5000):
            value = apply("tanh", value)
        return Program("deep", (X,), (value,))

    assert prove(deep(X), deep(X + 1), VALUES).obstacle == "output 0: the program is too deep"
    # What differs below is proved by itself, and what is the same above it is not read.
    assert prove(deep(X), deep(X * 3 - X - X), VALUES).proved
