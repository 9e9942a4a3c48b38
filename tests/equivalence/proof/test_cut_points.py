"""Large proofs in parts: what is merged, what a cut may hide, and how many steps that takes."""

from __future__ import annotations

import pytest

from aiosearch.equivalence import Status, verify
from aiosearch.equivalence.proof import ProofWork, prove
from aiosearch.equivalence.proof.cut_points import CutPoints
from aiosearch.tensor import Program, Size, Term, apply, literal, tensor

N, M = Size.named("n"), Size.named("m")
VALUES = {"n": 5, "m": 7}
X, Y = (tensor(name, "f64", (N, M)) for name in "XY")
W = tensor("W", "f64", (M, M))
INPUTS = (X, Y, W)
FEW = 40_000
"""Steps that are enough for what takes millions as a whole."""


def program(*outputs: Term) -> Program:
    return Program("p", INPUTS, outputs)


def softmax(x: Term) -> Term:
    up = apply("exp", x)
    return up / apply("sum", up, axes=(1,), keep=True)


def layers(x: Term, count: int) -> Term:
    """Values that are each used twice: as one expression they double with every layer."""
    for _ in range(count):
        x = softmax(x @ W) * x + x
    return x


def cubed(x: Term) -> Term:
    x = apply("tanh", x)
    return x * x * x + x * Y


def factored(x: Term) -> Term:
    x = apply("tanh", x)
    return x * (Y + x * x)


def proved(a: Term, b: Term, steps: int = FEW) -> bool:
    return prove(program(a), program(b), VALUES, ProofWork(steps)).proved


def test_a_difference_deep_below_is_proved_by_itself() -> None:
    """The layers above it are one value by congruence, however many there are."""
    a, b = (layers(form(layers(X, 6)), 6) for form in (cubed, factored))
    assert proved(a, b)


def test_steps_grow_with_the_program_and_not_with_its_expansion() -> None:
    """Twice as many differences take about twice the steps."""

    def steps(count: int) -> int:
        a, b = X, X
        for _ in range(count):
            a, b = layers(cubed(a), 2), layers(factored(b), 2)
        work = ProofWork()
        assert prove(program(a), program(b), VALUES, work).proved
        return work.spent

    few, many = steps(4), steps(8)
    assert many < 3 * few


def test_what_is_not_equal_is_not_merged() -> None:
    a, b = layers(cubed(layers(X, 3)), 3), layers(factored(layers(X, 3)) + 1, 3)
    assert not proved(a, b)


def test_equal_numbers_alone_merge_nothing() -> None:
    """Values that are near where numbers are drawn, and no more, are not one."""
    little = literal(1e-12)
    a, b = layers(X * Y, 3), layers(X * Y + little * X, 3)
    assert not proved(a, b)


def test_a_cut_of_another_shape_is_one_value() -> None:
    """Sums that keep their axis, and those that do not."""
    kept = apply("sum", layers(X, 4), axes=(1,), keep=True)
    dropped = apply("reshape", apply("sum", layers(X, 4), axes=(1,)), shape=(N, 1))
    assert proved(layers(X * apply("exp", kept), 3), layers(apply("exp", dropped) * X, 3))


def root(x: Term) -> Term:
    return apply("sqrt", x)


@pytest.mark.parametrize(
    "partial",
    [root(X), apply("log", X), Y / X, apply("pow", X, Y)],
    ids=["root", "logarithm", "quotient", "power"],
)
def test_what_a_cut_needs_is_asked_of_the_original(partial: Term) -> None:
    """A value in a branch may be undefined where the original is not; outside of it, no more."""
    deep = layers(partial, 3)
    chosen = apply("less", Y, X)
    a = apply("select", chosen, deep, X * 0)
    b = deep * apply("select", chosen, literal(1), literal(0))
    assert not proved(a, b)
    assert proved(deep * (X + Y), deep * X + Y * deep)


def test_the_sign_of_a_cut_is_known() -> None:
    """√(u²·v) is u·√v where u is above zero, whatever it is."""
    deep = apply("exp", layers(X, 4))
    other = layers(Y, 4) * layers(Y, 4)
    assert proved(root(deep * deep * other), deep * root(other))


def test_an_infinite_cut_is_no_number() -> None:
    """What is -∞ at some places cannot be subtracted from itself."""

    def masked(x: Term) -> Term:
        return apply("select", apply("less", X, Y), layers(x, 3), literal(float("-inf")))

    assert not proved(X, X + (masked(X) - masked(X)))
    assert proved(apply("exp", masked(cubed(X))), apply("exp", masked(factored(X))))


def test_outputs_that_are_one_term_take_no_steps() -> None:
    work = ProofWork()
    deep = layers(X, 20)
    assert prove(program(deep, X + Y), program(deep, Y + X), VALUES, work).proved
    assert work.spent < 100


def test_a_proof_that_is_too_large_is_tested() -> None:
    """It ends after the steps that it has, and says so."""
    x, y = (tensor(name, "f32", (5, 7)) for name in "xy")
    a, b = (x + y) * (x + y) * (x - y), x * x * x + x * x * y - x * y * y - y * y * y
    ours, theirs = (Program("p", (x, y), (term,)) for term in (a, b))
    assert verify(ours, theirs, floats=False).status is Status.PROVED
    verdict = verify(ours, theirs, floats=False, work=ProofWork(20))
    assert verdict.status is Status.TESTED
    assert verdict.proof is not None
    assert verdict.proof.obstacle == "output 0: it takes more than 20 steps"


def test_a_proof_ends_with_its_time() -> None:
    """Also where steps are left, as on a machine that is slow at them."""
    work = ProofWork(until=float("-inf"))
    obstacle = prove(
        program(layers(X, 4)), program(layers(X * 1 + 0, 4) * 2), VALUES, work
    ).obstacle
    assert obstacle == "output 0: the time for proofs is over"


def test_values_of_the_candidate_are_merged_in_order() -> None:
    """Each with the value of the original that it is, and only with one."""
    a, b = program(layers(cubed(X), 1)), program(layers(factored(X), 1))
    points = CutPoints(a, b, VALUES)
    points.merge(ProofWork(0), lambda pair: True)
    assert not points.is_merged(0)
    points = CutPoints(a, b, VALUES)
    points.merge(ProofWork(FEW), lambda pair: True)
    assert points.is_merged(0)


def test_a_verdict_counts_the_steps_of_its_proofs() -> None:
    x, y = (tensor(name, "f32", (5, 7)) for name in "xy")
    work = ProofWork()
    a, b = (Program("p", (x, y), (term,)) for term in ((x + y) * x, x * x + y * x))
    assert verify(a, b, floats=False, work=work).status is Status.PROVED
    assert 0 < work.spent < 1_000
