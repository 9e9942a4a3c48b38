"""Prints a module of kernels as LLVM IR: one function for each, over a range of its blocks."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from ..ir import Buffer, Module
from ..native.machine import Machine
from ..native.native import Native
from ..scalars import library
from .kernels import KernelPrinter
from .memory import STORED
from .packed import Layout
from .preparing import separated
from .schedule import Schedule


def native(module: Module, schedules: Mapping[str, Schedule], machine: Machine) -> Native:
    """The module for a machine, each kernel by the schedule under its name, or the plainest one."""
    module = separated(module)
    inner = _between(module)
    buffers = (*module.inputs, *module.outputs, *inner)
    numbers = {one: at for at, one in enumerate(buffers)}
    printers = [
        KernelPrinter(kernel, schedules.get(kernel.name, Schedule()), machine)
        for kernel in module.kernels
    ]
    functions = [
        printer.text(f"{module.name}.{number}", numbers) for number, printer in enumerate(printers)
    ]
    return Native(
        module.name,
        _text(functions, printers, machine),
        tuple(_packed(module.inputs, schedules.values())),
        module.outputs,
        tuple(printer.phase for printer in printers),
        tuple(max(1, math.prod(one.shape)) * STORED[one.dtype][1] for one in inner),
    )


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


def _packed(inputs: Iterable[Buffer], schedules: Iterable[Schedule]) -> list[Buffer]:
    """The inputs as they are given: some laid out beforehand."""
    layouts: dict[str, Layout] = {}
    for schedule in schedules:
        layouts = {**schedule.layouts, **layouts}
    return [layouts[one.name].given(one) if one.name in layouts else one for one in inputs]
