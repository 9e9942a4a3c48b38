"""Printed modules compute what their programs mean."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace
from testkit.kernels.pallas_run import agrees

from aiosearch.codegen.lower.lowering import lower
from aiosearch.codegen.pallas import CannotPrint, Tiling, dialect, plans, write
from aiosearch.codegen.passes.kernel_fusion import fuse_kernels
from aiosearch.devices import device
from aiosearch.tensor import Block, DType, Program, apply, tensor
from aiosearch.tensor.programs import BUILTINS, builtin

H200 = device("H200")


def _awkward(name: str) -> Program:
    """At sizes that are no powers of two, and just enough for kernels to be joined."""
    own = BUILTINS[name].sizes
    few = min(3, *own.values())
    sizes = {label: 66 // few if size > 16 else min(size, few) for label, size in own.items()}
    return builtin(name, DType.BF16, **sizes)


ALL = {program.outputs: program for program in map(_awkward, BUILTINS)}
"""The built-in programs; some are the same but for their sizes."""


@pytest.mark.parametrize("program", ALL.values(), ids=lambda program: program.name)
def test_every_built_in_gives_what_it_means_at_awkward_sizes_by_the_best_plan(
    program: Program,
) -> None:
    (best,) = plans(fuse_kernels(lower(program)), H200, 1)
    agrees(program, best.schedules, best.module)


def _rms_norm(dtype: DType) -> Program:
    program = builtin("rms_norm", dtype, row=5, feature=96, column=64)
    x, w = program.inputs
    block = Block((2,), 3)
    tile = block.load(x, loop=1)
    product = block.accumulate(tile @ block.load(w, (1,), 0))
    scaled = product / block.accumulate(tile, "rms")
    return Program("rms_norm", program.inputs, block.results((scaled, (1,))))


def _gqa(dtype: DType) -> Program:
    program = builtin("gqa", dtype, head=2, row=32, feature=16, key=64, value=24)
    q, k, v = program.inputs
    block = Block((2, 2), 4)
    e = apply("exp", block.load(q, (0, 1)) @ block.load(k, (0,), 2))
    weighted, total = block.accumulate(e @ block.load(v, (0,), 1)), block.accumulate(e, "sum")
    return Program("gqa", program.inputs, block.results((weighted / total, (0, 1))))


@pytest.mark.parametrize(
    ("made", "dtype", "tiles"),
    [
        (_rms_norm, DType.F32, {"j": 32, "k": 16}),
        (_gqa, DType.BF16, {"i": 1, "j": 16, "l": 16}),
    ],
)
def test_a_fused_kernel_is_one_kernel_that_loops(
    made: Callable[[DType], Program], dtype: DType, tiles: dict[str, int]
) -> None:
    program = made(dtype)
    (kernel,) = lower(program).kernels
    text = write(lower(program), {kernel.name: Tiling(tiles)})
    assert text.count("pl.pallas_call(") == 1
    assert text.count("lax.fori_loop(") == 1
    assert "lax.dot(" in text
    agrees(program, {kernel.name: Tiling(tiles)})


@pytest.mark.parametrize(
    ("fastest", "axes"), [(None, "ijk"), ("i", "ijk"), ("j", "jik"), ("k", "kij")]
)
def test_blocks_follow_each_other_first_along_the_first_axis(
    fastest: str | None, axes: str
) -> None:
    """Which that is changes nothing of the results; the order of the tiles never matters."""
    a, b = tensor("A", DType.F32, [2, 40, 24]), tensor("B", DType.F32, [2, 24, 72])
    program = Program("product", (a, b), (a @ b,))
    module = lower(program)
    tiling = Tiling({"k": 16, "j": 16, "i": 1}, fastest=fastest)
    text = write(module, {"product": tiling})
    steps = {"i": 2, "j": 3, "k": 5}
    assert f"grid={tuple(steps[one] for one in axes)}," in text
    found = re.findall(r"(\w) = pl\.program_id\((\d)\)", text)
    assert found
    assert all(axes[int(at)] == name for name, at in found)
    assert f"lambda {', '.join(axes)}: " in text
    agrees(program, {"product": tiling})
    made: dict[str, Any] = {}
    exec(text, made)
    given = [dialect.argument(one.dtype, one.shape) for one in module.inputs]
    lowered = dialect.lowered(made["product"], given, "NVIDIA H200", 132).as_text()
    assert f"grid_x = {steps[axes[0]]} : i32" in lowered


def test_what_is_no_axis_of_the_grid_cannot_be_the_fastest() -> None:
    module = lower(_rms_norm(DType.F32))
    tiling = Tiling({"j": 32, "k": 16}, fastest="k")
    with pytest.raises(CannotPrint, match="k is no axis of the grid, and cannot be the fastest"):
        write(module, {module.kernels[0].name: tiling})


def test_the_text_imports_nothing_but_jax() -> None:
    tree = ast.parse(write(lower(_gqa(DType.F32))))
    names = {
        name.split(".")[0]
        for node in ast.walk(tree)
        for name in (
            [each.name for each in node.names]
            if isinstance(node, ast.Import)
            else [node.module or ""]
            if isinstance(node, ast.ImportFrom)
            else []
        )
    }
    assert names == {"jax"}


@pytest.mark.parametrize("name", ["erf", "erfc"])
def test_a_program_may_be_called_as_what_it_computes(name: str) -> None:
    """Its kernel's name is then not that of the function which stands in for Triton's."""
    x = tensor("X", DType.F32, (64,))
    agrees(Program(name, (x,), (apply(name, x),)))


def test_an_output_without_elements_needs_no_kernel() -> None:
    x = tensor("x", DType.F32, [0, 4])
    text = write(lower(Program("nothing", (x,), (apply("exp", x),))))
    assert "pallas_call" not in text
    space: dict[str, Any] = {}
    exec(text, space)
    assert space["nothing"](None).shape == (0, 4)


@pytest.mark.parametrize("size", [1, 4095])
def test_sizes_that_are_no_powers_of_two_are_masked(size: int) -> None:
    x = tensor("x", DType.F32, [2, size])
    total = apply("sum", x, axes=(1,), keep=True)
    agrees(Program("awkward", (x,), (apply("exp", x) + total,)))


@pytest.mark.parametrize("axes", [(0,), (1,), (0, 1)])
def test_sums_of_few_rows_and_of_parts_that_become_one_number(axes: tuple[int, ...]) -> None:
    """A block has one of them where they lie apart in memory."""
    x = tensor("x", DType.F32, [4, 4096])
    program = Program("sums", (x,), (apply("sum", x * x, axes=axes),))
    found = plans(lower(program), replace(H200, units=4), 8)
    tiles = {tile for one in found for own in one.schedules.values() for tile in own.tiles.values()}
    assert (1 in tiles) == (1 in axes)
    for one in found:
        agrees(program, one.schedules, one.module)


def test_what_is_loaded_ahead_is_told_of_loops_alone() -> None:
    x = tensor("x", DType.F32, [64, 64])
    found = plans(lower(Program("map", (x,), (apply("exp", x),))), H200, 1)
    assert "ahead" not in write(found[0].module, found[0].schedules)
    found = plans(fuse_kernels(lower(builtin("rms_norm", DType.BF16))), H200, 1)
    assert "loaded ahead" in write(found[0].module, found[0].schedules)


def test_an_index_that_is_no_axis_of_the_grid_is_refused_by_name() -> None:
    module = lower(_rms_norm(DType.F32))
    with pytest.raises(CannotPrint, match="has no index z; it has i, j, k"):
        write(module, {module.kernels[0].name: Tiling({"z": 16})})


def test_a_tile_that_is_no_power_of_two_is_refused() -> None:
    module = lower(_rms_norm(DType.F32))
    with pytest.raises(CannotPrint, match="a tile of 24 along j is no power of 2"):
        write(module, {module.kernels[0].name: Tiling({"j": 24})})
