"""A module of kernels as a Python module of jax and Pallas that stands alone."""

from __future__ import annotations

from collections.abc import Mapping

from ....tensor.types import JAX_NAMES
from ... import ir
from .. import dialect
from ..layout import TileLayout, Tiling
from ..nodes import TileNodes
from .body import FunctionText, body
from .text import RESERVED_NAMES, NameAllocator


def name_of(module: ir.Module) -> str:
    """What the function of a printed module is called: `module.name`, unless something in the text
    has that name.
    """
    return NameAllocator().fresh(module.name)


def write(module: ir.Module, tilings: Mapping[str, Tiling] = {}) -> str:
    """The text of a Python module with one function, over the inputs of `module`.

    The function gives one array where the module has one output, else a tuple; with `interpret` it
    runs without a GPU. A kernel that has no tiling in `tilings` is one block over everything.
    """
    return _ModulePrinter(module, tilings).text()


class _ModulePrinter:
    def __init__(self, module: ir.Module, tilings: Mapping[str, Tiling]) -> None:
        self._module, self._tilings = module, tilings
        self._globals = NameAllocator()
        self._function = self._globals.fresh(name_of(module))
        # Locals must not hide the function or what the text imports.
        self._locals = NameAllocator(RESERVED_NAMES | {self._function})
        self._arrays: dict[str, str] = {}
        self._bodies: list[str] = []
        self._calls: list[str] = []

    def text(self) -> str:
        inputs = [self._array(buffer) for buffer in self._module.inputs]
        for buffer in dict.fromkeys(self._module.outputs):
            # An output without elements needs no launch.
            if 0 in buffer.shape and buffer not in self._module.inputs:
                self._calls.append(f"{self._array(buffer)} = {_empty(buffer)}")
        for kernel in self._module.kernels:
            self._kernel(kernel)
        outputs = [self._array(buffer) for buffer in self._module.outputs]
        result = outputs[0] if len(outputs) == 1 else f"({', '.join(outputs)})"
        count = len(self._bodies)
        lines = [
            f"def {self._function}({', '.join([*inputs, '*', 'interpret=False'])}):",
            f'    """{count} Pallas kernel{"s" * (count != 1)}, for Triton."""',
            *(f"    {line}" for line in [*self._calls, f"return {result}"]),
        ]
        bodies = "".join(f"\n\n{text}\n" for text in self._bodies)
        helpers = "".join(f"\n{text}" for text in self._helpers(bodies))
        return f"{dialect.HEADER}{helpers}{bodies}\n\n" + "\n".join(lines) + "\n"

    def _helpers(self, bodies: str) -> list[str]:
        return [text for name, text in dialect.HELPERS.items() if f"{name}(" in bodies]

    def _array(self, buffer: ir.Buffer) -> str:
        if buffer.name not in self._arrays:
            self._arrays[buffer.name] = self._locals.fresh(buffer.name)
        return self._arrays[buffer.name]

    def _kernel(self, kernel: ir.TileKernel) -> None:
        tiling = self._tilings.get(kernel.name, Tiling())
        nodes = TileNodes(kernel)
        if not nodes.outputs:
            return
        layout = TileLayout(nodes, tiling)
        name = self._globals.fresh(f"_{kernel.name}")
        text = body(layout, name)
        self._bodies.append("\n".join(text.lines))
        self._call(name, text, layout)

    def _call(self, name: str, text: FunctionText, layout: TileLayout) -> None:
        grid = tuple(layout.steps(axis) for axis in layout.grid)
        shapes = [_struct(buffer) for buffer in text.outputs]
        arguments = [_flat(self._array(buffer), buffer) for buffer in text.inputs]
        results = [self._array(buffer) for buffer in text.outputs]
        tiling = layout.tiling
        self._calls += [
            f"{', '.join(results)}{',' if len(results) == 1 else ''} = pl.pallas_call(",
            f"    {name},",
            f"    out_shape=[{', '.join(shapes)}],",
            f"    grid={grid},",
            *_specs(text),
            f"    compiler_params={dialect.parameters(tiling.warps, tiling.stages)},",
            "    interpret=interpret,",
            f'    name="{name.lstrip("_")}",',
            f")({', '.join(arguments)})",
        ]
        self._calls += [
            f"{self._array(buffer)} = {self._array(buffer)}.reshape(())"
            for buffer in text.outputs
            if not buffer.shape
        ]


def _specs(text: FunctionText) -> list[str]:
    """Lines that say what part of each array a program of the grid is handed."""
    lines: list[str] = []
    arrays = {"in_specs": text.inputs, "out_specs": text.outputs} if text.blocks.cut else {}
    for name, buffers in arrays.items():
        specs = [f"        {text.blocks.spec(buffer)}," for buffer in buffers]
        lines += [f"    {name}=[", *specs, "    ],"]
    return lines


def _struct(buffer: ir.Buffer) -> str:
    return f"jax.ShapeDtypeStruct({buffer.shape or (1,)}, {JAX_NAMES[buffer.dtype]})"


def _flat(name: str, buffer: ir.Buffer) -> str:
    """Pallas has no references without axes: a scalar is passed as an array of one element."""
    return name if buffer.shape else f"{name}.reshape(1)"


def _empty(buffer: ir.Buffer) -> str:
    return f"jnp.zeros({buffer.shape}, {JAX_NAMES[buffer.dtype]})"
