"""Programs are timed on inputs that suit them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from aiosearch.measure import (
    Act,
    ArrayType,
    Candidate,
    Cause,
    Compiled,
    Draw,
    Failure,
    MockExecutor,
    Stage,
)
from aiosearch.measure.random_inputs import NORMAL
from aiosearch.optimizer.array_types import array_types
from aiosearch.optimizer.race.benchmark_inputs import (
    POSITIVE,
    BenchmarkInputs,
    find_benchmark_inputs,
)
from aiosearch.tensor import Program
from aiosearch.tensor.text import parse

PAIR = parse("program pair(x: f32[64], y: f32[64]) {\n  a = add(x, y)\n  return a\n}\n")


async def found(program: Program, computes: Callable[..., Any]) -> BenchmarkInputs | Failure:
    """What suits a program, of which this is said to be the original on the device."""

    def outputs(inputs: Any) -> tuple[Any, ...]:
        with np.errstate(all="ignore"):
            return (computes(*inputs),)

    async with MockExecutor({"original": Act(outputs=outputs)}) as executor:
        original = await executor.compile(
            Candidate("original", "", "f", inputs=array_types(program))
        )
        assert isinstance(original, Compiled)
        return await find_benchmark_inputs(executor, program, original, 0)


async def draws(computes: Callable[..., Any], program: Program = PAIR) -> dict[int, Draw]:
    suits = await found(program, computes)
    assert isinstance(suits, BenchmarkInputs)
    assert suits.finite == 1
    return dict(suits.draws)


async def test_normal_inputs_suit_most_programs() -> None:
    suits = await found(PAIR, np.add)
    assert isinstance(suits, BenchmarkInputs)
    assert suits.draws == {0: NORMAL, 1: NORMAL}
    assert str(suits) == "normal inputs"


async def test_a_logarithm_is_taken_of_positive_numbers_and_the_rest_stays_normal() -> None:
    assert await draws(lambda x, y: np.log(x) + y) == {0: POSITIVE, 1: NORMAL}
    assert await draws(lambda x, y: x - np.sqrt(y)) == {0: NORMAL, 1: POSITIVE}
    assert await draws(lambda x, y: np.log(x * y)) == {0: POSITIVE, 1: POSITIVE}


async def test_probabilities_lie_between_zero_and_one() -> None:
    suits = await draws(lambda p, y: y * np.log(p) + (1 - y) * np.log1p(-p))
    assert 0 < suits[0].low < suits[0].high < 1
    assert suits[1] == NORMAL


async def test_what_overflows_gets_small_numbers() -> None:
    suits = await draws(lambda x, y: np.exp(200 * x) + y)
    assert suits[0].high - suits[0].low < 1
    assert suits[1] == NORMAL


async def test_where_nothing_suits_the_best_is_taken_and_the_rest_is_said() -> None:
    suits = await found(PAIR, lambda x, y: np.where(np.arange(64) < 16, np.nan, np.sqrt(x) + y))
    assert isinstance(suits, BenchmarkInputs)
    assert suits.finite == 0.75
    assert str(suits) == ("x between 0.125 and 2; y normal; 25 % of the outputs not finite")


async def test_numbers_that_are_compared_with_places_are_places() -> None:
    picks = parse(
        "program picks(at: i32[8], x: f32[8, 10]) {\n"
        "  a = reshape(at, shape=[8, 1])\n"
        "  b = iota(shape=[1, 10], axis=1, dtype=i32)\n"
        "  c = equal(a, b)\n"
        "  d = select(c, x, 0)\n"
        "  return d\n}\n"
    )
    assert await draws(lambda at, x: x, picks) == {0: Draw(0, 10), 1: NORMAL}


async def test_numbers_that_are_compared_with_nought_are_truth_values() -> None:
    mask = parse(
        "program kept(mask: i32[8], x: f32[8]) {\n"
        "  a = not_equal(mask, 0)\n"
        "  b = select(a, x, 0)\n"
        "  return b\n}\n"
    )
    assert await draws(lambda mask, x: x, mask) == {0: Draw(0, 2), 1: NORMAL}


async def test_every_candidate_draws_the_same() -> None:
    """What a candidate was compiled to stays; its inputs change."""
    suits = BenchmarkInputs(("x",), {0: POSITIVE})
    candidate = Candidate("one", "", "f", (ArrayType("float32", (4,)),))
    drawn = suits.on(Compiled(candidate, 1.0, b"code"))
    assert drawn.candidate.draws == {0: POSITIVE}
    assert drawn.executable == b"code"


@pytest.mark.parametrize("cause", [Cause.CRASHED, Cause.HUNG])
async def test_an_original_that_does_not_run_is_said(cause: Cause) -> None:
    acts = {"original": Act(fails=(Stage.RUN, cause))}
    async with MockExecutor(acts) as executor:
        original = await executor.compile(Candidate("original", "", "f", array_types(PAIR)))
        assert isinstance(original, Compiled)
        failure = await find_benchmark_inputs(executor, PAIR, original, 0)
    assert isinstance(failure, Failure)
    assert failure.cause is cause
