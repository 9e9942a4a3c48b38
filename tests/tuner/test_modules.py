"""Modules: each computes the same, takes no point away, and composes with all others."""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterator
from random import Random
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from aiosearch.testing.schedule_modules import check_schedule_module
from aiosearch.tuner import Sampler, SearchSpace, TunerError, find_hardware, hardware_names
from aiosearch.tuner.schedules.contractions import EinsumSchedule, EinsumSpec, lower
from aiosearch.tuner.schedules.modules import (
    SKIP,
    STANDARD,
    Branch,
    auto_inline,
    compose,
    find_module,
    library_call,
    multi_level_tiling,
    pipeline,
    split_k,
    swizzle_grid,
    use_matrix_unit,
)

X = jax.random.normal(jax.random.key(0), (3, 16, 24))
Y = jax.random.normal(jax.random.key(1), (24, 32))


def schedules(text: str, x: Any, y: Any, modules: Any, hardware: str) -> SearchSpace:
    start = EinsumSpec.of(text, x, y, epilogue="tanh").start()
    return SearchSpace(lambda s: compose(modules, s, start), hardware=find_hardware(hardware))


@pytest.mark.parametrize(("text", "axes"), [("bmk,kn->bmn", 3), ("mk,kn->nm", 2), ("mk,kn->n", 2)])
def test_every_schedule_computes_the_contraction(text: str, axes: int) -> None:
    x = X if axes == 3 else X[0]
    space = schedules(text, x, Y, STANDARD, "sm_90")
    wanted = np.tanh(np.einsum(text, np.asarray(x), np.asarray(Y)))
    random, notes = Random(0), set()
    for _ in range(10):
        schedule = space.build(space.sample(random))
        notes |= {note.split()[0] for note in schedule.notes}
        values = np.asarray(lower(schedule)(x, Y))
        assert values == pytest.approx(wanted, abs=1e-4)
    assert len(notes) >= 4


@pytest.mark.parametrize("module", [auto_inline, swizzle_grid, library_call, split_k])
def test_a_module_keeps_the_contract(module: Any) -> None:
    check_schedule_module(module)


def test_adding_a_module_takes_no_point_away() -> None:
    """For each module: all points of the others are still there, with it left as it is."""
    x, y = X[0, :4, :4], Y[:4, :4]
    for at, module in enumerate(STANDARD):
        others = [each for place, each in enumerate(STANDARD) if place != at]
        without = schedules("mk,kn->mn", x, y, others, "sm_80")
        whole = schedules("mk,kn->mn", x, y, STANDARD, "sm_80")
        random = Random(at)
        for _ in range(30):
            point = without.sample(random)
            assert whole.contains({**point.decisions, module.__name__: SKIP})


@pytest.mark.parametrize("name", hardware_names())
def test_every_row_of_hardware_has_valid_schedules(name: str) -> None:
    space = schedules("mk,kn->mn", X[0], Y, STANDARD, name)
    random = Random(0)
    for _ in range(20):
        schedule = space.build(space.sample(random))
        assert find_hardware(name).kind == "gpu" or not schedule.stages


def test_the_matrix_unit_wants_blocks_that_fill_it() -> None:
    x = jnp.zeros((256, 64), jnp.bfloat16)
    y = jnp.zeros((64, 256), jnp.bfloat16)
    space = schedules("mk,kn->mn", x, y, (multi_level_tiling(), use_matrix_unit), "sm_90")
    random, shaped = Random(0), 0
    for _ in range(40):
        trace = space.sample(random)
        if trace.decisions["use_matrix_unit"] == "wgmma":
            shaped += 1
            assert space.build(trace).block("m") % 64 == 0
    assert shaped


def test_the_matrix_unit_takes_82_lines_at_most() -> None:
    assert len(inspect.getsource(use_matrix_unit).splitlines()) <= 82


def test_stages_fit_in_shared_memory() -> None:
    x, y = jnp.zeros((1024, 1024)), jnp.zeros((1024, 1024))
    space = schedules("mk,kn->mn", x, y, (multi_level_tiling(), pipeline), "sm_80")
    random = Random(0)
    for _ in range(40):
        schedule = space.build(space.sample(random))
        assert schedule.stages * schedule.block_bytes() <= find_hardware("sm_80").shared_bytes


def test_a_wrong_module_is_found_out() -> None:
    """It says that the sum is in parts, and leaves half of it out."""

    def halved(s: Sampler, schedule: EinsumSchedule) -> Iterator[Branch]:
        def half() -> EinsumSchedule:
            contraction = schedule.contraction
            extents = {**contraction.extents}
            tiles = {**schedule.tiles, "m": (extents["m"], 1)}
            from dataclasses import replace

            return replace(schedule, tiles=tiles, contraction=replace(contraction, epilogue="tanh"))

        yield "half", half

    with pytest.raises(AssertionError, match=r"halved: .* computes another thing"):
        check_schedule_module(halved)


def test_sums_in_parts_are_added_up() -> None:
    space = schedules("mk,kn->mn", X[0], Y, (multi_level_tiling(), split_k), "generic")
    decisions = {
        "multi_level_tiling": "SRSR", "tile_m": (2, 8), "tile_n": (1, 32), "tile_k": (8, 3),
        "split_k": "in parts", "splits": 4,
    }  # fmt: skip
    schedule = space.build(space.replay(json.loads(json.dumps(decisions))))
    assert schedule.splits == 4
    wanted = np.tanh(np.asarray(X[0]) @ np.asarray(Y))
    assert np.asarray(lower(schedule)(X[0], Y)) == pytest.approx(wanted, abs=1e-4)


def test_modules_are_found_by_name() -> None:
    assert find_module("split_k") is split_k
    with pytest.raises(TunerError, match="did you mean split_k"):
        find_module("splitk")
