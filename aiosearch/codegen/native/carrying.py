"""How a program travels to other processes: as the text of a module."""

from __future__ import annotations

import functools
from collections.abc import Mapping

from .calling import Call, enter, function
from .compiling import Effort
from .lines import opened, text_of
from .machine import Machine
from .native import Native

_texts: dict[str, str] = {}


def source_of(
    native: Native, machine: Machine, name: str = "function", effort: Effort = Effort.SCALAR
) -> str:
    """Gives the text of a module that defines the program as a function of this name.

    It needs aiosearch, and a processor that runs what the program was made for.
    """
    lines = text_of(native, machine, effort)
    return _MODULE.format(program=native.name, machine=machine.name, name=name, lines=lines)


@functools.lru_cache(maxsize=256)
def carried(text: str) -> Call:
    """Gives the function of a program that such lines hold."""
    found = opened(text)
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
