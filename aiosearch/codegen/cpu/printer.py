"""Prints a module of kernels as LLVM IR: one function for each, over a range of its blocks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ..ir import Buffer, Module
from ..native.machine import Machine
from ..native.native import Native
from ..scalars import library
from .kernels import KernelPrinter
from .memory import bytes_of
from .packed import Layout
from .preparing import separated
from .schedule import Schedule
from .turned import with_turned


def native(module: Module, schedules: Mapping[str, Schedule], machine: Machine) -> Native:
    """The module for a machine, each kernel by the schedule under its name, or the plainest one."""
    module, schedules = as_printed(module, schedules)
    inner = _between(module)
    layouts = _layouts(schedules.values())
    left = [_laid(one, layouts) for one in inner]
    buffers = (*module.inputs, *module.outputs, *inner)
    numbers = {one: at for at, one in enumerate(buffers)}
    printers = [KernelPrinter(kernel, schedules[kernel.name], machine) for kernel in module.kernels]
    functions = [
        printer.text(f"{module.name}.{number}", numbers) for number, printer in enumerate(printers)
    ]
    return Native(
        module.name,
        _text(functions, printers, machine),
        tuple(_laid(one, layouts) for one in module.inputs),
        module.outputs,
        tuple(printer.phase for printer in printers),
        tuple(max(1, bytes_of(one.dtype, one.shape)) for one in left),
    )


def as_printed(
    module: Module, schedules: Mapping[str, Schedule]
) -> tuple[Module, Mapping[str, Schedule]]:
    """With kernels for all that is copied, and a schedule for each kernel."""
    return with_turned(separated(module), schedules)


def _between(module: Module) -> list[Buffer]:
    """What one kernel leaves for others, and nobody else sees."""
    own = [one for kernel in module.kernels for one in kernel.outputs]
    return [one for one in dict.fromkeys(own) if one not in module.outputs]


def _text(functions: Sequence[str], printers: Sequence[KernelPrinter], machine: Machine) -> str:
    """The functions, with all that they call."""
    wanted = {one for printer in printers for one in printer.arithmetic.wanted}
    declared = {line for printer in printers for line in printer.writer.declared}
    fused = machine.fma and machine.f16c
    called = library(sorted(wanted), fused=fused, scaling=machine.scaling)
    others = sorted(line for line in declared if line not in called)
    return "\n".join([called, *others, *functions])


def _layouts(schedules: Iterable[Schedule]) -> dict[str, Layout]:
    """Of all buffers that lie otherwise, by name."""
    return {name: one for schedule in schedules for name, one in schedule.layouts.items()}


def _laid(buffer: Buffer, layouts: Mapping[str, Layout]) -> Buffer:
    """As it is in memory."""
    return layouts[buffer.name].given(buffer) if buffer.name in layouts else buffer
