"""A module of kernels as a Python module of jax and Mosaic GPU that stands alone."""

from __future__ import annotations

from collections.abc import Mapping

from ....tensor.types import JAX_NAMES
from ... import ir
from .. import dialect
from ..layout import Tiling
from ..nodes import TileNodes
from ..printer.module import name_of
from ..printer.text import RESERVED_NAMES, NameAllocator
from .body import RESERVED, WarpgroupFunction, axis_name
from .layout import BlockLayout
from .rows import block_function

_HEADER = """\
import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu
"""

_REDUCTION_BYTES = 2048
"""The shared memory in which warps add up what each of them has."""


def write_mosaic(module: ir.Module, schedules: Mapping[str, Tiling] = {}) -> str:
    """The text of a Python module with one function, over the inputs of `module`, whose kernels are
    Mosaic GPU's; raises CannotPrint where a kernel has no tiles that suit a warpgroup.

    It is called as the text of `write` is; with `interpret` Mosaic's own interpreter runs it
    without a GPU. Every kernel needs a tiling of 4 warps in `schedules`.

    Example: `write_mosaic(module, {"norm": Tiling({"j": 64, "k": 64}, warps=4, stages=3)})`.
    """
    names = NameAllocator(RESERVED_NAMES | RESERVED)
    function = names.fresh(name_of(module))
    local_names = NameAllocator(RESERVED_NAMES | RESERVED | {function})
    arrays: dict[str, str] = {}

    def array(buffer: ir.Buffer) -> str:
        if buffer.name not in arrays:
            arrays[buffer.name] = local_names.fresh(buffer.name)
        return arrays[buffer.name]

    inputs = [array(buffer) for buffer in module.inputs]
    bodies: list[str] = []
    lines = ["simulated = plgpu.InterpretGPUParams() if interpret else None"]
    for kernel in module.kernels:
        name = names.fresh(f"_{kernel.name}")
        layout, text = block_function(
            TileNodes(kernel),
            schedules.get(kernel.name, Tiling()),
            name,
            NameAllocator(RESERVED_NAMES | RESERVED | {function}),
        )
        bodies.append("\n".join(text.lines))
        arguments = ", ".join(_padded(buffer, array(buffer), layout) for buffer in text.inputs)
        results = ", ".join(array(buffer) for buffer in text.outputs)
        lines += [f"{results}, = plgpu.kernel(", *_options(name, text, layout), f")({arguments})"]
        for buffer in text.outputs:
            if layout.padded_shape(buffer) != buffer.shape:
                cut = ", ".join(f":{size}" for size in buffer.shape)
                lines.append(f"{array(buffer)} = {array(buffer)}[{cut}]")
    outputs = [array(buffer) for buffer in module.outputs]
    result = outputs[0] if len(outputs) == 1 else f"({', '.join(outputs)})"
    count = len(bodies)
    printed = "".join(f"\n\n{text}\n" for text in bodies)
    helpers = "".join(
        f"\n{text}" for name, text in dialect.HELPERS.items() if f"{name}(" in printed
    )
    wrapped = [
        f"def {function}({', '.join([*inputs, '*', 'interpret=False'])}):",
        f'    """{count} Pallas kernel{"s" * (count != 1)}, for Mosaic GPU."""',
        *(f"    {line}" for line in [*lines, f"return {result}"]),
    ]
    return f"{_HEADER}{helpers}{printed}\n\n" + "\n".join(wrapped) + "\n"


def _padded(buffer: ir.Buffer, array: str, layout: BlockLayout) -> str:
    """An array with zeros where tiles reach beyond it."""
    shape = layout.padded_shape(buffer)
    if shape == buffer.shape:
        return array
    widths = tuple((0, large - size) for large, size in zip(shape, buffer.shape, strict=True))
    return f"jnp.pad({array}, {widths})"


def _options(name: str, text: WarpgroupFunction, layout: BlockLayout) -> list[str]:
    """The arguments of a kernel's call: its grid, its memory, how it is compiled."""
    shapes = [
        f"jax.ShapeDtypeStruct({layout.padded_shape(buffer)}, {JAX_NAMES[buffer.dtype]})"
        for buffer in text.outputs
    ]
    # Mosaic runs along the last axis of the grid first, and a layout has that one first.
    grid = tuple(layout.steps(axis) for axis in reversed(layout.grid))
    axes = tuple(axis_name(place) for place in reversed(range(len(layout.grid))))
    return [
        f"    {name},",
        f"    out_type=[{', '.join(shapes)}],",
        f"    grid={grid},",
        f"    grid_names={axes},",
        "    scratch_types=[",
        *(f"        {scratch}," for scratch in text.scratch),
        "    ],",
        "    compiler_params=plgpu.CompilerParams(",
        "        lowering_semantics=plgpu.LoweringSemantics.Warpgroup,",
        f"        reduction_scratch_bytes={_REDUCTION_BYTES},",
        "    ),",
        "    interpret=simulated,",
        f'    kernel_name="{name.lstrip("_")}",',
    ]
