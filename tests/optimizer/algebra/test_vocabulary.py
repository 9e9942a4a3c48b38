from __future__ import annotations

from aiosearch.optimizer.algebra.steps import Call
from aiosearch.optimizer.algebra.vocabulary import vocabulary
from aiosearch.tensor import Term, apply, literal, tensor

A = tensor("a", "f32", (4, 4))


def calls(*terms: Term) -> set[Call]:
    return set(vocabulary((term, term) for term in terms))


def test_products_and_sums_are_always_there() -> None:
    """Whatever a program is made with."""
    assert calls() == {Call("matmul"), Call("mul"), Call("sum")}


def test_what_is_used_is_used_again() -> None:
    """With its parameters, but along any axes."""
    power = apply("power", A, exponent=3)
    found = calls(power, apply("max", A, axes=(0,)), apply("diagonal", A))
    assert {Call("power", (("exponent", 3),)), Call("max"), Call("diagonal")} < found


def test_operators_bring_those_that_they_may_turn_into() -> None:
    """The exponential of a difference of logarithms is a quotient."""
    assert Call("div") not in calls(apply("exp", A))
    assert Call("div") in calls(apply("log", A))


def test_slices_keep_the_size_that_they_are_taken_of() -> None:
    """And no slice is taken that leaves elements out between."""
    cut = apply("slice", A, axis=0, start=1, stop=3)
    assert Call("slice", (("start", 1), ("stop", 3), ("step", 1)), 4) in calls(cut)
    every_other = apply("slice", A, axis=0, start=0, stop=4, step=2)
    assert calls(every_other) == calls()


def test_leaves_and_joins_bring_nothing() -> None:
    """They are not made anew."""
    assert calls(A, literal(2), apply("stack", A, A, axis=0)) == calls()
