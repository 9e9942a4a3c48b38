"""The whole way with weights that stay the same, from a function to a callable."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import msgspec
import numpy as np
import pytest
import pytest_asyncio

from aiosearch.measure import Act, Compiled, Failure, Inputs, MockExecutor
from aiosearch.measure.random_inputs import draw
from aiosearch.optimizer.handback.optimized import Optimized
from aiosearch.optimizer.optimization import optimize
from aiosearch.optimizer.outcomes.results import Results
from aiosearch.optimizer.trace import Packed, Spliced

X = jnp.linspace(-1.0, 2.0, 32).reshape(4, 8)
W, V = jnp.cos(jnp.arange(64.0)).reshape(8, 8), jnp.sin(jnp.arange(64.0)).reshape(8, 8)
PLAIN = "written transposed"


class Computing(MockExecutor):
    """Takes pretended time, and gives what the sources compute."""

    def __init__(self, *fast: str) -> None:
        super().__init__({how: Act(seconds=1e-4 * (place + 1)) for place, how in enumerate(fast)})

    async def run(self, compiled: Compiled, inputs: Inputs) -> tuple[Any, ...] | Failure:
        wanted = compiled.candidate
        if isinstance(inputs, int):
            inputs = [draw(one, inputs, at) for at, one in enumerate(wanted.inputs)]
        scope: dict[str, Any] = {}
        exec(wanted.source, scope)
        return tuple(map(np.asarray, jax.tree.leaves(jax.jit(scope[wanted.function])(*inputs))))


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Results]:
    with Results.open(tmp_path / "results.sqlite") as opened:
        yield opened


@pytest_asyncio.fixture
async def executor() -> AsyncIterator[Computing]:
    """What lies ready is fastest, and another spelling is second."""
    async with Computing("w made beforehand", PLAIN) as opened:
        yield opened


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """What is found for weights that are an argument."""

    async def once() -> Any:
        with Results.open(tmp_path_factory.mktemp("made") / "results.sqlite") as store:
            async with Computing("w made beforehand", PLAIN) as executor:
                return await found(store, executor)

    return asyncio.run(once())


def linear(x: Any, w: Any) -> Any:
    return x @ w.T


async def found(
    store: Results, executor: Computing, f: Any = linear, *args: Any, **more: Any
) -> Any:
    options: dict[str, Any] = {"constant_argnums": 1, "effort": "quick", "target": "cpu"}
    options |= {"kernels": False, **more}
    return await optimize(f, *(args or (X, W)), results=store, executor=executor, **options)


def packed(made: Any) -> list[Any]:
    """The arrays that are kept."""
    return jax.tree.leaves(made.spliced.packs(made.spliced.cut.held))


def routes(made: Any) -> Routes:
    """Counts which of the two functions is traced."""
    ((subject, one),) = made.spliced.replacements.items()
    assert isinstance(one, Packed)
    counts = Routes()
    counting = Packed(
        one.positions, one.pack, counts.counted("packed", one.run),
        counts.counted("otherwise", one.otherwise),
    )  # fmt: skip
    counts.fast = Optimized(Spliced(made.spliced.cut, {subject: counting}))
    return counts


class Routes:
    """An optimized function, and the ways that its calls have been compiled to go."""

    fast: Optimized[..., Any]

    def __init__(self) -> None:
        self.taken: list[str] = []

    def counted(self, name: str, run: Any) -> Any:
        def function(*inputs: Any) -> Any:
            self.taken.append(name)
            return run(*inputs)

        return function


def test_weights_are_laid_out_once_and_the_best_without_that_stays_beside(made: Any) -> None:
    (one,) = made.report.found
    assert one.answer.speedup == pytest.approx(10, rel=0.1)
    assert one.answer.key.constant == (1,)
    assert one.answer.evidence.packed_bytes == W.nbytes
    (array,) = packed(made)
    np.testing.assert_array_equal(array, W.T)
    for text in ("def linear(x, w):", "def linear_pack(w):", "def linear_packed(x, w_packed):"):
        assert text in made.source()
    np.testing.assert_allclose(made(X, W), linear(X, W), rtol=1e-5)


def test_another_array_runs_what_needs_nothing_beforehand(made: Any) -> None:
    """Also one with the same numbers: they are not compared."""
    counts = routes(made)
    for w in (W, V, W + 0, W):
        np.testing.assert_allclose(counts.fast(X, w), linear(X, w), rtol=1e-5)
    assert counts.taken == ["packed", "otherwise"]
    np.testing.assert_allclose(counts.fast(X, np.asarray(W)), linear(X, W), rtol=1e-5)


async def test_the_answer_is_remembered_and_packed_again(made: Any, store: Results) -> None:
    """With the arrays of that call, in whatever process."""
    store.keep(made.report.found[0].answer)
    again = await found(store, Computing(), linear, X, V)
    assert again.report.found[0].remembered
    np.testing.assert_array_equal(packed(again)[0], V.T)
    np.testing.assert_allclose(again(X, V), linear(X, V), rtol=1e-5)


async def test_with_other_constants_it_is_another_question(
    made: Any, store: Results, executor: Computing
) -> None:
    store.keep(made.report.found[0].answer)
    other = await found(store, executor, constant_argnums=())
    assert not other.report.found[0].remembered
    assert "pack" not in other.source()
    assert len(store.all()) == 2


def test_transformations_take_the_way_that_fits(made: Any) -> None:
    """Weights that a caller's trace closes over are the same array; those it takes are tracers."""
    counts = routes(made)
    inside = jax.jit(lambda x: counts.fast(x, W))
    np.testing.assert_allclose(inside(X), linear(X, W), rtol=1e-5)
    assert counts.taken == ["packed"]
    np.testing.assert_allclose(jax.jit(counts.fast)(X, W), linear(X, W), rtol=1e-5)
    assert counts.taken == ["packed", "otherwise"]
    for number in (0, 1):
        ours, theirs = (
            jax.grad(lambda *args, f=f: f(*args).sum(), number)(X, W) for f in (counts.fast, linear)
        )
        np.testing.assert_allclose(ours, theirs, rtol=1e-5)
    rows = jnp.stack([X, X + 1])
    batch = jax.vmap(counts.fast, (0, None))(rows, W)
    np.testing.assert_allclose(batch, linear(rows, W), rtol=1e-5)


async def test_a_weight_that_was_given_up_is_an_error_as_it_always_is(
    made: Any, store: Results
) -> None:
    mine = W + 0
    store.keep(made.report.found[0].answer)
    made = await found(store, Computing(), linear, X, mine)
    made(X, mine)
    mine.delete()
    with pytest.raises(RuntimeError, match="deleted"):
        made(X, mine)
    np.testing.assert_allclose(made(X, W), linear(X, W), rtol=1e-5)


async def test_weights_that_there_is_no_memory_to_lay_out_are_left_and_it_is_said(
    made: Any, store: Results
) -> None:
    answer = made.report.found[0].answer
    vast = "def linear_pack(w):\n    return (jnp.zeros(1 << 45),)\n\n\ndef unused"
    source = "import jax.numpy as jnp\n" + answer.source.replace("def linear_pack(", f"{vast}(")
    store.keep(msgspec.structs.replace(answer, source=source))
    told: list[str] = []
    without = await found(store, Computing(), tell=told.append)
    assert "no memory for what it makes beforehand" in told[-1]
    assert told[-1] in without.report.left_alone
    np.testing.assert_allclose(without(X, W), linear(X, W), rtol=1e-5)


async def test_what_is_closed_over_is_constant_where_it_pays_as_a_whole(store: Results) -> None:
    """XLA may prepare it as well, and so the function is raced as it is written."""
    f: Any = lambda x: x @ W.T  # noqa: E731
    async with Computing("x1 made beforehand", "all that are faster") as executor:
        made = await found(store, executor, f, X, constant_argnums=())
    (one,) = made.report.found
    assert one.answer.packing is not None
    assert len(made.spliced.replacements) == len(packed(made)) == 1
    np.testing.assert_allclose(made(X), linear(X, W), rtol=1e-5)
    store.forget()
    store.keep(one.answer)
    async with Computing() as executor:
        made = await found(store, executor, f, X, constant_argnums=())
    assert made.report.found[0].remembered
    assert made.spliced.replacements == {}


async def test_constants_that_are_no_arrays_of_jax_may_change_and_are_not_packed(
    made: Any, store: Results
) -> None:
    mine = np.asarray(W).copy()
    store.keep(made.report.found[0].answer)
    made = await found(store, Computing(), linear, X, mine)
    assert packed(made) == []
    np.testing.assert_allclose(made(X, mine), linear(X, W), rtol=1e-5)
    mine[:] = V
    np.testing.assert_allclose(made(X, mine), linear(X, V), rtol=1e-5)


async def test_shapes_may_stand_for_arrays_of_which_nothing_can_be_made(
    made: Any, store: Results
) -> None:
    shapes = [jax.ShapeDtypeStruct(one.shape, one.dtype) for one in (X, W)]
    store.keep(made.report.found[0].answer)
    made = await found(store, Computing(), linear, *shapes)
    assert packed(made) == []
    assert made.report.found[0].answer.packing is not None
    np.testing.assert_allclose(made(X, W), linear(X, W), rtol=1e-5)
