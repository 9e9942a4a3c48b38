"""Functions of several pieces: what is faster alone must be faster in its place."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import msgspec
import numpy as np
import pytest
from testkit.programs.biased_executor import Favouring
from testkit.programs.opaque import unread

from aiosearch.codegen.lower.lowering import lower
from aiosearch.codegen.pallas import write
from aiosearch.codegen.pallas.dialect import CUSTOM_CALLS
from aiosearch.codegen.passes.kernel_fusion import fuse_kernels
from aiosearch.measure import (
    Act,
    Cause,
    Compiled,
    Failure,
    JaxExecutor,
    Lap,
    MockExecutor,
    Race,
    Samples,
    Stage,
)
from aiosearch.optimizer.effort import Effort, effort_step
from aiosearch.optimizer.handback.exported import exported
from aiosearch.optimizer.jax_settings import current_settings
from aiosearch.optimizer.optimization import optimize
from aiosearch.optimizer.outcomes.answer import Answer, Key, Timings
from aiosearch.optimizer.outcomes.report import WholeFunctionResult
from aiosearch.optimizer.outcomes.results import Results
from aiosearch.optimizer.race.selection import CONFIRMATION_SEED_OFFSET
from aiosearch.optimizer.race.whole_function import WholeRace, stored_arrangement
from aiosearch.optimizer.trace import Spliced, cut
from aiosearch.tensor.programs import builtin

A = jnp.linspace(-1.0, 2.0, 64).reshape(8, 8)
B = jnp.cos(A)
DIAGONAL = "only the diagonal of the product"
FORMS = [DIAGONAL, f"{DIAGONAL}, transpose later", f"{DIAGONAL}, transpose later, 1 more step"]


def looped(a: jax.Array, b: jax.Array) -> jax.Array:
    start = jnp.trace(a @ b)
    return jax.lax.fori_loop(0, 3, lambda step, x: jnp.sin(x), start)


def called(a: jax.Array, b: jax.Array) -> jax.Array:
    like = jax.ShapeDtypeStruct((), "float32")
    return jax.pure_callback(np.float32, like, jnp.trace(a @ b))


def trace(inputs: Any) -> tuple[Any, ...]:
    a, b = (np.asarray(array, np.float64) for array in inputs)
    return (np.float32(np.sum(a * b.T)),)


def acts(whole: Act) -> dict[str, Act]:
    """The product is ten times as fast when rewritten; the function as a whole is what it is."""
    fast = dict.fromkeys(FORMS, Act(seconds=1e-4, outputs=trace))
    turned = {f"{how}, written transposed": timing for how, timing in fast.items()}
    slow = {
        "as written": Act(seconds=1e-3, outputs=trace),
        "the whole as written": Act(seconds=2e-3),
    }
    return {**slow, **fast, **turned, "all that are faster": whole}


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Results]:
    with Results.open(tmp_path / "results.sqlite") as opened:
        yield opened


async def found(f: Any, store: Results, whole: Act, *, opened: bool = True, **changes: Any) -> Any:
    executor = MockExecutor(acts(whole))
    options = {"effort": "quick", "target": "cpu", "results": store, "executor": executor}
    options |= {"kernels": False, **changes}
    if not opened:
        return await optimize(f, A, B, **options)
    async with executor:
        return await optimize(f, A, B, **options)


async def test_what_is_faster_as_a_whole_stays(store: Results) -> None:
    optimized = await found(looped, store, Act(seconds=1e-3))
    assert isinstance(optimized.report.whole, WholeFunctionResult)
    assert optimized.report.whole.answer.speedup == pytest.approx(2, rel=0.1)
    speedup = optimized.report.whole.answer.speedup
    assert str(optimized.report).startswith(f"looped: {speedup:.2f} times as fast as written")
    assert optimized.report.faster
    assert len(optimized.spliced.replacements) == 1
    np.testing.assert_allclose(optimized(A, B), looped(A, B), rtol=1e-5)


async def test_what_is_not_faster_as_a_whole_is_taken_out_again(store: Results) -> None:
    optimized = await found(looped, store, Act(seconds=2e-3))
    assert optimized.report.found[0].answer.faster
    assert not optimized.report.faster
    assert optimized.spliced.replacements == {}
    assert "not faster, and so left as it is: with the faster parts replaced" in str(
        optimized.report
    )
    assert optimized(A, B) == looped(A, B)


@pytest.mark.parametrize("seconds", [1e-3, 2e-3])
async def test_it_is_remembered(store: Results, seconds: float) -> None:
    before = await found(looped, store, Act(seconds=seconds))
    messages: list[str] = []
    again = await found(looped, store, Act(), opened=False, tell=messages.append)
    assert messages == ["looped: found before"]
    assert again.report.whole.remembered
    assert again.report.faster is before.report.faster
    assert again.source() == before.source()
    assert "as found before" in str(again.report.whole)


class Noisy(MockExecutor):
    """From this seed on, the function as it is seems far faster or slower than itself."""

    def __init__(self, whole: Act, seed: int) -> None:
        super().__init__(acts(whole))
        self._from = seed

    async def race(self, contenders: Sequence[Compiled], **options: Any) -> Race:
        race = await super().race(contenders, **options)
        if contenders[0].candidate.name != "the whole as written" or options["seed"] < self._from:
            return race
        wall = tuple(1e-5 if number % 2 else 1e-1 for number in range(race.rounds))
        again = Lap("the whole as written", dict.fromkeys(race.ways, Samples(wall, wall)))
        return msgspec.structs.replace(race, again=again)


@pytest.mark.parametrize("seed", [0, CONFIRMATION_SEED_OFFSET])
async def test_what_noise_hides_is_not_remembered(store: Results, seed: int) -> None:
    """Neither in the race of all nor in the one that is to confirm who won it."""
    options: Any = {"effort": "quick", "target": "cpu", "results": store, "kernels": False}
    async with Noisy(Act(seconds=1e-3), seed) as executor:
        noisy = await optimize(looped, A, B, executor=executor, **options)
    assert noisy.report is not None
    assert "not faster for certain, as the machine is too noisy" in str(noisy.report)
    later = await found(looped, store, Act(seconds=1e-3))
    assert later.report.faster
    assert not later.report.whole.remembered


async def test_a_function_that_cannot_leave_this_process_is_left_as_it_is(store: Results) -> None:
    optimized = await found(called, store, Act())
    assert "called is left as it is, as it could not be timed as a whole" in str(optimized.report)
    assert optimized.spliced.replacements == {}
    assert not optimized.report.faster


async def test_a_function_of_one_piece_has_no_second_race(store: Results) -> None:
    optimized = await found(lambda a, b: jnp.trace(a @ b), store, Act())
    assert optimized.report.whole == ""


@pytest.mark.parametrize("stage", [Stage.COMPILE, Stage.RACE])
async def test_an_arrangement_that_fails_is_told_and_out(store: Results, stage: Stage) -> None:
    messages: list[str] = []
    whole = Act(fails=(stage, Cause.CRASHED))
    optimized = await found(looped, store, whole, tell=messages.append)
    assert any("as a whole" in text and "crashed" in text for text in messages)
    assert optimized.spliced.replacements == {}
    assert not optimized.report.faster


@pytest.mark.parametrize("number", [2.0, 3, np.float32(0.5)])
async def test_numbers_may_be_among_the_arguments(store: Results, number: Any) -> None:
    def scaled(a: jax.Array, b: jax.Array, by: Any) -> jax.Array:
        return looped(a, b) * by

    async with MockExecutor(acts(Act(seconds=1e-3))) as executor:
        options: Any = {"effort": "quick", "target": "cpu", "results": store, "kernels": False}
        optimized = await optimize(scaled, A, B, number, executor=executor, **options)
    assert optimized.report.faster
    np.testing.assert_allclose(optimized(A, B, number), scaled(A, B, number), rtol=1e-5)


def answer(name: str, saved: float) -> Answer:
    key = Key(name, ("f32[8,8]",), "cpu", "1", "1")
    return Answer(key, name, name, name, (), Timings(1.0, 1.0, 1.0 - saved, 1.0), True, "quick")


async def test_of_several_programs_the_one_that_helps_stays() -> None:
    def two(a: jax.Array, b: jax.Array) -> jax.Array:
        return unread(jnp.diagonal(a @ b)) @ jnp.tanh(b)

    parts = cut(two, A, B)
    answers = {subject: answer(f"{at}", 0.5 - at / 10) for at, subject in enumerate(parts.subjects)}
    assert len(answers) == 2
    slow, fast = Act(seconds=2e-3), Act(seconds=1e-3)
    names = [f"only {subject.program.name}, {at}" for at, subject in enumerate(answers)]
    whole = {
        "the whole as written": slow,
        "all that are faster": slow,
        names[0]: slow,
        names[1]: fast,
    }
    async with MockExecutor(whole) as executor:
        race = WholeRace(executor, effort_step(Effort.QUICK), 0, (A, B), print)
        loaded = {piece.subject: piece.original for piece in parts.regions}
        stored = await race.answer(answers[parts.subjects[0]].key, parts, answers, loaded)  # type: ignore[arg-type]
    assert isinstance(stored, Answer)
    assert stored_arrangement(stored, answers) == {parts.subjects[1]: answers[parts.subjects[1]]}


async def test_of_three_programs_the_two_stay_that_pay_together() -> None:
    """All together gain nothing, as the second loses what the others gain; each gains alone."""

    def three(a: jax.Array, b: jax.Array) -> jax.Array:
        sorted_rows = unread(jnp.diagonal(a @ b)) @ jnp.tanh(b)
        return unread(sorted_rows) + jnp.sum(jnp.exp(a), axis=0)

    parts = cut(three, A, B)
    answers = {subject: answer(f"{at}", 0.5 - at / 10) for at, subject in enumerate(parts.subjects)}
    assert len(answers) == 3
    first, second, third = (f"{subject.program.name}, {at}" for at, subject in enumerate(answers))
    seconds = {f"only {first}": 1.5, f"only {second}": 2.8, f"only {third}": 1.7}
    seconds |= {f"all but {second}": 1.2, f"all but {first}": 2.5, f"all but {third}": 2.3}
    whole = {"the whole as written": Act(2e-3), "all that are faster": Act(2e-3)}
    whole |= {name: Act(milliseconds / 1e3) for name, milliseconds in seconds.items()}
    async with MockExecutor(whole) as executor:
        race = WholeRace(executor, effort_step(Effort.QUICK), 0, (A, B), print)
        loaded = {piece.subject: piece.original for piece in parts.regions}
        stored = await race.answer(answers[parts.subjects[0]].key, parts, answers, loaded)  # type: ignore[arg-type]
    assert isinstance(stored, Answer)
    assert {*stored_arrangement(stored, answers)} == {parts.subjects[0], parts.subjects[2]}
    assert stored.speedup == pytest.approx(2 / 1.2, rel=0.03)
    (won,) = (trial for trial in stored.evidence.tried if trial.won)
    assert won.how == f"all but {second}"


async def test_the_real_thing_is_raced_on_the_arguments_own_values() -> None:
    """Weights, numbers and what stands for an array, on a device process of its own."""

    def scaled(a: jax.Array, b: jax.Array, by: float) -> jax.Array:
        return looped(a, b) * by

    parts = cut(scaled, A, jax.ShapeDtypeStruct((8, 8), "float32"), 2.0)
    (subject,) = parts.subjects
    answers = {subject: answer("0", 0.5)}
    async with JaxExecutor("cpu") as executor:
        race = WholeRace(executor, effort_step(Effort.QUICK), 0, (A, B), print)
        stored = await race.answer(
            answers[subject].key, parts, answers, {subject: parts.regions[0].original}
        )
    assert isinstance(stored, Answer)
    assert stored.timings.original > 0


async def test_what_calls_lapack_keeps_what_is_faster_in_it(store: Results) -> None:
    """It is compiled in one process and timed in another."""

    def solved(a: jax.Array, b: jax.Array) -> jax.Array:
        return jnp.linalg.solve(a + 8 * jnp.eye(8), b) * jnp.trace(a @ b)

    options: Any = {"effort": "quick", "target": "cpu", "results": store, "kernels": False}
    async with Favouring(lambda candidate: "as written" not in candidate.name) as executor:
        optimized = await optimize(solved, A, B, executor=executor, **options)
    assert optimized.report is not None
    assert isinstance(optimized.report.whole, WholeFunctionResult), str(optimized.report)
    assert optimized.report.faster
    np.testing.assert_allclose(optimized(A, B), solved(A, B), rtol=1e-5)


async def test_an_exported_function_gives_what_the_function_gives() -> None:
    spliced = Spliced(cut(looped, A, B))
    text = exported(spliced, current_settings())
    assert not isinstance(text, Failure)
    scope: dict[str, Any] = {}
    exec(text.source, scope)
    np.testing.assert_allclose(scope["whole"](A, B)[0], looped(A, B), rtol=1e-6)


async def test_an_exported_function_may_have_kernels_for_a_gpu() -> None:
    """jax refuses to export calls of Triton's kernels unless it is told who reads them."""
    program = builtin("rms_norm", "bf16", row=8, feature=64, column=64)
    module = fuse_kernels(lower(program))
    scope: dict[str, Any] = {}
    exec(write(module, {}), scope)

    def normalised(x: jax.Array, w: jax.Array) -> jax.Array:
        return jax.lax.fori_loop(0, 2, lambda _, y: scope[module.name](y, w), x)

    x, w = jnp.ones((8, 64), jnp.bfloat16), jnp.ones((64, 64), jnp.bfloat16)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # jax deprecates Pallas' Triton back end
        text = exported(Spliced(cut(normalised, x, w)), current_settings(), platforms=["cuda"])
    assert not isinstance(text, Failure), text
    loaded: dict[str, Any] = {}
    exec(text.source, loaded)
    again = jax.jit(loaded["whole"]).trace(x, w).lower(lowering_platforms=("cuda",))
    assert CUSTOM_CALLS[0] in again.as_text()


KEYS = {
    impl: jax.random.split(jax.random.key(3, impl=impl), 2)
    for impl in ("threefry2x32", "rbg", "unsafe_rbg")
}


@pytest.mark.parametrize("impl", KEYS)
async def test_an_exported_function_takes_and_gives_the_bits_of_keys(impl: str) -> None:
    def drawn(key: jax.Array, a: jax.Array, b: jax.Array) -> Any:
        first, second = jax.random.split(key)
        closed = jax.random.uniform(KEYS["threefry2x32"][1])
        return second, jax.random.normal(first, (8,)) + closed + looped(a, b), 2.0

    key = KEYS[impl][0]
    text = exported(Spliced(cut(drawn, key, A, B)), current_settings())
    assert not isinstance(text, Failure)
    scope: dict[str, Any] = {}
    exec(text.source, scope)
    next_key, numbers, two = scope["whole"](jax.random.key_data(key), A, B)
    expected = drawn(key, A, B)
    np.testing.assert_array_equal(next_key, jax.random.key_data(expected[0]))
    np.testing.assert_allclose(numbers, expected[1], rtol=1e-6)
    assert two == expected[2]


async def test_keys_may_be_among_the_arguments() -> None:
    """One with its own bits, several of another kind, and what stands for one."""

    def drawn(first: jax.Array, several: jax.Array, last: jax.Array, a: jax.Array) -> jax.Array:
        noise = jax.vmap(jax.random.normal)(several)
        return looped(a, B) + jax.random.normal(first) + jax.random.normal(last) + noise

    key = KEYS["threefry2x32"][0]
    examples = (key, KEYS["rbg"], jax.ShapeDtypeStruct(key.shape, key.dtype), A)
    parts = cut(drawn, *examples)
    subject = parts.subjects[0]
    answers = {subject: answer("0", 0.5)}
    async with JaxExecutor("cpu") as executor:
        race = WholeRace(executor, effort_step(Effort.QUICK), 0, examples, print)
        stored = await race.answer(
            answers[subject].key, parts, answers, {subject: parts.regions[0].original}
        )
    assert isinstance(stored, Answer), str(stored)
    assert stored.timings.original > 0
