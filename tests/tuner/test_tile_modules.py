"""Modules of the tile IR: the code generator's fixed spaces are one composition of them."""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterator
from pathlib import Path
from random import Random

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from testkit.kernels.lowered import norm
from testkit.kernels.native_run import MACHINES, program

from aiosearch.codegen.ir import TileKernel
from aiosearch.codegen.lower.lowering import lower
from aiosearch.codegen.native import CpuMachine
from aiosearch.codegen.schedule.space import choice_at, neighbouring_choices, ranked_choices
from aiosearch.devices import device
from aiosearch.tensor import DType, tensor
from aiosearch.testing.schedule_modules import check_tile_module
from aiosearch.tuner import Sampler, SearchSpace, TunerError
from aiosearch.tuner.schedules.modules import SKIP
from aiosearch.tuner.schedules.programs import LIBRARY, tunable_program
from aiosearch.tuner.schedules.tile_modules import (
    STANDARD,
    KernelTarget,
    TileBranch,
    TileSchedule,
    decisions_of,
    find_tile_module,
    multi_level_tiling,
    pipeline,
    schedule_kernel,
    swizzle_grid,
    use_matrix_unit,
    vectorize_unroll,
)


def product(dtype: DType = DType.F32, rows: int = 40, inner: int = 96) -> TileKernel:
    x, w = tensor("X", dtype, (rows, inner)), tensor("W", dtype, (inner, 160))
    return lower(program(x @ w)).kernels[0]


def rows_of_a_norm() -> TileKernel:
    return lower(norm()).kernels[0]


LARGE = CpuMachine(
    "x86_64-unknown-linux-gnu",
    "sapphirerapids",
    "+avx2,+fma,+f16c,+avx512f,+avx512bw,+avx512dq,+avx512vl,+avx512bf16,+amx-tile,+amx-bf16",
)
TARGETS = {
    "avx512": KernelTarget(MACHINES["host"], 2, constant=["W"]),
    "portable": KernelTarget(MACHINES["portable"], 2),
    "H200": KernelTarget(device=device("H200")),
}


def space_of(kernel: TileKernel, target: KernelTarget, modules: object = STANDARD) -> SearchSpace:
    def space(s: Sampler) -> list[TileSchedule]:
        return schedule_kernel(modules, s, kernel, target)  # type: ignore[arg-type]  # a sequence of modules

    return SearchSpace(space)


@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)
@pytest.mark.parametrize("kernel", [product(), product(DType.BF16), rows_of_a_norm()], ids=str)
def test_every_point_of_the_fixed_space_is_reached(
    kernel: TileKernel, target: KernelTarget
) -> None:
    """A sample of those that a prediction ranks, and of the neighbours that trials lead to."""
    fixed, composed, random = target.space(kernel), space_of(kernel, target), Random(0)
    ranked = ranked_choices(fixed)
    for choice in random.sample(ranked, min(8, len(ranked))):
        near = neighbouring_choices(fixed, choice.point)
        for each in [choice, *random.sample(near, min(6, len(near)))]:
            values = {
                parameter.name: parameter.values[at]
                for parameter, at in zip(fixed.parameters, each.point, strict=True)
            }
            decisions = decisions_of(STANDARD, [kernel], target, {kernel.name: values})
            (schedule,) = composed.build(composed.replay(json.loads(json.dumps(decisions))))
            assert schedule.scheduled() == each.schedule


@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)
def test_every_composed_point_is_one_of_the_fixed_space(target: KernelTarget) -> None:
    kernel, random = product(), Random(1)
    composed = space_of(kernel, target)
    for _ in range(20):
        for schedule in composed.build(composed.sample(random)):
            fixed = target.space(schedule.kernel)
            point = tuple(
                next(
                    at
                    for at, value in enumerate(parameter.values)
                    if value == schedule.values[parameter.name]
                )
                for parameter in fixed.parameters
            )
            assert choice_at(fixed, point) is not None


@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)
def test_adding_a_module_takes_no_point_away(target: KernelTarget) -> None:
    kernel = product()
    whole = space_of(kernel, target)
    names = {site for seed in range(8) for site in whole.sample(Random(seed)).decisions}
    for at, module in enumerate(STANDARD):
        others = [each for place, each in enumerate(STANDARD) if place != at]
        without, random = space_of(kernel, target, others), Random(at)
        left_out = {name: SKIP for name in names if name.endswith(f".{module.__name__}")}
        for _ in range(6):
            point = without.sample(random)
            assert whole.contains({**left_out, **point.decisions}), module.__name__


def test_a_structure_says_which_levels_are_cut() -> None:
    def drawn(structure: str) -> set[str]:
        space = space_of(product(), TARGETS["portable"], [multi_level_tiling(structure)])
        traces = [space.sample(Random(seed)) for seed in range(16)]
        return {name.rpartition(".")[2] for trace in traces for name in trace.decisions}

    assert {"panels", "row"} <= drawn("S")
    assert "serial" not in drawn("S")
    assert "registers" not in drawn("SR")
    assert {"panels", "row", "serial", "registers"} <= drawn("SRS")
    with pytest.raises(TunerError, match="no structure of tiles"):
        multi_level_tiling("SXS")


def test_only_the_matrix_unit_draws_tiles_of_it() -> None:
    amx = KernelTarget(LARGE, 2, constant=["W"])
    kernel = product(DType.BF16, inner=512)
    space, random, seen = space_of(kernel, amx), Random(0), set[bool]()
    for _ in range(40):
        trace = space.sample(random)
        (schedule,) = space.build(trace)
        if trace.decisions[f"{kernel.name}.use_matrix_unit"] != SKIP:
            assert schedule.values["registers"][2]
            seen.add(True)
        elif "registers" in schedule.sites:
            assert not schedule.values["registers"][2]
            seen.add(False)
    assert seen == {True, False}
    assert len(inspect.getsource(use_matrix_unit).splitlines()) <= 82


def test_a_sum_in_parts_is_two_kernels_with_sites_of_their_own() -> None:
    x = jax.random.normal(jax.random.key(0), (16, 1024))
    w = jax.random.normal(jax.random.key(1), (1024, 64))
    kernel = tunable_program(jnp.matmul, target=TARGETS["H200"])
    whole = kernel.schedule(x, w, form=LIBRARY).lowered.forms["fused"].kernels[0]
    space = space_of(whole, TARGETS["H200"])
    name = f"{whole.name}.split_k"
    split = next(
        trace
        for trace in (space.sample(Random(seed)) for seed in range(40))
        if trace.decisions[name] != SKIP
    )
    parts, joining = space.build(split)
    assert parts.kernel.name == f"{whole.name}_parts"
    assert joining.kernel.name == whole.name
    values = kernel.original(x, w, form="fused", **split.decisions)
    assert np.asarray(values) == pytest.approx(np.asarray(x @ w), abs=2e-3)


@pytest.mark.parametrize("module", [swizzle_grid, pipeline, vectorize_unroll])
def test_a_module_keeps_the_contract(module: object) -> None:
    check_tile_module(module, KernelTarget(MACHINES["host"], 2))  # type: ignore[arg-type]  # of a list of functions


def greedy(s: Sampler, schedule: TileSchedule) -> Iterator[TileBranch]:
    """Demands for all points what only its own branch needs."""
    s.require("row" in schedule.sites, "rows are tiled")
    yield "nothing", lambda: schedule


def test_a_module_that_takes_points_away_is_found_out() -> None:
    with pytest.raises(AssertionError, match=r"greedy: .* could be reached without the module"):
        check_tile_module(greedy, KernelTarget(MACHINES["host"], 2))


PLUGIN = '''
def odd_panels(s, schedule):
    """Blocks of three panels, which the code generator does not list."""
    if schedule.free("panels"):
        yield "three", lambda: schedule.with_value("panels", 3)
'''


def test_a_module_of_a_distribution_is_found_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "odd_panels_plugin.py").write_text(PLUGIN)
    metadata = tmp_path / "odd_panels_plugin-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: odd-panels\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(
        "[aiosearch.tile_modules]\nodd_panels = odd_panels_plugin:odd_panels\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    module = find_tile_module("odd_panels")
    kernel = product()
    space = space_of(kernel, TARGETS["portable"], [module, *STANDARD])
    name = f"{kernel.name}.odd_panels"
    schedules = [space.build(space.sample(Random(seed)))[0] for seed in range(12)]
    assert any(schedule.values["panels"] == 3 for schedule in schedules)
    assert name in space.sample(Random(0)).decisions
    with pytest.raises(TunerError, match="did you mean odd_panels"):
        find_tile_module("odd_panel")
