"""A tiling as text for people, and the docstrings of printed kernels.

A printed kernel says of itself how it is cut, and the IR that it was printed from;
`described_kernels` reads that back from the source.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Iterator
from typing import NamedTuple

from .layout import TileLayout


def describe_tiling(layout: TileLayout) -> str:
    """The kernel's name, and a line each: the grid, the loop of a block, and its warps.

    `norm`, `128 blocks, each 32 of i's 64 and 64 of j's 4096`, `goes along k by 64, 2 steps loaded
    ahead`, `4 warps` is an example.
    """
    kernel, warps = layout.nodes.kernel.name, layout.tiling.warps
    return "\n  ".join([kernel, _grid(layout), *_describe_loop(layout), f"{warps} warps"])


def _grid(layout: TileLayout) -> str:
    cut = [grid_index for grid_index in layout.grid if layout.steps(grid_index) > 1]
    if not cut:
        return "one block"
    count = math.prod(map(layout.steps, cut))
    tiles = " and ".join(
        f"{layout.tile(grid_index)} of {grid_index}'s {grid_index.size}" for grid_index in cut
    )
    order = f", along {layout.tiling.fastest} first" if layout.tiling.fastest else ""
    return f"{count} blocks, each {tiles}{order}"


def _describe_loop(layout: TileLayout) -> Iterator[str]:
    if layout.loop is not None:
        ahead = layout.tiling.stages - 1
        loaded = f"{ahead} {'step' if ahead == 1 else 'steps'} loaded ahead"
        yield f"goes along {layout.loop} by {layout.tile(layout.loop)}, {loaded}"


_CALLS = frozenset({"pallas_call", "kernel"})


class DescribedKernel(NamedTuple):
    """A kernel, as text for people."""

    tiling: str
    """The tiling in words, as `describe_tiling` gives it."""
    ir: str


def documentation(layout: TileLayout) -> list[str]:
    """The lines of the docstring of a printed kernel."""
    text = f"{describe_tiling(layout)}\n\n{layout.nodes.kernel}"
    # A kernel's text becomes a docstring of the printed module: quotes and backslashes must not end
    # it.
    safe = text.replace("\\", "\\\\").replace('"', "'")
    return [*f'"""{safe}'.splitlines(), '"""']


def described_kernels(source: str, function: str) -> list[DescribedKernel]:
    """The description of each kernel that `function` of a printed module calls, in their order, if
    it has one.
    """
    functions = {
        definition.name: definition
        for definition in ast.parse(source).body
        if isinstance(definition, ast.FunctionDef)
    }
    called = [_kernel(node) for node in ast.walk(functions[function])]
    kernels = []
    for name in dict.fromkeys(definition for definition in called if definition in functions):
        words, _, ir = (ast.get_docstring(functions[name]) or "").partition("\n\n")
        if ir:
            kernels.append(DescribedKernel(words, ir))
    return kernels


def _kernel(node: ast.AST) -> str:
    """The name of the kernel that `node` calls; empty where it is no such call."""
    match node:
        case ast.Call(func=ast.Attribute(attr=attr), args=[ast.Name(id=name), *_]) if (
            attr in _CALLS
        ):
            return name
    return ""
