from __future__ import annotations

import random
from collections.abc import Iterator

import pytest
from testkit.superoptimizer.labelled_expressions import (
    LABELS,
    SIZES,
    Expr,
    form,
    given,
    number,
    plain,
    rewrites,
    subterms,
)

from aiosearch.superoptimizer.algebra.normal_form import GRID, NormalForms
from aiosearch.superoptimizer.algebra.subterm_test import SubtermTest

ROW, FEATURE, COLUMN, RANK, KEY = LABELS
X, W = given("X", ROW | FEATURE), given("W", FEATURE | COLUMN)
A, B = given("A", FEATURE | RANK), given("B", RANK | COLUMN)
Q, K, V = given("Q", ROW | FEATURE), given("K", KEY | FEATURE), given("V", KEY | COLUMN)
P, S = given("P", ROW), given("S", KEY)


def dot(mask: int, one: Expr, two: Expr) -> Expr:
    return ("sum", mask, ("mul", one, two))


def normed(x: Expr) -> Expr:
    mean = ("div", ("sum", FEATURE, ("mul", x, x)), ("size", FEATURE))
    return ("div", x, ("sqrt", mean))


def attention(q: Expr, k: Expr) -> Expr:
    e = ("exp", dot(FEATURE, q, k))
    return dot(KEY, ("div", e, ("sum", KEY, e)), V)


REFERENCES = {
    "rms_norm": dot(FEATURE, normed(X), W),
    "lora": ("add", dot(FEATURE, X, W), dot(RANK, dot(FEATURE, X, A), B)),
    "gated_mlp": ("mul", ("silu", dot(FEATURE, X, W)), dot(FEATURE, X, given("U", W[2]))),
    "gqa": attention(Q, K),
    "qk_norm": attention(normed(Q), normed(K)),
    "bias": ("div", ("add", dot(FEATURE, X, W), given("b", COLUMN)), ("add", P, ("sum", KEY, S))),
    "mean": ("div", dot(COLUMN, dot(FEATURE, X, W), given("M", COLUMN)), ("size", FEATURE)),
    "exponents": dot(KEY, ("exp", ("add", P, S)), V),
    "distributed": ("mul", ("add", P, S), ("add", X, W)),
}


def parts(forms: NormalForms, reference: Expr) -> SubtermTest:
    return SubtermTest(forms, [form(forms, one) for one in subterms(reference)])


def walk(expr: Expr, steps: int, source: random.Random) -> Iterator[Expr]:
    """What the axioms make of an expression, one after the other."""
    for _ in range(steps):
        expr = source.choice([new for new in rewrites(expr) if plain(new)] or [expr])
        yield expr


@pytest.mark.parametrize("name", REFERENCES)
def test_whatever_equals_the_reference_by_the_axioms_is_made_of_parts(name: str) -> None:
    """No step on the way to any of these spellings would have been pruned."""
    forms = NormalForms(SIZES)
    reference = REFERENCES[name]
    known = parts(forms, reference)
    asked: set[int] = set()
    for seed in range(25):
        for expr in walk(reference, 12, random.Random(seed)):
            assert form(forms, expr) == form(forms, reference)
            asked |= {form(forms, one) for one in subterms(expr)}
    assert all(one in known for one in asked)
    assert len(asked) > len(set(subterms(reference)))


@pytest.mark.parametrize(
    ("name", "no_part"),
    [
        ("gqa", ("sum", FEATURE, Q)),
        ("gqa", ("sum", FEATURE, K)),
        ("gqa", ("exp", Q)),
        ("gqa", ("exp", V)),
        ("gqa", ("mul", Q, V)),
        ("gqa", ("div", Q, K)),
        ("gqa", dot(GRID << FEATURE.bit_length() - 4, Q, V)),
        ("rms_norm", ("sum", FEATURE, W)),
        ("rms_norm", ("sum", ROW, X)),
        ("rms_norm", ("mul", number(2), X)),
        ("rms_norm", ("add", X, W)),
        ("rms_norm", ("div", dot(FEATURE, X, W), ("size", COLUMN))),
        ("rms_norm", ("sqrt", X)),
        ("lora", ("mul", A, W)),
        ("lora", ("mul", number(2), dot(FEATURE, X, W))),
        ("lora", ("sub", dot(FEATURE, X, W), dot(RANK, dot(FEATURE, X, A), B))),
        ("lora", ("add", X, A)),
        ("gated_mlp", ("silu", X)),
        ("bias", ("sum", ROW, P)),
    ],
)
def test_what_leads_nowhere_is_no_part(name: str, no_part: Expr) -> None:
    """A factor summed alone, other numbers, functions of something else, terms that never meet."""
    forms = NormalForms(SIZES)
    known = parts(forms, REFERENCES[name])
    assert form(forms, no_part) not in known


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("gqa", dot(GRID << FEATURE.bit_length() - 4, Q, K)),
        ("rms_norm", ("div", ("sum", FEATURE, ("mul", X, X)), ("size", FEATURE))),
        ("rms_norm", ("div", dot(FEATURE, X, W), ("size", FEATURE))),
        ("rms_norm", dot(GRID << FEATURE.bit_length() - 4, X, W)),
        ("lora", ("add", W, dot(RANK, A, B))),
        ("lora", dot(RANK, A, B)),
    ],
)
def test_what_leads_on_is_a_part(name: str, part: Expr) -> None:
    """Sums over some of their indices, means, and what a distributed product is made of."""
    forms = NormalForms(SIZES)
    assert form(forms, part) in parts(forms, REFERENCES[name])


def test_what_is_summed_over_is_known() -> None:
    """So that no loop splits anything else."""
    assert parts(NormalForms(SIZES), REFERENCES["lora"]).bound == FEATURE | RANK
