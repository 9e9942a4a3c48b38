"""What is predicted of Pallas kernels on a GPU that need not be there, and what becomes of them.

    python benchmarks/gpuplans.py                          # every built-in program, as written
    python benchmarks/gpuplans.py --only gqa --rows 1,8 --plans 3 --device A100

A figure for each kernel of the best plans: its grid and tiles, the time that is predicted beside
the least that the device allows, and registers as they are predicted. With the extra `cuda-aot`
each plan is compiled too: registers, spills and shared memory are then ptxas' own.
"""

from __future__ import annotations

import argparse
import asyncio
import math

from lib.figures import figure
from lib.kernels.rows import ROWS, Row, gpu_rows

from aiosearch.codegen.ir import Module, ReductionKind, TileKernel
from aiosearch.codegen.lower.lowering import lower
from aiosearch.codegen.pallas import Tiling, plans, write
from aiosearch.codegen.pallas.cost.block_demand import block_demand
from aiosearch.codegen.pallas.cost.kernel_cost import TilingPrediction
from aiosearch.codegen.pallas.cubin import Argument, CompiledKernel, compile_cubin, missing_compiler
from aiosearch.codegen.pallas.layout import TileLayout
from aiosearch.codegen.pallas.nodes import TileNodes
from aiosearch.codegen.passes.kernel_fusion import fuse_kernels
from aiosearch.codegen.schedule.plans import ModulePlan
from aiosearch.devices import Device, device, device_names
from aiosearch.tensor import DType
from aiosearch.tensor.types import BYTES


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", action="append", metavar="NAME", help="this program")
    parser.add_argument("--rows", default=",".join(map(str, ROWS)), help="1,8,16")
    parser.add_argument("--plans", type=int, default=1, help="so many of each")
    parser.add_argument("--device", default="H200", choices=device_names())
    options = parser.parse_args()
    gpu, wanted = device(options.device), [int(one) for one in options.rows.split(",")]
    for row in gpu_rows():
        if row.key[2] in wanted and (not options.only or row.key[0] in options.only):
            tell(row, gpu, options.plans)


def tell(row: Row, gpu: Device, most: int) -> None:
    """A figure for each kernel of the best plans of a program."""
    module = fuse_kernels(lower(row.program))
    least = least_seconds(module, gpu)
    for plan in plans(module, gpu, most):
        made = machines(plan, gpu)
        for kernel in plan.module.kernels:
            tiling = plan.schedules[kernel.name]
            figure(
                f"plan of {row.name}: {kernel.name}",
                round(predicted(kernel, tiling, gpu).seconds * 1e6, 2),
                "us",
                plan_us=round(plan.seconds * 1e6, 2),
                least_us=round(least * 1e6, 2),
                **_facts(kernel, tiling, gpu),
                **_made(made.get(kernel.name)),
            )


def least_seconds(module: Module, gpu: Device) -> float:
    """A launch, and its inputs and outputs once through memory or its products at full rate."""
    buffers = dict.fromkeys([*module.inputs, *module.outputs])
    moved = sum(math.prod(one.shape) * BYTES[one.dtype] for one in buffers)
    products = 2 * sum(_products(kernel) for kernel in module.kernels)
    return gpu.launch_seconds + max(moved / gpu.bytes_per_second, products / gpu.rate(DType.BF16))


def _products(kernel: TileKernel) -> int:
    """What is multiplied and added up by stages that sum over what several loads depend on."""
    return sum(
        math.prod(one.size for one in (*stage.free, *stage.folded))
        for stage in kernel.stages
        if stage.reduction is ReductionKind.SUM and len(stage.loads) > 1
    )


def predicted(kernel: TileKernel, tiling: Tiling, gpu: Device) -> TilingPrediction:
    asked = block_demand(TileLayout(TileNodes(kernel), tiling))
    return TilingPrediction(asked, tiling.warps, tiling.stages, gpu)


def _facts(kernel: TileKernel, tiling: Tiling, gpu: Device) -> dict[str, object]:
    found = predicted(kernel, tiling, gpu)
    return {
        "tiles": str(tiling),
        "blocks": found.asked.blocks,
        "resident": found.resident,
        "steps": found.asked.steps,
        "registers_predicted": found.registers,
        "shared_bytes_predicted": found.shared_bytes,
    }


def machines(plan: ModulePlan[Tiling], gpu: Device) -> dict[str, CompiledKernel]:
    """The kernels as machine code, where that can be made."""
    if missing_compiler() is not None:
        return {}
    given = [Argument(one.dtype, one.shape) for one in plan.module.inputs]
    text = write(plan.module, plan.schedules)
    made = asyncio.run(compile_cubin(text, plan.module.name, given, gpu))
    return {one.name: one for one in made.kernels}


def _made(one: CompiledKernel | None) -> dict[str, object]:
    if one is None:
        return {}
    return {
        "registers": one.registers,
        "spilled_bytes": one.spilled_bytes,
        "shared_bytes": one.shared_bytes,
    }


if __name__ == "__main__":
    main()
