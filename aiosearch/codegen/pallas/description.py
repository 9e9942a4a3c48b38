"""A tiling as text for people, and the docstrings of printed kernels.

What a printed kernel says of itself: how it is cut, and the IR that it was printed from.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Iterator
from typing import NamedTuple

from .layout import TileLayout


def describe_tiling(layout: TileLayout) -> str:
    """The kernel's name, and a line each: the grid, the way through a block, what it is given."""
    kernel, warps = layout.nodes.kernel.name, layout.tiling.warps
    return "\n  ".join([kernel, _grid(layout), *_describe_loop(layout), f"{warps} warps"])


def _grid(layout: TileLayout) -> str:
    cut = [one for one in layout.grid if layout.steps(one) > 1]
    if not cut:
        return "one block"
    count = math.prod(map(layout.steps, cut))
    tiles = " and ".join(f"{layout.tile(one)} of {one}'s {one.size}" for one in cut)
    order = f", along {layout.tiling.fastest} first" if layout.tiling.fastest else ""
    return f"{count} blocks, each {tiles}{order}"


def _describe_loop(layout: TileLayout) -> Iterator[str]:
    if layout.loop is not None:
        ahead = layout.tiling.stages - 1
        loaded = f"{ahead} {'step' if ahead == 1 else 'steps'} loaded ahead"
        yield f"goes along {layout.loop} by {layout.tile(layout.loop)}, {loaded}"


pass

_CALL = "pallas_call"


class DescribedKernel(NamedTuple):
    """A kernel, as text for people."""

    tiling: str
    """In words."""
    ir: str


def documentation(layout: TileLayout) -> list[str]:
    """The lines of a docstring."""
    text = f"{describe_tiling(layout)}\n\n{layout.nodes.kernel}"
    safe = text.replace("\\", "\\\\").replace('"', "'")
    return [*f'"""{safe}'.splitlines(), '"""']


def described_kernels(source: str, function: str) -> list[DescribedKernel]:
    """Of each kernel that a function of a printed module calls, in their order, if they say so."""
    functions = {
        one.name: one for one in ast.parse(source).body if isinstance(one, ast.FunctionDef)
    }
    called = [_kernel(node) for node in ast.walk(functions[function])]
    found = []
    for name in dict.fromkeys(one for one in called if one in functions):
        words, _, ir = (ast.get_docstring(functions[name]) or "").partition("\n\n")
        if ir:
            found.append(DescribedKernel(words, ir))
    return found


def _kernel(node: ast.AST) -> str:
    """The name of the kernel that is called; empty where none is."""
    match node:
        case ast.Call(func=ast.Attribute(attr=attr), args=[ast.Name(id=name), *_]) if attr == _CALL:
            return name
    return ""
