"""Functions that are only run: what floats alone say of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from testkit.programs.float_pairs import RIGHT, WRONG, over

from aiosearch.equivalence import Status, compare_floats, compare_functions, verify_functions
from aiosearch.equivalence.inputs.distributions import draw
from aiosearch.equivalence.rounding.machine import DOUBLE, OWN, execute, rounded
from aiosearch.tensor import DType, Program, ShapeError, TensorType, apply, tensor
from aiosearch.tensor.floats import Array


@dataclass
class Plain:
    """A NumPy function whose operations round to single precision, and results to their type."""

    function: Callable[..., Any]
    inputs: Sequence[TensorType]
    outputs: Sequence[TensorType]

    def own(self, inputs: Sequence[Array]) -> list[Array]:
        found = self._run(inputs)
        return [rounded(x, one.dtype) for x, one in zip(found, self.outputs, strict=True)]

    def double(self, inputs: Sequence[Array]) -> list[Array]:
        return self._run([np.asarray(x, np.float64) for x in inputs])

    def _run(self, inputs: Sequence[Array]) -> list[Array]:
        with np.errstate(all="ignore"):
            found = self.function(*inputs)
        return list(found) if isinstance(found, tuple) else [found]


def plain(
    function: Callable[..., Any],
    dtype: str = "f32",
    shape: tuple[int, ...] = (8, 32),
    out: Sequence[str] = (),
) -> Plain:
    """A function of one input; its outputs are of the input's shape."""
    given = TensorType(DType(dtype), shape)
    made = [TensorType(DType(one), shape) for one in out or [dtype]]
    return Plain(function, [given], made)


def ordered(x: Array) -> Array:
    return np.sort(x, axis=-1)


def ordered_too(x: Array) -> Array:
    return -np.sort(-x, axis=-1)[..., ::-1]


TYPES = ("f16", "bf16", "f32", "f64", "i32")


@pytest.mark.parametrize("dtype", TYPES)
def test_equal_functions_are_tested_and_the_scope_says_why_no_more(dtype: str) -> None:
    verdict = verify_functions(plain(ordered, dtype), plain(ordered_too, dtype), "sort is new")
    assert verdict.status is Status.TESTED
    assert verdict.summary()[0] == "tested — in floats only, at these shapes: sort is new"
    assert verdict.floats is not None
    assert not verdict.floats.skipped


@pytest.mark.parametrize("dtype", TYPES)
def test_different_functions_are_refuted_with_inputs_that_can_be_drawn_again(dtype: str) -> None:
    a, b = plain(ordered, dtype), plain(lambda x: np.sort(np.abs(x), axis=-1), dtype)
    verdict = verify_functions(a, b, "", seed=3)
    assert verdict.status is Status.REFUTED
    assert verdict.floats is not None
    trial = verdict.floats.first_failed
    assert verdict.reason == f"{trial.place}, on {trial.distribution} inputs of seed 3"
    again = compare_functions(a, b, seed=3, distributions=[trial.distribution])
    assert again.trials == (trial,)
    inputs = draw(a.inputs, trial.distribution, verdict.floats.seed)
    assert a.own(inputs)[0][trial.index] == trial.expected
    assert b.own(inputs)[0][trial.index] == trial.found


def test_the_input_type_tells_what_a_difference_is_worth() -> None:
    """A share of 2^-9 is rounding in bfloat16, and a difference in wider types."""

    def more(x: Array) -> Array:
        return x * np.float32(1 + 2.0**-9)

    outcomes = {
        dtype: compare_functions(plain(ordered, dtype), plain(lambda x: more(ordered(x)), dtype))
        for dtype in ("bf16", "f32", "f64")
    }
    assert [one.outcome for one in outcomes.values()] == ["agree", "differ", "differ"]


@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_sums_in_another_order_agree_where_they_cancel(dtype: str) -> None:
    def forward(x: Array) -> Array:
        return np.cumsum(x, axis=-1)

    def halves(x: Array) -> Array:
        middle = x.shape[-1] // 2
        left, right = forward(x[..., :middle]), forward(x[..., middle:])
        return np.concatenate([left, left[..., -1:] + right], axis=-1)

    for a, b in ((forward, halves), (halves, forward)):
        evidence = compare_functions(plain(a, dtype, (64, 256)), plain(b, dtype, (64, 256)))
        assert evidence.outcome == "agree"
        assert not evidence.skipped


def test_places_of_elements_that_are_nearly_equal_are_not_compared() -> None:
    def places(x: Array) -> Array:
        return np.argsort(x, axis=-1, kind="stable").astype(np.float64)

    def other(x: Array) -> Array:
        count = x.shape[-1]
        return (count - 1 - np.argsort(x[..., ::-1], axis=-1, kind="stable")).astype(np.float64)

    a, b = (plain(one, "bf16", out=["i32"]) for one in (places, other))
    evidence = compare_functions(a, b, distributions=["positive"])
    assert evidence.outcome == "agree"
    assert evidence.trials[0].undetermined > 0
    turned = plain(lambda x: places(-x), "bf16", out=["i32"])
    assert compare_functions(a, turned).outcome == "differ"


def test_a_function_that_loses_digits_inside_is_skipped() -> None:
    def careless(x: Array) -> Array:
        return ordered((x + x.dtype.type(1e9)) - x.dtype.type(1e9))

    verdict = verify_functions(plain(careless), plain(careless), "sort is new")
    assert verdict.status is Status.CANNOT_JUDGE
    assert verdict.reason.startswith(
        "sort is new, and floats do not tell: the original itself is inaccurate on normal, "
    )


def test_an_output_that_is_nowhere_compared_is_not_accepted() -> None:
    def function(x: Array) -> tuple[Array, Array]:
        return ordered(x), np.full(x.shape, np.nan)

    pair = [plain(function, out=["f32", "f32"]) for _ in range(2)]
    verdict = verify_functions(pair[0], pair[1], "sort is new")
    assert verdict.status is Status.CANNOT_JUDGE
    assert verdict.reason.endswith("no element of output 1 can be compared")


def test_a_candidate_may_be_more_defined_but_not_under_strict() -> None:
    a, b = plain(lambda x: x * x / x), plain(lambda x: x)
    assert verify_functions(a, b, "").status is Status.TESTED
    assert verify_functions(a, b, "", strict=True).status is Status.REFUTED
    assert verify_functions(b, a, "").status is Status.REFUTED


@pytest.mark.parametrize("name", RIGHT)
@pytest.mark.parametrize("dtype", ["f16", "f32", "f64"])
def test_programs_that_are_only_run_fare_as_they_do_otherwise(name: str, dtype: str) -> None:
    """An estimate of the noise leads to what the algebra of noise leads to."""
    a, b = (executed(program) for program in RIGHT[name](dtype))
    assert compare_functions(a, b).outcome == "agree"


@pytest.mark.parametrize("name", WRONG)
@pytest.mark.parametrize("dtype", ["bf16", "f32"])
def test_wrong_programs_that_are_only_run_fail(name: str, dtype: str) -> None:
    a, b = (executed(program) for program in WRONG[name](dtype))
    assert "normal" in compare_functions(a, b).failed


def executed(program: Program) -> Plain:
    """A program as a function that nothing is known of."""
    types = [[term.type for term in terms] for terms in (program.inputs, program.outputs)]

    class Run(Plain):
        def own(self, inputs: Sequence[Array]) -> list[Array]:
            return execute(program, OWN, inputs)

        def double(self, inputs: Sequence[Array]) -> list[Array]:
            return execute(program, DOUBLE, inputs)

    return Run(lambda: None, *types)


def test_a_program_may_stand_on_either_side() -> None:
    x = tensor("X", "f32", (8, 32))
    program = over(x)(apply("abs", x))
    assert compare_functions(program, plain(np.abs)).outcome == "agree"
    assert compare_functions(plain(np.abs), program).outcome == "agree"
    assert compare_functions(program, plain(ordered)).outcome == "differ"
    assert compare_functions(program, program) == compare_floats(program, program)


def test_functions_of_other_types_are_refused() -> None:
    with pytest.raises(ShapeError, match=r"other inputs: f32\[8, 32\] and f16\[8, 32\]"):
        compare_functions(plain(ordered), plain(ordered, "f16"))
    with pytest.raises(ShapeError, match=r"other outputs: f32\[8, 32\] and i32\[8, 32\]"):
        compare_functions(plain(ordered), plain(ordered, out=["i32"]))
