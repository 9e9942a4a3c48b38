"""A program of kernels as lines of text in a source file, and back."""

from __future__ import annotations

import ast
import base64
import zlib

import msgspec
from msgspec import Struct

from .compiler import OptimizationEffort
from .errors import NativeError
from .kernel_program import KernelProgram
from .machine import CpuMachine

_LINE = 96


class ProgramOrigin(Struct, frozen=True, array_like=True):
    """What a program of kernels was made of, as text for people."""

    program: str
    tile_ir: str
    schedules: tuple[str, ...]
    """Of each kernel, in words."""


class EmbeddedProgram(Struct, frozen=True, array_like=True):
    """What the lines hold."""

    native: KernelProgram
    machine: CpuMachine
    effort: OptimizationEffort
    origin: ProgramOrigin | None = None
    """Lines that were written earlier have none."""


def encode_program(
    native: KernelProgram,
    machine: CpuMachine,
    effort: OptimizationEffort = OptimizationEffort.SCALAR,
    origin: ProgramOrigin | None = None,
) -> str:
    """Gives lines of letters, digits and signs, none of them a quote or a backslash."""
    packed = msgspec.msgpack.encode(EmbeddedProgram(native, machine, effort, origin))
    text = base64.b85encode(zlib.compress(packed)).decode()
    return "\n".join(text[start : start + _LINE] for start in range(0, len(text), _LINE))


def decode_program(text: str) -> EmbeddedProgram:
    """Reads such lines; raises NativeError where they are damaged."""
    try:
        packed = zlib.decompress(base64.b85decode("".join(text.split())))
        return msgspec.msgpack.decode(packed, type=EmbeddedProgram)
    except (ValueError, zlib.error, msgspec.DecodeError) as error:
        raise NativeError(f"the lines of a kernel are damaged: {error}") from None


def embedded_programs(source: str) -> list[tuple[str, EmbeddedProgram]]:
    """What the functions of a module's text carry, each with its function's name.

    Nothing is run. Raises NativeError where lines are damaged, SyntaxError where it is no Python.
    """
    found = []
    for statement in ast.parse(source).body:
        for node in ast.walk(statement):
            match node:
                case ast.Call(func=ast.Name(id="carried"), args=[ast.Constant(value=str(text))]):
                    found.append((_name(statement), decode_program(text)))
    return found


def _name(statement: ast.stmt) -> str:
    match statement:
        case ast.FunctionDef(name=name) | ast.Assign(targets=[ast.Name(id=name)]):
            return name
    return ""
