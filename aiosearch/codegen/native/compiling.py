"""From LLVM IR to object code, in this process and with no compiler but LLVM's library."""

from __future__ import annotations

import enum
import functools
import hashlib
from typing import Any

from .errors import NativeError
from .handler import handler_text, table_text
from .library import llvm, llvmlite
from .machine import Machine
from .native import Native, encode

_LAYOUT = 1
"""Of what is hashed and kept; goes up when either changes."""


class Effort(enum.IntEnum):
    """What LLVM does to the text before it selects instructions."""

    NONE = 0
    """Nothing: the text is optimized as it stands."""
    SCALAR = 1
    """Tidies up: addresses, common values, what does not change in a loop. No loop is unrolled."""


def digest(native: Native, machine: Machine, effort: Effort = Effort.SCALAR) -> str:
    """Says from what a program's object code is made; equal ones have equal code."""
    return _digest(machine, str(effort), handler_text(machine), encode(native).decode())


def handler_digest(machine: Machine) -> str:
    """Says the same of the handler's."""
    return _digest(machine, handler_text(machine))


def _digest(machine: Machine, *texts: str) -> str:
    made_by = (str(_LAYOUT), llvmlite.__version__)
    parts = (*made_by, machine.triple, machine.name, machine.features, *texts)
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:40]


def compiled(native: Native, machine: Machine, effort: Effort = Effort.SCALAR) -> bytes:
    """Compiles a program, equal ones to equal bytes; raises NativeError where the text is wrong."""
    target = target_machine(machine)
    module = prepared(native, machine, target, effort)
    code: bytes = target.emit_object(module)
    return code


@functools.cache
def compiled_handler(machine: Machine) -> bytes:
    """Compiles the handler, which stands beside every program."""
    target = target_machine(machine)
    module = _placed(parsed(handler_text(machine), llvm.create_context()), machine, target)
    optimize(module, target)
    code: bytes = target.emit_object(module)
    return code


def prepared(native: Native, machine: Machine, target: Any, effort: Effort) -> Any:
    """Gives the module of a program and its constants, verified, as instructions are chosen for."""
    context = llvm.create_context()
    module = parsed(native.text, context)
    _require_phases(native, module)
    module.link_in(parsed(table_text(native), context))
    _placed(module, machine, target)
    if effort is not Effort.NONE:
        optimize(module, target)
    return module


def _require_phases(native: Native, module: Any) -> None:
    defined = {each.name for each in module.functions if not each.is_declaration}
    for number in range(len(native.phases)):
        if native.symbol(number) not in defined:
            raise NativeError(f"the kernel's text defines no function {native.symbol(number)}")


def _placed(module: Any, machine: Machine, target: Any) -> Any:
    module.triple = machine.triple
    module.data_layout = str(target.target_data)
    return module


def optimize(module: Any, target: Any) -> None:
    """Tidies a module up. Which loops are unrolled and what is a vector stays as it is written."""
    options = llvm.create_pipeline_tuning_options(speed_level=2)
    options.loop_vectorization = False
    options.slp_vectorization = False
    options.loop_interleaving = False
    options.loop_unrolling = False
    builder = llvm.create_pass_builder(target, options)
    builder.getModulePassManager().run(module, builder)


def target_machine(machine: Machine) -> Any:
    """Gives LLVM's own description of the processor."""
    _begin()
    try:
        target = llvm.Target.from_triple(machine.triple)
        return target.create_target_machine(
            cpu=machine.name, features=machine.features, opt=3, reloc="pic", codemodel="small"
        )
    except RuntimeError as error:
        raise NativeError(f"LLVM cannot compile for {machine.name}: {error}") from None


def _begin() -> None:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    llvm.initialize_native_asmparser()


def parsed(text: str, context: Any) -> Any:
    """Reads a module and verifies it; raises NativeError."""
    try:
        module = llvm.parse_assembly(text, context)
        module.verify()
    except RuntimeError as error:
        raise NativeError(f"the kernel's text is no LLVM IR: {error}") from None
    return module
