"""What a printed kernel says of itself: how it is cut, and the IR that it was printed from."""

from __future__ import annotations

import ast
from typing import NamedTuple

from .layout import Layout
from .words import told

_CALL = "pallas_call"


class Documented(NamedTuple):
    """A kernel, as text for people."""

    tiling: str
    """In words."""
    ir: str


def documentation(layout: Layout) -> list[str]:
    """The lines of a docstring."""
    text = f"{told(layout)}\n\n{layout.nodes.kernel}"
    safe = text.replace("\\", "\\\\").replace('"', "'")
    return [*f'"""{safe}'.splitlines(), '"""']


def documented(source: str, function: str) -> list[Documented]:
    """Of each kernel that a function of a printed module calls, in their order, if they say so."""
    functions = {
        one.name: one for one in ast.parse(source).body if isinstance(one, ast.FunctionDef)
    }
    called = [_kernel(node) for node in ast.walk(functions[function])]
    found = []
    for name in dict.fromkeys(one for one in called if one in functions):
        words, _, ir = (ast.get_docstring(functions[name]) or "").partition("\n\n")
        if ir:
            found.append(Documented(words, ir))
    return found


def _kernel(node: ast.AST) -> str:
    """The name of the kernel that is called; empty where none is."""
    match node:
        case ast.Call(func=ast.Attribute(attr=attr), args=[ast.Name(id=name), *_]) if attr == _CALL:
            return name
    return ""
