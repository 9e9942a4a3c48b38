"""The assembly of a program, and counts of its instructions and registers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from .compiler import OptimizationEffort, prepare_module, target_machine
from .kernel_program import KernelProgram
from .machine import CpuMachine

_FUNCTION = re.compile(r"\s+\.type\s+(\S+),\s*[@%]function")
_LABEL = re.compile(r'("?[^\s"#:]+"?):')
_INSTRUCTION = re.compile(r"\s+[a-z]")
_REMARK = re.compile(r"\s(#|//).*")
_VECTOR = re.compile(r"(?:%[xyz]mm|\b[vqdsh])(\d+)\b")
"""Vector registers of x86 and Arm by number; narrower names are parts of the same registers."""


@dataclass(frozen=True, slots=True)
class InstructionCounts:
    """Instructions of one function of `assembly`, counted as they are written and not as often as
    they run."""

    function: str
    instructions: int
    vector_registers: int
    """Different vector registers that are named."""
    spills: int
    """Stores of values for which no register is free."""
    reloads: int
    """Loads of such values."""

    def __str__(self) -> str:
        return (
            f"{self.function}: {self.instructions} instructions, {self.vector_registers} vector"
            f" registers, {self.spills} spills, {self.reloads} reloads"
        )


def assembly_text(
    native: KernelProgram,
    machine: CpuMachine,
    effort: OptimizationEffort = OptimizationEffort.SCALAR,
) -> str:
    """The assembly of a program, without the handler's, with LLVM's comments."""
    target = target_machine(machine)
    target.set_asm_verbosity(True)
    text: str = target.emit_assembly(prepare_module(native, machine, target, effort))
    return text


def instruction_counts(text: str) -> tuple[InstructionCounts, ...]:
    """The counts of each function in an assembly text."""
    return tuple(_count_instructions(name, lines) for name, lines in _functions(text))


def _functions(text: str) -> Iterator[tuple[str, list[str]]]:
    """Yields the name and the lines of each function."""
    lines = text.splitlines()
    names = {match[1] for line in lines if (match := _FUNCTION.match(line))}
    begins = [
        at for at, line in enumerate(lines) if (match := _LABEL.match(line)) and match[1] in names
    ]
    for begin in begins:
        # LLVM ends each ELF function with such a label; other formats have none, and the text ends
        # it.
        ends = (at for at in range(begin, len(lines)) if lines[at].startswith(".Lfunc_end"))
        yield lines[begin].partition(":")[0].strip('"'), lines[begin : next(ends, len(lines))]


def _count_instructions(name: str, lines: list[str]) -> InstructionCounts:
    """The counts of one function."""
    # Directives begin with a dot and labels at the margin.
    code = [line for line in lines if _INSTRUCTION.match(line)]
    registers = {number for line in code for number in _VECTOR.findall(_REMARK.sub("", line))}
    return InstructionCounts(
        name,
        len(code),
        len(registers),
        sum("-byte Spill" in line or "-byte Folded Spill" in line for line in code),
        sum("-byte Reload" in line or "-byte Folded Reload" in line for line in code),
    )
