"""A program of kernels as lines of text in a source file, and back.

The lines are base 85 of a zlib stream of msgpack: letters, digits and signs that need no escape in
a Python string.
"""

from __future__ import annotations

import ast
import base64
import zlib

import msgspec
from msgspec import Struct

from ..errors import NativeError
from .compiler import OptimizationEffort
from .kernel_program import KernelProgram
from .machine import CpuMachine

_LINE = 96
"""Characters of a line."""


class ProgramOrigin(Struct, frozen=True, array_like=True):
    """What a program was compiled from, as text for people."""

    program: str
    tile_ir: str
    schedules: tuple[str, ...]
    """Each kernel's schedule, as `describe_schedule` prints it."""


class EmbeddedProgram(Struct, frozen=True, array_like=True):
    """What the lines hold."""

    native: KernelProgram
    machine: CpuMachine
    effort: OptimizationEffort
    origin: ProgramOrigin | None = None
    """`None` in lines that were written before this field existed."""


def encode_program(
    native: KernelProgram,
    machine: CpuMachine,
    effort: OptimizationEffort = OptimizationEffort.SCALAR,
    origin: ProgramOrigin | None = None,
) -> str:
    """The lines, without quotes or backslashes."""
    packed = msgspec.msgpack.encode(EmbeddedProgram(native, machine, effort, origin))
    text = base64.b85encode(zlib.compress(packed)).decode()
    return "\n".join(text[start : start + _LINE] for start in range(0, len(text), _LINE))


def decode_program(text: str) -> EmbeddedProgram:
    """The program in such lines. Raises `NativeError` where they are damaged."""
    try:
        packed = zlib.decompress(base64.b85decode("".join(text.split())))
        return msgspec.msgpack.decode(packed, type=EmbeddedProgram)
    except (ValueError, zlib.error, msgspec.DecodeError) as error:
        raise NativeError(f"the lines of a kernel are damaged: {error}") from None


def embedded_programs(source: str) -> list[tuple[str, EmbeddedProgram]]:
    """The programs in the source text of a module, each with the name of its function; nothing is
    run.

    Raises `NativeError` where lines are damaged, and `SyntaxError` where the text is no Python.
    """
    embedded = []
    for statement in ast.parse(source).body:
        for node in ast.walk(statement):
            match node:
                # Only literal calls of `carried` count, so that reading a source never runs it.
                case ast.Call(func=ast.Name(id="carried"), args=[ast.Constant(value=str(text))]):
                    embedded.append((_name(statement), decode_program(text)))
    return embedded


def _name(statement: ast.stmt) -> str:
    """The name that a `statement` defines; empty for other statements."""
    match statement:
        case ast.FunctionDef(name=name) | ast.Assign(targets=[ast.Name(id=name)]):
            return name
    return ""
