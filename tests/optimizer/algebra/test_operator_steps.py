from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from aiosearch.optimizer.algebra.fingerprints import Amounts
from aiosearch.optimizer.algebra.operator_steps import (
    KnownValue,
    Meanings,
    OperatorCall,
    OperatorStep,
    StepChoices,
    Terms,
    apply_step,
    spelled,
    step_shape,
    vocabulary,
)
from aiosearch.tensor import Program, Term, apply, literal, tensor
from aiosearch.tensor.evaluation import evaluate
from aiosearch.tensor.floats import Floats
from aiosearch.tensor.sizes import Dim, Size

NAMED = {"m": 3, "n": 4, "k": 2}
M, N, K = (Size.named(name) for name in NAMED)
SHAPES: dict[str, tuple[Dim, ...]] = {
    "v": (M,), "a": (M, N), "b": (N, M), "s": (M, M), "t": (K, M, N), "c": ()
}  # fmt: skip
INPUTS = [
    tensor(name, "f64", [NAMED[str(size)] for size in shape]) for name, shape in SHAPES.items()
]
CALLS = (
    OperatorCall("add"), OperatorCall("sub"), OperatorCall("matmul"), OperatorCall("sum"),
    OperatorCall("max"), OperatorCall("diagonal"),
    OperatorCall("power", (("exponent", 2),)),
    OperatorCall("slice", (("start", 0), ("stop", K), ("step", 1)), M),
    OperatorCall("slice", (("start", 1), ("stop", K), ("step", 1)), M),
    OperatorCall("slice", (("start", 1), ("stop", 2), ("step", 1)), M),
)  # fmt: skip
NOTHING = Amounts((), Counter())
WIDER = frozenset({spelled((M, N, K)), spelled((M, M)), spelled((M, M, N))})


def steps(call: OperatorCall) -> list[OperatorStep]:
    values = [KnownValue(shape, NOTHING) for shape in SHAPES.values()]
    wanted = Amounts((), Counter({"maximum()": 1}))
    return list(StepChoices((call,), wanted, WIDER).after((), values))


@pytest.mark.parametrize("call", CALLS, ids=str)
def test_a_step_is_the_same_in_every_world(call: OperatorCall) -> None:
    """The term that it makes computes what it computes on arrays, and has the shape foreseen."""
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal([NAMED[str(n)] for n in shape]) for shape in SHAPES.values()]
    numbers, terms = Meanings(NAMED, Floats()), Terms(NAMED)
    assert steps(call)
    for step in steps(call):
        term = apply_step(terms, call, step, [INPUTS[one] for one in step.operands])
        found = apply_step(numbers, call, step, [arrays[one] for one in step.operands])
        named = step_shape(call, step, [list(SHAPES.values())[one] for one in step.operands])
        (value,) = evaluate(Program("step", tuple(INPUTS), (term,)), Floats(), arrays)
        np.testing.assert_allclose(value, found)
        assert term.shape == tuple(n if isinstance(n, int) else n.at(NAMED) for n in named)


def test_products_are_what_numpy_calls_them() -> None:
    """A step that adds up over what meets is an einsum."""
    rng = np.random.default_rng(0)
    s, t = rng.standard_normal((3, 3)), rng.standard_normal((2, 3, 4))
    world, call = Meanings(NAMED, Floats()), OperatorCall("matmul")
    for pairs, axes, subscripts in (
        (((0, 1), (1, 0)), (0, 1), "ij,ji->"),
        (((0, 1), (1, 0)), (0,), "ij,ji->j"),
        (((0, 1),), (0,), "ij,ki->jk"),
    ):
        step = OperatorStep(0, (0, 1), pairs, axes)
        np.testing.assert_allclose(
            apply_step(world, call, step, [s, s]), np.einsum(subscripts, s, s)
        )
    batched = apply_step(
        world, call, OperatorStep(0, (0, 1), ((0, 0), (1, 1), (2, 2)), (2,)), [t, t]
    )
    np.testing.assert_allclose(batched, np.einsum("bij,bij->bi", t, t))
    free = apply_step(world, call, OperatorStep(0, (0, 1), ((0, 0), (2, 2)), (2,)), [t, t])
    np.testing.assert_allclose(free, np.einsum("bij,bkj->bik", t, t))


def test_moves_that_change_nothing_are_left_out() -> None:
    """A term is not reshaped to its own shape, nor twice, nor turned to its own order."""
    x, world = tensor("x", "f32", (3, 4)), Terms({})
    assert world.apply("reshape", x, shape=(3, 4)) is x
    once = apply("reshape", x, shape=(12,))
    assert world.apply("reshape", once, shape=(3, 4)) is x
    assert world.apply("reshape", once, shape=(4, 3)) is apply("reshape", x, shape=(4, 3))
    assert world.apply("transpose", x, axes=(0, 1)) is x


A = tensor("a", "f32", (4, 4))


def calls(*terms: Term) -> set[OperatorCall]:
    return set(vocabulary((term, term) for term in terms))


def test_products_and_sums_are_always_there() -> None:
    """Whatever a program is made with."""
    assert calls() == {OperatorCall("matmul"), OperatorCall("mul"), OperatorCall("sum")}


def test_what_is_used_is_used_again() -> None:
    """With its parameters, but along any axes."""
    power = apply("power", A, exponent=3)
    found = calls(power, apply("max", A, axes=(0,)), apply("diagonal", A))
    assert {
        OperatorCall("power", (("exponent", 3),)),
        OperatorCall("max"),
        OperatorCall("diagonal"),
    } < found


def test_operators_bring_those_that_they_may_turn_into() -> None:
    """The exponential of a difference of logarithms is a quotient."""
    assert OperatorCall("div") not in calls(apply("exp", A))
    assert OperatorCall("div") in calls(apply("log", A))


def test_slices_keep_the_size_that_they_are_taken_of() -> None:
    """And no slice is taken that leaves elements out between."""
    cut = apply("slice", A, axis=0, start=1, stop=3)
    assert OperatorCall("slice", (("start", 1), ("stop", 3), ("step", 1)), 4) in calls(cut)
    every_other = apply("slice", A, axis=0, start=0, stop=4, step=2)
    assert calls(every_other) == calls()


def test_leaves_and_joins_bring_nothing() -> None:
    """They are not made anew."""
    assert calls(A, literal(2), apply("stack", A, A, axis=0)) == calls()
