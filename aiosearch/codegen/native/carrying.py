"""How a program travels to other processes: as the text of a module."""

from __future__ import annotations

import base64
import functools
import zlib
from collections.abc import Mapping

import msgspec
from msgspec import Struct

from .calling import Call, enter, function
from .compiling import Effort
from .machine import Machine
from .native import Native

_LINE = 96
_texts: dict[str, str] = {}


class _Carried(Struct, frozen=True, array_like=True):
    native: Native
    machine: Machine
    effort: Effort


def source_of(
    native: Native, machine: Machine, name: str = "function", effort: Effort = Effort.SCALAR
) -> str:
    """Gives the text of a module that defines the program as a function of this name.

    It needs aiosearch, and a processor that runs what the program was made for.
    """
    lines = text_of(native, machine, effort)
    return _MODULE.format(program=native.name, machine=machine.name, name=name, lines=lines)


def text_of(native: Native, machine: Machine, effort: Effort = Effort.SCALAR) -> str:
    """Gives lines of letters, digits and signs, none of them a quote or a backslash."""
    packed = msgspec.msgpack.encode(_Carried(native, machine, effort))
    text = base64.b85encode(zlib.compress(packed, 9)).decode()
    return "\n".join(text[start : start + _LINE] for start in range(0, len(text), _LINE))


@functools.lru_cache(maxsize=256)
def carried(text: str) -> Call:
    """Gives the function of a program that such lines hold."""
    packed = zlib.decompress(base64.b85decode("".join(text.split())))
    found = msgspec.msgpack.decode(packed, type=_Carried)
    call = function(found.native, found.machine, found.effort)
    _texts[enter(found.native, found.machine, found.effort)] = text
    return call


def carried_texts() -> Mapping[str, str]:
    """Gives the lines of the programs that this process has, by the names that XLA has for them."""
    return _texts


_MODULE = '''"""The kernels of {program}, compiled for {machine} when this is run."""

from aiosearch.codegen.native.carrying import carried

{name} = carried("""
{lines}
""")
'''
