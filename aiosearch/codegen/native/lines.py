"""A program of kernels as lines of text, with what it was made of, and back."""

from __future__ import annotations

import ast
import base64
import zlib

import msgspec
from msgspec import Struct

from .compiling import Effort
from .errors import NativeError
from .machine import Machine
from .native import Native

_LINE = 96


class Origin(Struct, frozen=True, array_like=True):
    """What a program of kernels was made of, as text for people."""

    program: str
    tile_ir: str
    schedules: tuple[str, ...]
    """Of each kernel, in words."""


class Carried(Struct, frozen=True, array_like=True):
    """What the lines hold."""

    native: Native
    machine: Machine
    effort: Effort
    origin: Origin | None = None
    """Lines that were written earlier have none."""


def text_of(
    native: Native,
    machine: Machine,
    effort: Effort = Effort.SCALAR,
    origin: Origin | None = None,
) -> str:
    """Gives lines of letters, digits and signs, none of them a quote or a backslash."""
    packed = msgspec.msgpack.encode(Carried(native, machine, effort, origin))
    text = base64.b85encode(zlib.compress(packed)).decode()
    return "\n".join(text[start : start + _LINE] for start in range(0, len(text), _LINE))


def opened(text: str) -> Carried:
    """Reads such lines; raises NativeError where they are damaged."""
    try:
        packed = zlib.decompress(base64.b85decode("".join(text.split())))
        return msgspec.msgpack.decode(packed, type=Carried)
    except (ValueError, zlib.error, msgspec.DecodeError) as error:
        raise NativeError(f"the lines of a kernel are damaged: {error}") from None


def inside(source: str) -> list[tuple[str, Carried]]:
    """What the functions of a module's text carry, each with its function's name.

    Nothing is run. Raises NativeError where lines are damaged, SyntaxError where it is no Python.
    """
    found = []
    for statement in ast.parse(source).body:
        for node in ast.walk(statement):
            match node:
                case ast.Call(func=ast.Name(id="carried"), args=[ast.Constant(value=str(text))]):
                    found.append((_name(statement), opened(text)))
    return found


def _name(statement: ast.stmt) -> str:
    match statement:
        case ast.FunctionDef(name=name) | ast.Assign(targets=[ast.Name(id=name)]):
            return name
    return ""
