"""Launches written as text, and what goes wrong in them.

A launch reads as in Python, `kernel[grid, block](arguments)`, with a third number for the bytes of
dynamic shared memory. An argument is a number, or an array by its type and shape:

    f32[64, 64]           drawn, from -1 to 1; whole numbers from 0 to 9
    zeros(f32[64])        zeros; likewise ones(...) and arange(...)
    full(i32[64], 7)      one number
    load("input.npy")     from a file
    same(0)               the array that argument 0 is
"""

from __future__ import annotations

import ast
import math
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .errors import LaunchError
from .interpreter.findings import KernelFault
from .modules import CudaModule, KernelLaunch

_MOST_BYTES = 1 << 32
"""Of an array that is drawn."""
_TYPES = {
    "bool": "bool", "i8": "int8", "u8": "uint8", "i16": "int16", "u16": "uint16", "i32": "int32",
    "u32": "uint32", "i64": "int64", "u64": "uint64", "f16": "float16", "f32": "float32",
    "f64": "float64",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Spec:
    """A launch as it was written."""

    text: str
    kernel: str
    shape: tuple[Any, ...]
    arguments: tuple[ast.expr, ...]


def read(text: str) -> Spec:
    """Takes a launch apart; raises LaunchError where it is none."""
    kernel, bracket, remaining = text.partition("[")
    if not bracket:
        raise LaunchError(f"{text!r} is no launch: write kernel[grid, block](arguments)")
    try:
        tree = ast.parse(f"_[{remaining}", mode="eval").body
    except SyntaxError as error:
        raise LaunchError(f"{text!r} is no launch: {error.msg}") from None
    if not isinstance(tree, ast.Call) or not isinstance(tree.func, ast.Subscript) or tree.keywords:
        raise LaunchError(f"{text!r} is no launch: write kernel[grid, block](arguments)")
    try:
        shape = ast.literal_eval(tree.func.slice)
    except ValueError:
        raise LaunchError(f"the shape of {text!r} has to be of whole numbers") from None
    whole = shape if isinstance(shape, tuple) else (shape,)
    return Spec(text, kernel.strip(), whole, tuple(tree.args))


def from_file(path: Path) -> list[Spec]:
    """The launches of a TOML file: `launch = ["kernel[1, 64](f32[64])", ...]`."""
    try:
        table = tomllib.loads(path.read_text())
    except OSError as error:
        raise LaunchError(f"{path} cannot be read: {error.strerror}") from None
    except tomllib.TOMLDecodeError as error:
        raise LaunchError(f"{path} is no TOML: {error}") from None
    listed = table.get("launch")
    if not isinstance(listed, list) or not all(isinstance(item, str) for item in listed):
        raise LaunchError(f'{path} has no list of launches: launch = ["kernel[1, 64](f32[64])"]')
    return [read(item) for item in listed]


def launch(module: CudaModule, spec: Spec) -> KernelLaunch:
    """The launch that a spec is of a module's kernel."""
    return module[spec.kernel][spec.shape]


def check(
    module: CudaModule, spec: Spec, seed: int = 0, *, compiled: bool = False
) -> tuple[KernelFault, ...]:
    """Runs a launch in the interpreter, or compiled with checks; gives what is wrong.

    Equal seeds give equal inputs.
    """
    run = launch(module, spec)
    inputs = arguments(spec, seed)
    return run.check_compiled(*inputs) if compiled else run.check(*inputs)


def arguments(spec: Spec, seed: int = 0) -> list[object]:
    """The arguments of a launch, arrays drawn by a seed."""
    draw = np.random.default_rng(seed)
    values: list[object] = []
    for node in spec.arguments:
        values.append(_argument(node, values, draw))
    return values


def _argument(node: ast.expr, before: Sequence[object], draw: np.random.Generator) -> object:
    if isinstance(node, ast.Subscript):
        return _drawn(*_array_type(node), draw)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not node.keywords:
        return _made(node.func.id, node.args, before)
    try:
        return ast.literal_eval(node)
    except ValueError:
        raise LaunchError(
            f"{ast.unparse(node)} is no argument: write a number, or an array as f32[64, 64]"
        ) from None


def _array_type(node: ast.expr) -> tuple[np.dtype[Any], tuple[int, ...]]:
    if not isinstance(node, ast.Subscript) or not isinstance(node.value, ast.Name):
        raise LaunchError(f"{ast.unparse(node)} is no type of an array: write f32[64, 64]")
    if node.value.id not in _TYPES:
        raise LaunchError(f"{node.value.id} is no type of elements: {', '.join(_TYPES)}")
    dtype = np.dtype(_TYPES[node.value.id])
    try:
        shape = ast.literal_eval(node.slice)
    except ValueError:
        raise LaunchError(f"the shape of {ast.unparse(node)} has to be numbers") from None
    whole = shape if isinstance(shape, tuple) else (shape,)
    if not all(isinstance(size, int) and size >= 0 for size in whole):
        raise LaunchError(f"the shape of {ast.unparse(node)} has to be of numbers from 0")
    if math.prod(whole) * dtype.itemsize > _MOST_BYTES:
        raise LaunchError(
            f"{ast.unparse(node)} has {math.prod(whole)} elements: arrays have at most"
            f" {_MOST_BYTES >> 30} GiB here"
        )
    return dtype, whole


def _drawn(dtype: np.dtype[Any], shape: tuple[int, ...], draw: np.random.Generator) -> object:
    if dtype.kind == "f":
        return draw.uniform(-1, 1, shape).astype(dtype)
    return draw.integers(0, 2 if dtype.kind == "b" else 10, shape).astype(dtype)


def _made(name: str, nodes: Sequence[ast.expr], before: Sequence[object]) -> object:
    match name, nodes:
        case "load", [ast.Constant(value=str(path))]:
            try:
                return np.load(path)
            except (OSError, ValueError) as error:
                raise LaunchError(f"{path} cannot be loaded: {error}") from None
        case "same", [ast.Constant(value=int(place))] if 0 <= place < len(before):
            return before[place]
        case "zeros", [node]:
            dtype, shape = _array_type(node)
            return np.zeros(shape, dtype)
        case "ones", [node]:
            dtype, shape = _array_type(node)
            return np.ones(shape, dtype)
        case "arange", [node]:
            dtype, shape = _array_type(node)
            return np.arange(int(np.prod(shape))).astype(dtype).reshape(shape)
        case "full", [node, ast.Constant(value=int() | float() as value)]:
            dtype, shape = _array_type(node)
            return np.full(shape, value, dtype)
    raise LaunchError(f"{name}(...) is no argument: zeros, ones, arange, full, load or same")
