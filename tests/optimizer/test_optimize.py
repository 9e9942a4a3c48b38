"""The whole way, from a function to a callable that is as fast as its answer."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import anyio
import jax
import jax.numpy as jnp
import msgspec
import numpy as np
import pytest
import pytest_asyncio
from answers import Remembering
from testkit.programs.opaque import unread

from aiosearch import AiosearchError
from aiosearch.codegen.native import llvm_library
from aiosearch.measure import (
    Act,
    ArrayType,
    Cause,
    ExecutorError,
    Lap,
    MockExecutor,
    Race,
    Samples,
    Stage,
)
from aiosearch.optimizer.decorator import optimized
from aiosearch.optimizer.errors import OptimizeError
from aiosearch.optimizer.optimization import optimize, optimize_sync
from aiosearch.optimizer.outcomes.results import Results
from aiosearch.testing import no_leaks

A = jnp.linspace(-1.0, 2.0, 64).reshape(8, 8)
B = jnp.cos(A)
DIAGONAL = "only the diagonal of the product"
FORMS = [DIAGONAL, f"{DIAGONAL}, transpose later", f"{DIAGONAL}, transpose later, 1 more step"]


def traced(a: jax.Array, b: jax.Array) -> jax.Array:
    return jnp.trace(a @ b)


def trace(inputs: Any) -> tuple[Any, ...]:
    a, b = (np.asarray(one, np.float64) for one in inputs)
    return (np.float32(np.sum(a * b.T)),)


def acts(rewritten: float) -> dict[str, Act]:
    """Rewritten programs take so many seconds, the original a millisecond; all are right."""
    found = {how: Act(seconds=rewritten, outputs=trace) for how in FORMS}
    found |= {f"{how}, written transposed": one for how, one in found.items()}
    return {"as written": Act(seconds=1e-3, outputs=trace), **found}


def executor(rewritten: float = 1e-4) -> MockExecutor:
    return MockExecutor(acts(rewritten))


class Noisy(MockExecutor):
    """The original seems a hundred times faster or slower than itself."""

    async def race(self, *args: Any, **options: Any) -> Race:
        race = await super().race(*args, **options)
        wall = tuple(1e-5 if number % 2 else 1e-1 for number in range(race.rounds))
        again = Lap("as written", dict.fromkeys(race.ways, Samples(wall, wall)))
        return msgspec.structs.replace(race, again=again)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Results]:
    with Results.open(tmp_path / "results.sqlite") as opened:
        yield opened


@pytest_asyncio.fixture
async def fast() -> AsyncIterator[MockExecutor]:
    async with executor() as opened:
        yield opened


async def found(store: Results | None, executor: MockExecutor, **more: Any) -> Any:
    options = {"effort": "quick", "target": "cpu", "kernels": False, **more}
    return await optimize(traced, A, B, results=store, executor=executor, **options)


async def test_a_faster_way_is_put_in(store: Results, fast: MockExecutor) -> None:
    made = await found(store, fast)
    assert made.report.faster
    (one,) = made.report.found
    assert one.answer.speedup == pytest.approx(10, rel=0.1)
    assert one.answer.verdict[0].startswith("proved")
    assert one.answer.evidence.answer_error_ulp < 4
    assert one.answer.evidence.flops == 128
    assert one.answer.evidence.timed_on == "normal inputs"
    assert str(made.report).startswith("traced: ")
    assert "def traced(a, b):" in made.source()
    assert made(A, B) == pytest.approx(float(traced(A, B)), rel=1e-5)


async def test_the_code_gives_the_tree_that_the_function_gives(
    store: Results, fast: MockExecutor
) -> None:
    def f(a: jax.Array, b: jax.Array) -> Any:
        return {"trace": traced(a, b), "given": (a, None), "number": 2}

    options: Any = {"effort": "quick", "target": "cpu", "kernels": False}
    made = await optimize(f, A, B, results=store, executor=fast, **options)
    assert made.report is not None
    assert made.report.faster
    assert made.lacks == ""
    module: dict[str, Any] = {}
    exec(made.source(), module)
    found, wanted = module["f"](A, B), f(A, B)
    assert jax.tree.structure(found) == jax.tree.structure(wanted)
    assert found["trace"] == pytest.approx(float(wanted["trace"]), rel=1e-5)


async def test_what_a_loop_runs_is_searched_and_put_into_it(store: Results) -> None:
    def f(a: jax.Array, b: jax.Array) -> Any:
        def step(at: int, state: Any) -> Any:
            return traced(state[1], b), unread(state[1])

        return jax.lax.fori_loop(0, 3, step, (jnp.zeros(()), a))[0]

    forms = {
        **acts(1e-4),
        "all that are faster": Act(seconds=1e-4),
    }
    options: Any = {"effort": "quick", "target": "cpu", "kernels": False}
    async with MockExecutor(forms) as opened:
        made = await optimize(f, A, B, results=store, executor=opened, **options)
    assert [one.partition(" ")[0] for one in made.report.left_alone] == ["reduce_precision"]
    assert [one.answer.faster for one in made.report.found] == [True]
    assert made.lacks == "a part of it stands in a scan"
    assert made(A, B) == pytest.approx(float(f(A, B)), rel=1e-5)


class Point(NamedTuple):
    """What only its own code has."""

    trace: Any
    given: Any


async def test_what_the_code_lacks_is_named(store: Results, fast: MockExecutor) -> None:
    options: Any = {"effort": "quick", "target": "cpu", "kernels": False}
    made = await optimize(
        lambda a, b: Point(traced(a, b), a), A, B, results=store, executor=fast, **options
    )
    assert "whose rest stays as it is written" in made.source()
    assert made.lacks == "a part of its result is of the type Point, and no dict, list or tuple"


async def test_where_nothing_is_faster_the_original_runs(store: Results) -> None:
    async with executor(rewritten=2e-3) as slow:
        made = await found(store, slow)
    assert not made.report.faster
    assert made.source() == ""
    assert "nothing faster was found" in str(made.report)
    assert made(A, B) == traced(A, B)


async def test_without_kernels_only_plain_jax_is_tried(store: Results, fast: MockExecutor) -> None:
    """It is another question: neither answer stands for the other."""
    plain, both = await found(store, fast), await found(store, fast, kernels=True)
    tried = [" ".join(one.how for one in made.report.found[0].tried) for made in (plain, both)]
    assert ["kernel" in one for one in tried] == [False, True]
    again = await found(store, fast)
    assert again.report.found[0].remembered
    assert again.report.found[0].answer == plain.report.found[0].answer


async def test_where_no_kernel_can_be_made_the_question_is_that_of_plain_jax(
    store: Results, fast: MockExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is said why, each time; when kernels can be made, its answer does not stand for them."""
    lack = "llvmlite, which compiles kernels, cannot be loaded"
    told: list[str] = []
    with monkeypatch.context() as without:
        without.setattr(llvm_library, "missing_llvm_reason", lambda: lack)
        await found(store, fast, kernels=True, tell=told.append)
        again = await found(store, executor(), kernels=True, tell=told.append)
    assert told.count(f"kernels are left out: {lack}") == 2
    assert told[-1] == "traced: found before"
    assert again.report.found[0].answer.key.terms == "plain JAX"
    both = await found(store, fast, kernels=True)
    assert not both.report.found[0].remembered


async def test_an_answer_is_found_again_without_an_executor(
    store: Results, fast: MockExecutor
) -> None:
    before = await found(store, fast)
    told: list[str] = []
    again = await found(store, executor(), tell=told.append)
    assert told == ["traced: found before"]
    assert again.report.found[0].remembered
    assert again.report.found[0].answer == before.report.found[0].answer
    assert "as found before" in str(again.report)


async def test_what_was_optimized_before_stands_for_its_original(
    store: Results, fast: MockExecutor
) -> None:
    before = await found(store, fast)
    for made in (before, optimized(before)):
        again = await optimize(
            made, A, B, effort="quick", target="cpu", results=store, executor=fast, kernels=False
        )
        assert again.original is traced
        assert again.report.found[0].remembered
        assert again(A, B) == before(A, B)


async def test_an_answer_goes_by_the_names_of_all_that_asked(
    store: Results, fast: MockExecutor
) -> None:
    """What computes the same is told of, and found again, by its own name."""

    def second(x: jax.Array, y: jax.Array) -> jax.Array:
        return jnp.trace(x @ y)

    await found(store, fast)
    again = await optimize(
        second, A, B, effort="quick", target="cpu", results=store, executor=fast, kernels=False
    )
    assert again.report.found[0].remembered
    assert str(again.report).startswith("second: ")
    assert "as found before, for traced" in str(again.report)
    assert "def second(x, y):" in again.source()
    (kept,) = store.all()
    assert kept.names == ("traced", "second")
    await optimize(second, A, B, target="cpu", results=store, executor=fast, kernels=False)
    (kept,) = store.all()
    assert (kept.effort, kept.names) == ("default", ("second", "traced"))


async def test_what_was_found_with_less_effort_is_searched_again(
    store: Results, fast: MockExecutor
) -> None:
    await found(store, fast)
    told: list[str] = []
    again = await optimize(
        traced, A, B, target="cpu", results=store, executor=fast, kernels=False, tell=told.append
    )
    assert told[:2] == ["traced: found before, with less effort", "traced: rewriting"]
    assert again.report.found[0].answer.effort == "default"
    await found(store, executor(), tell=told.append)
    assert told[-1] == "traced: found before"


async def test_what_noise_hides_is_remembered_as_a_guess(store: Results) -> None:
    async with Noisy(acts(1e-4)) as noisy:
        made = await found(store, noisy)
    assert made.report.found[0].in_doubt
    assert "too noisy" in str(made.report)
    (kept,) = store.all()
    assert not kept.faster
    assert kept.guesses


async def test_a_program_that_does_not_run_is_left_alone(store: Results) -> None:
    fails = Act(fails=(Stage.COMPILE, Cause.CRASHED))
    async with MockExecutor({"as written": fails}) as broken:
        made = await found(store, broken)
    assert made.report.found == ()
    assert "traced: the original does not run: as written crashed" in made.report.left_alone[0]
    assert made(A, B) == traced(A, B)


async def test_what_a_virtual_executor_makes_up_is_not_in_the_users_own_store(
    fast: MockExecutor, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    made = await found(None, fast)
    assert made.report.faster
    with Results.open() as own:
        assert own.all() == []


async def test_an_executor_that_is_not_open_is_said(store: Results) -> None:
    with pytest.raises(ExecutorError, match="the executor is not open"):
        await found(store, executor())


async def test_a_damaged_store_is_a_warning(tmp_path: Path, fast: MockExecutor) -> None:
    path = tmp_path / "results.sqlite"
    path.write_bytes(b"SQLite format 3\0" + b"not a database" * 3)
    warnings: list[str] = []
    with Results.open(path, warnings.append) as store:
        made = await found(store, fast)
        assert made.report.faster
        assert len(store.all()) == 1
    assert len(warnings) == 1
    assert "damaged" in warnings[0]


async def test_what_cannot_be_done_is_said(store: Results) -> None:
    for options, told in (
        ({"target": "tpu"}, "no target 'tpu'"),
        ({"target": "cuda"}, "jax has no GPU here"),
        ({"effort": "much"}, "no effort 'much': there are quick, default, exhaustive"),
    ):
        with pytest.raises(OptimizeError, match=told):
            await optimize(traced, A, B, results=store, **options)
    with pytest.raises(AiosearchError, match="cannot trace"):
        await optimize(lambda x: x if x.sum() > 0 else -x, A, results=store, target="cpu")


async def test_a_cancelled_call_leaves_nothing_behind(store: Results, fast: MockExecutor) -> None:
    """The process that rewrites is gone when the call has ended."""
    begun = asyncio.Event()

    def tell(text: str) -> None:
        begun.set()

    assert store.all() == []
    async with no_leaks():
        task = asyncio.create_task(found(store, fast, tell=tell))
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


async def test_a_cancel_scope_leaves_nothing_behind_either(
    fast: MockExecutor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such a scope cancels again whatever still waits, the closing of the user's own store too."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    options: Any = {"effort": "quick", "target": "cpu", "executor": fast}
    async with no_leaks():
        with anyio.CancelScope() as scope:
            await optimize(traced, A, B, tell=lambda text: scope.cancel(), **options)
        assert scope.cancelled_caught


def test_the_whole_way_on_this_cpu(tmp_path: Path) -> None:
    """Whatever wins here, the answer is right and stands alone."""
    path = tmp_path / "results.sqlite"
    with Results.open(path) as store:
        made = optimize_sync(traced, A, B, effort="quick", target="cpu", results=store)
    (one,) = made.report.found
    assert one.tried[0].how == "as written"
    assert all(ArrayType("float32", (8, 8)).dtype in text for text in one.answer.key.types)
    assert made(A, B) == pytest.approx(float(traced(A, B)), rel=1e-5)
    module: dict[str, Any] = {}
    exec(one.answer.text(), module)
    assert module["traced"](A, B) == pytest.approx(float(traced(A, B)), rel=1e-5)


async def test_under_other_settings_of_jax_it_is_another_question(
    store: Results, fast: MockExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A product of another precision takes another time."""
    monkeypatch.delenv("XLA_FLAGS", raising=False)
    usual = await found(store, fast)
    with jax.default_matmul_precision("highest"):
        precise = await found(store, fast)
        again = await found(store, fast)
    monkeypatch.setenv("XLA_FLAGS", "--xla_cpu_enable_fast_math=true")
    fast_math = await found(store, fast)
    keys = [made.report.found[0].answer.key for made in (usual, precise, fast_math)]
    assert [key.settings[:-1] for key in keys] == [
        (), ("matmul precision highest",), ("XLA_FLAGS=--xla_cpu_enable_fast_math=true",),
    ]  # fmt: skip
    assert {key.settings[-1] for key in keys} == {"plain JAX"}
    assert not precise.report.found[0].remembered
    assert again.report.found[0].remembered


async def test_it_is_made_for_the_settings_of_the_moment_in_which_it_begins(
    store: Results, fast: MockExecutor
) -> None:
    """Also where another task changes them meanwhile."""
    task = asyncio.create_task(found(store, fast))
    await asyncio.sleep(0)
    jax.config.update("jax_enable_x64", True)
    try:
        made = await task
        assert not made.takes(A, B)
    finally:
        jax.config.update("jax_enable_x64", False)
    assert made.report.found[0].answer.key.settings == ("plain JAX",)
    assert made.takes(A, B)
    assert made(A, B).dtype == "float32"


async def test_in_a_running_loop_the_settings_are_the_callers(tmp_path: Path) -> None:
    """Though it runs in a thread, which begins with settings of its own."""
    wide = np.linspace(-1.0, 2.0, 64).reshape(8, 8)
    with jax.enable_x64(True):
        store = Remembering(tmp_path / "results.sqlite")
        made = optimize_sync(traced, wide, wide, results=store, kernels=False)
        assert made.takes(wide, wide)
    (one,) = made.report.found  # type: ignore[union-attr]
    assert one.answer.key.types == ("float64[8,8]", "float64[8,8]")
    assert "x64" in one.answer.key.settings


async def test_arrays_that_it_was_found_with_are_not_kept(
    store: Results, fast: MockExecutor
) -> None:
    mine = A + 0
    held = weakref.ref(mine)
    options: Any = {"effort": "quick", "target": "cpu", "kernels": False}
    made = await optimize(traced, mine, B, results=store, executor=fast, **options)
    del mine
    gc.collect()
    assert held() is None
    assert made.takes(A, B)
