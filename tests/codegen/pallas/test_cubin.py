"""Machine code for a GPU that is not there."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path

import pytest
from testkit.hosts.in_process_machines import until

from aiosearch.codegen.lower.lowering import lower
from aiosearch.codegen.pallas import Tiling, choices, cubin, plans, write
from aiosearch.codegen.pallas.cost.block_demand import block_demand
from aiosearch.codegen.pallas.cost.kernel_cost import TilingPrediction
from aiosearch.codegen.pallas.cubin import (
    Argument,
    CannotCompile,
    CompiledKernel,
    Cubin,
    compile_cubin,
    missing_compiler,
)
from aiosearch.codegen.pallas.layout import TileLayout
from aiosearch.codegen.pallas.nodes import TileNodes
from aiosearch.codegen.passes.kernel_fusion import fuse_kernels
from aiosearch.devices import device
from aiosearch.measure.worker.executables import GRAPH
from aiosearch.tensor import DType
from aiosearch.tensor.programs import BUILTINS, builtin
from aiosearch.testing import no_leaks

H200 = device("H200")
wheels = pytest.mark.skipif(missing_compiler() is not None, reason=missing_compiler() or "")


async def test_without_the_wheels_a_sentence_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cubin, "_wheel_paths", lambda name: False)
    with pytest.raises(CannotCompile, match="install aiosearch with the extra cuda-aot"):
        await compile_cubin("", "f", [], H200)


@wheels
@pytest.mark.parametrize("name", BUILTINS)
async def test_the_best_plan_of_every_built_in_becomes_machine_code_without_spills(
    name: str,
) -> None:
    (best,) = plans(fuse_kernels(lower(builtin(name, DType.BF16))), H200, 1)
    given = [Argument(one.dtype, one.shape) for one in best.module.inputs]
    made = await compile_cubin(write(best.module, best.schedules), name, given, H200)
    assert [one.name for one in made.kernels] == [one.name for one in best.module.kernels]
    assert {one.spilled_bytes for one in made.kernels} == {0}


@wheels
async def test_what_a_thread_cannot_hold_is_known_to_be_spilled() -> None:
    """One warp gets a tile that four would need."""
    module = fuse_kernels(lower(builtin("rms_norm", DType.BF16, row=64)))
    (kernel,) = module.kernels
    tiling = Tiling({"i": 64, "j": 256, "j1": 64}, warps=1, stages=2)
    given = [Argument(one.dtype, one.shape) for one in module.inputs]
    made = await compile_cubin(write(module, {kernel.name: tiling}), module.name, given, H200)
    assert (made.kernels[0].spilled_bytes or 0) > 1000


def test_spills_are_read_of_the_log_where_nothing_else_tells_them() -> None:
    said = (
        "I1127 17:22:00.1 11122 subprocess_compilation.cc:349] ptxas warning : Registers are"
        " spilled to local memory in function 'norm', 184 bytes spill stores, 187 bytes spill loads"
    )
    kernels = tuple(
        CompiledKernel(name, None, stored, 0, 1, 32)
        for name, stored in (("norm", None), ("fits", None), ("seen", 8))
    )
    found = cubin._with_spills(Cubin(kernels, b"", None), said)
    assert [one.spilled_bytes for one in found.kernels] == [184, 0, 8]


async def test_what_takes_too_long_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compiling cannot be asked to stop: its process is killed, whatever it does."""
    monkeypatch.setattr(cubin, "missing_compiler", lambda: None)
    async with no_leaks():
        with pytest.raises(CannotCompile, match=r"f: not compiled within 0\.5 s"):
            await compile_cubin("while True: pass", "f", [], H200, seconds=0.5)


async def test_who_is_cancelled_leaves_no_process_behind(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Also where it is in the middle of its work."""
    monkeypatch.setattr(cubin, "missing_compiler", lambda: None)
    begun = tmp_path / "begun"
    endless = f"open({str(begun)!r}, 'x').close()\nwhile True: pass"
    async with no_leaks():
        waiting = asyncio.create_task(compile_cubin(endless, "f", [], H200))
        await until(begun.exists)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting


async def test_what_the_compiler_has_started_ends_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As ptxas, which may take longer than all else."""
    monkeypatch.setattr(cubin, "missing_compiler", lambda: None)
    begun = tmp_path / "begun"
    starting = f"""
import pathlib, subprocess
other = subprocess.Popen(["sleep", "1000"])
pathlib.Path({str(begun)!r}).write_text(str(other.pid) + "\\n")
other.wait()
"""
    waiting = asyncio.create_task(compile_cubin(starting, "f", [], H200))
    await until(lambda: begun.exists() and begun.read_text().endswith("\n"))
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    await until(lambda: not _runs(int(begun.read_text())))


def _runs(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


@wheels
async def test_shared_memory_is_what_was_predicted() -> None:
    module = fuse_kernels(lower(builtin("gated_mlp", DType.BF16)))
    (kernel,) = module.kernels
    given = [Argument(one.dtype, one.shape) for one in module.inputs]
    tiling = choices(kernel, H200)[0]
    made = await compile_cubin(write(module, {kernel.name: tiling}), module.name, given, H200)
    asked = block_demand(TileLayout(TileNodes(kernel), tiling))
    wanted = TilingPrediction(asked, tiling.warps, tiling.stages, H200)
    assert [one.shared_bytes for one in made.kernels] == [wanted.shared_bytes]


@wheels
@pytest.mark.parametrize("copies", [1, 4])
@pytest.mark.parametrize("options", [GRAPH, {}])
async def test_a_loop_that_is_timed_is_one_graph(options: Mapping[str, str], copies: int) -> None:
    """By itself XLA has the host look whether there is another turn."""
    module = fuse_kernels(lower(builtin("rms_norm", DType.BF16)))
    (best,) = plans(module, H200, 1)
    text = f"""{write(best.module, best.schedules)}

from aiosearch.measure.worker.executables import repeated
looped = repeated({module.name}, 128, {copies})
"""
    given = [Argument(one.dtype, one.shape) for one in module.inputs] * copies
    made = await compile_cubin(text, "looped", given, H200, options=options)
    assert made.graph == bool(options)


@wheels
async def test_what_the_compiler_says_is_passed_on() -> None:
    with pytest.raises(CannotCompile, match="nowhere"):
        await compile_cubin("def f(): raise ValueError('nowhere')", "f", [], H200)
