from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from aiosearch.optimizer.algebra.choices import Choices, Given, spelled
from aiosearch.optimizer.algebra.ingredients import Amounts
from aiosearch.optimizer.algebra.steps import Call, Meanings, Step, Terms, shaped, taken
from aiosearch.tensor import Program, apply, tensor
from aiosearch.tensor.evaluate import evaluate
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
    Call("add"), Call("sub"), Call("matmul"), Call("sum"), Call("max"), Call("diagonal"),
    Call("power", (("exponent", 2),)), Call("slice", (("start", 0), ("stop", K), ("step", 1)), M),
    Call("slice", (("start", 1), ("stop", K), ("step", 1)), M),
    Call("slice", (("start", 1), ("stop", 2), ("step", 1)), M),
)  # fmt: skip
NOTHING = Amounts((), Counter())
WIDER = frozenset({spelled((M, N, K)), spelled((M, M)), spelled((M, M, N))})


def steps(call: Call) -> list[Step]:
    values = [Given(shape, NOTHING) for shape in SHAPES.values()]
    wanted = Amounts((), Counter({"maximum()": 1}))
    return list(Choices((call,), wanted, WIDER).after((), values))


@pytest.mark.parametrize("call", CALLS, ids=str)
def test_a_step_is_the_same_in_every_world(call: Call) -> None:
    """The term that it makes computes what it computes on arrays, and has the shape foreseen."""
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal([NAMED[str(n)] for n in shape]) for shape in SHAPES.values()]
    numbers, terms = Meanings(NAMED, Floats()), Terms(NAMED)
    assert steps(call)
    for step in steps(call):
        term = taken(terms, call, step, [INPUTS[one] for one in step.operands])
        found = taken(numbers, call, step, [arrays[one] for one in step.operands])
        named = shaped(call, step, [list(SHAPES.values())[one] for one in step.operands])
        (value,) = evaluate(Program("step", tuple(INPUTS), (term,)), Floats(), arrays)
        np.testing.assert_allclose(value, found)
        assert term.shape == tuple(n if isinstance(n, int) else n.at(NAMED) for n in named)


def test_products_are_what_numpy_calls_them() -> None:
    """A step that adds up over what meets is an einsum."""
    rng = np.random.default_rng(0)
    s, t = rng.standard_normal((3, 3)), rng.standard_normal((2, 3, 4))
    world, call = Meanings(NAMED, Floats()), Call("matmul")
    for pairs, axes, subscripts in (
        (((0, 1), (1, 0)), (0, 1), "ij,ji->"),
        (((0, 1), (1, 0)), (0,), "ij,ji->j"),
        (((0, 1),), (0,), "ij,ki->jk"),
    ):
        step = Step(0, (0, 1), pairs, axes)
        np.testing.assert_allclose(taken(world, call, step, [s, s]), np.einsum(subscripts, s, s))
    batched = taken(world, call, Step(0, (0, 1), ((0, 0), (1, 1), (2, 2)), (2,)), [t, t])
    np.testing.assert_allclose(batched, np.einsum("bij,bij->bi", t, t))
    free = taken(world, call, Step(0, (0, 1), ((0, 0), (2, 2)), (2,)), [t, t])
    np.testing.assert_allclose(free, np.einsum("bij,bkj->bik", t, t))


def test_moves_that_change_nothing_are_left_out() -> None:
    """A term is not reshaped to its own shape, nor twice, nor turned to its own order."""
    x, world = tensor("x", "f32", (3, 4)), Terms({})
    assert world.apply("reshape", x, shape=(3, 4)) is x
    once = apply("reshape", x, shape=(12,))
    assert world.apply("reshape", once, shape=(3, 4)) is x
    assert world.apply("reshape", once, shape=(4, 3)) is apply("reshape", x, shape=(4, 3))
    assert world.apply("transpose", x, axes=(0, 1)) is x
