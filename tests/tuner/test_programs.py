"""Tensor programs whose kernels are scheduled by modules."""

from __future__ import annotations

import functools
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from testkit.kernels.native_run import MACHINES

from aiosearch.capture import capture
from aiosearch.devices import device
from aiosearch.optimizer import Answer, Evidence, Key, Timings
from aiosearch.tensor.text import write
from aiosearch.tuner import TunerError, tune
from aiosearch.tuner.kernels import KernelCall
from aiosearch.tuner.schedules.programs import (
    AS_WRITTEN,
    FORM,
    JOINED,
    LIBRARY,
    PROGRAM,
    TunableProgram,
    tunable_program,
    tunable_region,
)
from aiosearch.tuner.schedules.tile_modules import KernelTarget

X = jax.random.normal(jax.random.key(0), (24, 64))
W = jax.random.normal(jax.random.key(1), (64, 48))
HOST = KernelTarget(MACHINES["host"], 2)


def normed(x: jax.Array, w: jax.Array) -> jax.Array:
    return (x / jnp.sqrt(jnp.mean(x * x, -1, keepdims=True))) @ w


@pytest.mark.parametrize("target", [HOST, KernelTarget(device=device("H200"))], ids=["cpu", "gpu"])
def test_points_compute_the_function_on_both_printers(target: KernelTarget) -> None:
    kernel = tunable_program(normed, target=target)
    space, random = kernel.search_space(KernelCall((X, W))), Random(0)
    for _ in range(6):
        trace = space.sample(random)
        run = functools.partial(kernel.original, **trace.decisions)
        values = np.asarray(jax.jit(run)(X, W))
        assert values == pytest.approx(np.asarray(normed(X, W)), abs=1e-4)


def test_a_transposed_convolution_is_finite_wherever_that_of_jax_is() -> None:
    """Neither a hole of the image nor its padding meets an infinity of the weights."""

    def transposed(x: jax.Array, w: jax.Array) -> jax.Array:
        return jax.lax.conv_general_dilated(
            x, w, (1, 1), [(2, 2), (2, 2)], lhs_dilation=(2, 2),
            dimension_numbers=("NHWC", "HWIO", "NHWC"),
        )  # fmt: skip

    x = jax.random.normal(jax.random.key(0), (1, 3, 3, 8))
    w = jax.random.normal(jax.random.key(1), (4, 4, 8, 8)).at[0, 0, 0, 0].set(jnp.inf)
    kernel = tunable_program(transposed, target=HOST)
    expected = np.asarray(jax.jit(transposed)(x, w))
    finite = np.isfinite(expected)
    assert finite.any()
    assert not finite.all()
    forms = {trace.decisions[FORM]: trace for trace in kernel.seeds(KernelCall((x, w)))}
    for trace in forms.values():
        values = np.asarray(kernel.original(x, w, **trace.decisions))
        assert values[finite] == pytest.approx(expected[finite], abs=1e-4), trace.decisions


def test_a_result_has_the_form_that_the_function_gives_it() -> None:
    def halves(x: jax.Array) -> dict[str, tuple[jax.Array]]:
        return {"sum": (x.sum(-1),), "twice": (x * 2,)}

    kernel = tunable_program(halves, target=HOST)
    values = kernel.original(X, **_scheduled(kernel))
    assert jax.tree.structure(values) == jax.tree.structure(halves(X))
    assert np.asarray(values["twice"][0]) == pytest.approx(np.asarray(X * 2))


def _scheduled(kernel: TunableProgram) -> dict[str, Any]:
    """Decisions of a point that has kernels of ours."""
    (trace, *_) = kernel.seeds(KernelCall((X,)))
    assert trace.decisions[FORM] != LIBRARY
    return trace.decisions


def test_draws_of_a_program_of_several_kernels_are_of_all_its_forms() -> None:
    def layer(x: jax.Array, w: jax.Array) -> jax.Array:
        h = jax.nn.softmax(jax.nn.relu(normed(x, w)) @ w.T, -1)
        return normed(x + h, w) @ w.T

    kernel = tunable_program(layer, target=HOST)
    space, random = kernel.search_space(KernelCall((X, W))), Random(0)
    drawn = [space.sample(random) for _ in range(24)]
    forms = Counter(trace.decisions[FORM] for trace in drawn)
    (site,) = [site for site in drawn[0].sites if site.name == FORM]
    assert min(forms[branch] for branch in site.members()) >= 6
    assert all(space.contains(trace.decisions) for trace in drawn)


def scaled(x: jax.Array, w: jax.Array) -> jax.Array:
    return (x * 2.0) @ w + x @ (w * 3.0)


def scaled_once(x: jax.Array, w: jax.Array) -> jax.Array:
    return 5.0 * (x @ w)


def answered(source: str = "def f(x, w):\n    return 5.0 * (x @ w)\n") -> TunableProgram:
    """A region for which `optimize` has found another program, and a source of that."""
    written, rewritten = (capture(each, X, W).program for each in (scaled, scaled_once))
    key = Key("scaled", ("f32[24, 64]", "f32[64, 48]"), "cpu", "", "")
    evidence = Evidence(program=write(rewritten), original=write(written))
    timings = Timings(2e-3, 2e-3, 1e-3, 1.0)
    answer = Answer(key, "scaled", "f", source, ("proved",), timings, True, "quick", evidence)
    return tunable_region(written, answer, target=HOST)


def test_a_region_begins_with_what_optimize_has_found() -> None:
    kernel = answered()
    space = kernel.search_space(KernelCall((X, W)))
    assert space.default().decisions == {PROGRAM: AS_WRITTEN, FORM: LIBRARY}
    first, *_ = kernel.favourites(KernelCall((X, W)))
    assert first.decisions[PROGRAM].startswith("rewritten")
    assert first.decisions[FORM].startswith("optimized")
    scheduled = {trace.decisions[PROGRAM] for trace in kernel.seeds(KernelCall((X, W)))}
    assert scheduled == {AS_WRITTEN, first.decisions[PROGRAM]}


def test_equal_programs_compute_the_same_in_all_their_forms() -> None:
    kernel = answered()
    call = KernelCall((X, W))
    traces = [*kernel.favourites(call), *kernel.seeds(call)]
    points = {trace.sketch[:2]: trace for trace in traces}
    assert len(points) >= 4
    for trace in points.values():
        run = functools.partial(kernel.original, **trace.decisions)
        values = np.asarray(jax.jit(run)(X, W))
        assert values == pytest.approx(np.asarray(scaled(X, W)), abs=1e-3)


def test_a_point_of_an_answer_is_none_where_another_answer_was_found() -> None:
    (first, *_) = answered().favourites(KernelCall((X, W)))
    another = answered("def f(x, w):\n    return (x * 5.0) @ w\n")
    assert not another.search_space(KernelCall((X, W))).contains(first.decisions)


def test_untuned_it_is_what_xla_makes_of_it() -> None:
    kernel = tunable_program(normed, target=HOST)
    assert kernel.search_space(KernelCall((X, W))).default().decisions == {FORM: LIBRARY}


def test_what_the_code_generator_predicts_best_is_tried_first() -> None:
    kernel = tunable_program(normed, target=HOST)
    call = KernelCall((X, W))
    seeds = kernel.seeds(call)
    space = kernel.search_space(call)
    assert {trace.decisions[FORM] for trace in seeds} >= {"fused"}
    random = Random(0)
    drawn = [space.sample(random).derived.get("predicted", 0.0) for _ in range(20)]
    assert seeds[0].derived["predicted"] < min(drawn)


def test_what_is_no_program_is_said() -> None:
    kernel = tunable_program(lambda x: jnp.sort(x.reshape(-1)), target=HOST)
    with pytest.raises(TunerError, match="no tensor program"):
        kernel.search_space(KernelCall((X,))).default()
    held = tunable_program(lambda x: x @ W, target=HOST)
    with pytest.raises(TunerError, match="give them as arguments"):
        held.search_space(KernelCall((X,))).default()


async def test_a_program_is_tuned_and_then_runs_as_its_record_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    kernel = tunable_program(normed, table=tmp_path / "table.json")
    report = await tune(kernel, X, W, trials=6)
    assert report.record.checked in ("tested", "proved")
    assert not report.rejected
    assert kernel.configuration(X, W) == report.configuration
    assert np.asarray(jax.jit(kernel)(X, W)) == pytest.approx(np.asarray(normed(X, W)), abs=1e-4)


def test_kernels_with_rows_in_common_may_run_as_one() -> None:
    """A point with `joined` computes the same, in fewer phases, and a record of before it came
    runs as it did.
    """

    def chain(x: jax.Array, w: jax.Array) -> jax.Array:
        y = x / jnp.sqrt(jnp.mean(x * x, -1, keepdims=True)) @ w
        return jnp.exp(jnp.tanh(y) @ w) @ w

    x = jax.random.normal(jax.random.key(0), (64, 32))
    w = jax.random.normal(jax.random.key(1), (32, 32)) * 0.1
    kernel = tunable_program(chain, target=HOST)
    joined = [seed for seed in kernel.seeds(KernelCall((x, w))) if seed.decisions.get(JOINED)]
    assert joined
    decisions = {**joined[0].decisions}
    before = {name: value for name, value in decisions.items() if name != JOINED}
    for chosen in (decisions, before):
        np.testing.assert_allclose(kernel.original(x, w, **chosen), chain(x, w), rtol=1e-3)
    assert kernel.schedule(x, w, **decisions).joined
    assert not kernel.schedule(x, w, **before).joined
