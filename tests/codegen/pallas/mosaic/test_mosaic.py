"""Kernels for Mosaic GPU: their text, its numbers in Mosaic's interpreter, and its machine code.

The interpreter simulates shared memory, copies and barriers on a CPU, so numbers here are those of
the printed text, not of a GPU's instructions. Where jax has no such interpreter, text alone is
checked.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from testkit.kernels.pallas_run import EPSILON, drawn

from aiosearch.codegen import ir
from aiosearch.codegen.lower.lowering import lower
from aiosearch.codegen.pallas import (
    CannotPrint,
    Tiling,
    described_kernels,
    dialect,
    missing_mosaic,
    mosaic_tilings,
    write_mosaic,
)
from aiosearch.codegen.pallas.cubin import Argument, CompiledKernel, compile_cubin, missing_compiler
from aiosearch.codegen.pallas.cubin_process import mosaic_kernels
from aiosearch.codegen.passes.kernel_fusion import fuse_kernels
from aiosearch.devices import device
from aiosearch.tensor import DType, Program, apply, referee, tensor
from aiosearch.tensor.programs import BUILTINS, builtin

H100 = device("H100")
wheels = pytest.mark.skipif(missing_compiler() is not None, reason=missing_compiler() or "")

ATTENTION = {"head": 2, "row": 64, "feature": 64, "key": 128, "value": 64}
SMALL: Mapping[str, Mapping[str, int]] = {
    "rms_norm": {"row": 16, "feature": 128, "column": 128},
    "gated_mlp": {"row": 8, "feature": 128, "hidden": 128},
    "lora": {"row": 8, "feature": 128, "column": 64},
    "lora_demo": {"feature": 128, "column": 64},
    "linear_layernorm": {"row": 16, "feature": 128, "column": 256},
    "ntrans": {"row": 4, "feature": 256},
    "moe_gate": {"row": 8, "feature": 128},
    "mlp_down": {"row": 8, "feature": 128, "hidden": 128, "column": 64},
    "attention": ATTENTION,
    "gqa": ATTENTION,
    "qk_norm": ATTENTION,
    "qk_norm_v": ATTENTION,
}
"""Sizes at which a kernel has two steps or more in its loop, and the interpreter is quick."""

COMPILED = [
    ("rms_norm", {"row": 8}),
    ("rms_norm", {"row": 16}),
    ("gated_mlp", {"row": 8}),
    ("gated_mlp", {"row": 16}),
    ("lora", {"row": 64}),
    *((name, {}) for name in BUILTINS if name != "conv_bias_relu"),
]


def fused(program: Program) -> ir.Module:
    return fuse_kernels(lower(program))


def printable(program: Program) -> ir.Module:
    """With fused kernels where each of those suits a block, else as the program is lowered."""
    module = fused(program)
    try:
        best(module)
    except CannotPrint:
        return lower(program)
    return module


def best(module: ir.Module) -> dict[str, Tiling]:
    return {kernel.name: mosaic_tilings(kernel, H100)[0] for kernel in module.kernels}


def defined(module: ir.Module, tilings: Mapping[str, Tiling]) -> Any:
    space: dict[str, Any] = {}
    exec(write_mosaic(module, tilings), space)
    return space[module.name]


@pytest.fixture
def mosaic_gpu() -> Any:
    """jax's module of that name."""
    reason = missing_mosaic()
    if reason is not None:
        pytest.skip(reason)
    return importlib.import_module("jax.experimental.pallas.mosaic_gpu")


def simulated(
    module: ir.Module, tilings: Mapping[str, Tiling], arrays: list[Any], mosaic_gpu: Any
) -> Any:
    if not hasattr(mosaic_gpu, "InterpretGPUParams"):
        pytest.skip(f"the Mosaic GPU of jax {jax.__version__} has no interpreter")
    function = defined(module, tilings)
    return np.asarray(jax.jit(lambda *values: function(*values, interpret=True))(*arrays), float)


@pytest.mark.parametrize("name", SMALL)
def test_the_text_computes_what_the_program_means(name: str, mosaic_gpu: Any) -> None:
    program = builtin(name, DType.BF16, **SMALL[name])
    module = printable(program)
    arrays = drawn(module.inputs)
    (truth,) = referee.run(program, [np.asarray(array, float) for array in arrays])
    result = simulated(module, best(module), arrays, mosaic_gpu)
    most = EPSILON[DType.BF16] * max(1.0, float(np.abs(truth).max()))
    np.testing.assert_allclose(result, truth, rtol=0, atol=most)


@pytest.mark.parametrize("stages", [2, 3, 4])
def test_slots_that_are_used_again_hold_the_right_step(stages: int, mosaic_gpu: Any) -> None:
    """Five steps of the loop, in fewer slots."""
    program = builtin("gated_mlp", DType.F16, row=8, feature=320, hidden=64)
    module = fused(program)
    arrays = drawn(module.inputs)
    (truth,) = referee.run(program, [np.asarray(array, float) for array in arrays])
    tilings = {
        kernel.name: next(
            tiling
            for tiling in mosaic_tilings(kernel, H100)
            if tiling.stages == stages and 64 in tiling.tiles.values()
        )
        for kernel in module.kernels
    }
    result = simulated(module, tilings, arrays, mosaic_gpu)
    np.testing.assert_allclose(result, truth, atol=EPSILON[DType.F16] * np.abs(truth).max())


def test_few_rows_become_the_columns_of_a_product() -> None:
    module = fused(builtin("gated_mlp", DType.BF16))
    text = write_mosaic(module, {"gated_mlp_1": Tiling({"j": 64, "k": 64}, warps=4, stages=3)})
    assert "plgpu.ACC((64, 8), jnp.float32)" in text
    assert "W1_smem.at[slot].T, X_smem.at[slot].T)" in text


def test_many_rows_stay_the_rows_of_a_product() -> None:
    module = fused(builtin("gated_mlp", DType.BF16, row=128))
    tiling = Tiling({"i": 64, "j": 128, "k": 64}, warps=4, stages=3)
    text = write_mosaic(module, {"gated_mlp_1": tiling})
    assert "plgpu.ACC((64, 128), jnp.float32)" in text
    assert ", X_smem.at[slot], W1_smem.at[slot])" in text


@pytest.mark.usefixtures("mosaic_gpu")
@pytest.mark.parametrize("name", SMALL)
def test_the_text_lowers_for_a_gpu_that_is_not_there(name: str) -> None:
    module = printable(builtin(name, DType.BF16, **SMALL[name]))
    function = defined(module, best(module))
    arguments = [dialect.argument(buffer.dtype, buffer.shape) for buffer in module.inputs]
    lowered = dialect.lowered(function, arguments, "NVIDIA H100", 132).as_text()
    assert lowered.count("mosaic_gpu") >= len(module.kernels)


@wheels
@pytest.mark.usefixtures("mosaic_gpu")
@pytest.mark.parametrize(("name", "sizes"), COMPILED)
async def test_kernels_become_machine_code_of_a_warpgroup_without_spills(
    name: str, sizes: Mapping[str, int]
) -> None:
    module = printable(builtin(name, DType.BF16, **sizes))
    arrays = [Argument(buffer.dtype, buffer.shape) for buffer in module.inputs]
    cubin = await compile_cubin(write_mosaic(module, best(module)), module.name, arrays, H100)
    assert b"sm_90a" in cubin.executable
    named = {kernel.name: kernel for kernel in cubin.kernels}
    ours = [named[kernel.name] for kernel in module.kernels]
    assert {(kernel.threads, kernel.spilled_bytes) for kernel in ours} == {(128, 0)}
    assert all(kernel.registers for kernel in ours)
    # What pads arrays is XLA's.
    assert not [name for name in named.keys() - {each.name for each in ours} if "pad" not in name]


def test_a_launch_is_read_of_what_mosaic_dumps(tmp_path: Path) -> None:
    """Kernels come in the order in which they were lowered, which is not that of their names, nor
    that in which ptxas had them."""
    launch = (
        "%1 = gpu.launch async [%5] blocks(%a, %b, %c) in (%d = %c96, %e = %c2, %f = %c1)"
        " threads(%g, %h, %i) in (%j = %c128, %k = %c1, %l = %c1)"
        " dynamic_shared_memory_size %c36912_i32 {"
    )
    for name in ("norm_1_1", "product_0"):
        (tmp_path / f"{name}.before_layout_inference.txt").write_text(launch)
    (tmp_path / "norm_1_0.ptxas").write_text(
        "ptxas info    : Function properties for norm_1_mosaic_gpu_kernel\n"
        "    0 bytes stack frame, 8 bytes spill stores, 8 bytes spill loads\n"
        "ptxas info    : Used 40 registers, used 2 barriers"
    )
    assert list(mosaic_kernels(tmp_path)) == [
        CompiledKernel("product", None, None, 36912, 192, 128),
        CompiledKernel("norm_1", 40, 8, 36912, 192, 128),
    ]


REFUSED = [
    ("conv_bias_relu", {}, "a tile of 1722368 elements for t0"),
    ("ntrans", {"feature": 8192}, "is written in the loop"),
    ("lora_demo", {}, "rows here and columns there"),
]


@pytest.mark.parametrize(("name", "sizes", "reason"), REFUSED)
def test_what_suits_no_block_is_refused_with_the_reason(
    name: str, sizes: Mapping[str, int], reason: str
) -> None:
    """Of the last one, the fused kernel, as x would be the rows of one matrix and the columns of
    another."""
    with pytest.raises(CannotPrint, match=reason):
        best(fused(builtin(name, DType.BF16, **sizes)))


@pytest.mark.parametrize(
    ("tiling", "reason"),
    [
        (Tiling({"j": 64, "k": 64}, warps=8), "8 warps is no warpgroup, which has 4"),
        (Tiling({"j": 32, "k": 64}), "has no side of 64 rows"),
        (Tiling({"j": 64}), "4096 elements along an axis, and a copy takes 256"),
        (Tiling({"j": 256, "k": 256}, stages=3), "bytes of shared memory: choose smaller tiles"),
    ],
)
def test_a_tiling_that_no_warpgroup_runs_is_refused_with_the_reason(
    tiling: Tiling, reason: str
) -> None:
    module = fused(builtin("gated_mlp", DType.BF16))
    with pytest.raises(CannotPrint, match=reason):
        write_mosaic(module, {"gated_mlp_1": tiling})


def test_an_operand_of_short_rows_in_memory_is_refused() -> None:
    module = fused(builtin("moe_gate", DType.BF16, row=64, feature=128))
    with pytest.raises(CannotPrint, match="8 elements along its last axis, which are no multiple"):
        write_mosaic(module, {"moe_gate_1": Tiling({"i": 64, "k": 64})})


def test_what_is_summed_over_is_not_padded() -> None:
    module = fused(builtin("gated_mlp", DType.BF16, feature=4000))
    with pytest.raises(CannotPrint, match="tiles of 64 do not divide k, which has 4000 values"):
        write_mosaic(module, {"gated_mlp_1": Tiling({"j": 64, "k": 64})})


def test_numbers_of_32_bits_are_not_transposed() -> None:
    written = fused(builtin("linear_layernorm", DType.BF16))
    with pytest.raises(CannotPrint, match=r"t0: f32.* would be transposed"):
        write_mosaic(written, {"linear_layernorm_0": Tiling({"j": 64, "k": 128})})
    z = tensor("z", DType.F32, (8, 1024))
    summed = fused(Program("summed", (z,), (apply("sum", z, axes=(0,)),)))
    with pytest.raises(CannotPrint, match=r"z: f32.* would be transposed"):
        best(summed)


def test_a_part_of_a_row_is_no_row() -> None:
    x = tensor("x", DType.BF16, (8, 8192))
    first = apply("slice", x, axis=1, start=0, stop=1024)
    module = fused(Program("first", (x,), (first * first,)))
    for tiling in (Tiling({"i": 1}), Tiling({"i": 1, "j": 128})):
        with pytest.raises(CannotPrint, match=r"is no (whole )?row"):
            write_mosaic(module, {"first": tiling})


def test_a_convolution_is_refused_as_it_reads_at_sums_of_indices() -> None:
    module = fused(builtin("conv_bias_relu", DType.BF16))
    with pytest.raises(CannotPrint, match=r"at j \+ -1 along an axis, and copies take whole tiles"):
        write_mosaic(module, {"conv_bias_relu_0": Tiling({"i": 1, "j": 1, "k": 1})})


@pytest.mark.parametrize("feature", [200, 8192])
def test_a_row_that_threads_do_not_share_evenly_or_hold_is_refused(feature: int) -> None:
    module = fused(builtin("ntrans", DType.BF16, feature=feature))
    with pytest.raises(CannotPrint, match=f"{feature} elements for t0 is no whole row"):
        write_mosaic(module, {"ntrans": Tiling({"i": 1})})


def test_blocks_without_products_hold_floats_alone() -> None:
    x = tensor("x", DType.I32, (8, 256))
    module = fused(Program("doubled", (x,), (x + x,)))
    with pytest.raises(CannotPrint, match=r"x: i32.* holds i32"):
        best(module)


def test_arrays_are_padded_along_short_axes_and_cut_behind_the_kernel() -> None:
    module = lower(builtin("moe_gate", DType.BF16))
    text = write_mosaic(module, best(module))
    assert "jnp.pad(t0, ((0, 56), (0, 0)))" in text
    assert "out = out[:8, :8]" in text


def test_a_row_is_loaded_from_memory_and_reduced_to_one_number() -> None:
    module = fused(builtin("ntrans", DType.BF16))
    text = write_mosaic(module, best(module))
    assert "H[block_0], plgpu.Layout.WG_STRIDED((4096,), vec_size=8)" in text
    assert "t2 = jnp.sum((t1 * t1), axis=0)" in text
    assert "copy_gmem_to_smem" not in text


def test_kernels_in_a_text_are_described() -> None:
    module = fused(builtin("mlp_down", DType.BF16))
    described = described_kernels(write_mosaic(module, best(module)), module.name)
    assert [kernel.ir.split("(")[0] for kernel in described] == [
        "kernel mlp_down_1",
        "kernel mlp_down_2",
    ]
