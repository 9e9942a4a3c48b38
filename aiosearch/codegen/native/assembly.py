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
"""Of x86 and of Arm, whose narrower names are parts of the same registers."""


@dataclass(frozen=True, slots=True)
class InstructionCounts:
    """Counts of one function's instructions, as they are written, not as often as they are run."""

    function: str
    instructions: int
    vector_registers: int
    """Different ones that are named anywhere."""
    spills: int
    """Values that are put onto the stack because no register is free."""
    reloads: int
    """How often such a value is fetched."""

    def __str__(self) -> str:
        return (
            f"{self.function}: {self.instructions} instructions, {self.vector_registers} vector"
            f" registers, {self.spills} spills, {self.reloads} reloads"
        )


def assembly(
    native: KernelProgram,
    machine: CpuMachine,
    effort: OptimizationEffort = OptimizationEffort.SCALAR,
) -> str:
    """Gives the program's assembly, without the handler's, with LLVM's remarks."""
    target = target_machine(machine)
    target.set_asm_verbosity(True)
    text: str = target.emit_assembly(prepare_module(native, machine, target, effort))
    return text


def instruction_counts(text: str) -> tuple[InstructionCounts, ...]:
    """Counts what each function of an assembly text needs."""
    return tuple(_count_instructions(name, lines) for name, lines in _functions(text))


def _functions(text: str) -> Iterator[tuple[str, list[str]]]:
    lines = text.splitlines()
    names = {found[1] for line in lines if (found := _FUNCTION.match(line))}
    begins = [
        at for at, line in enumerate(lines) if (found := _LABEL.match(line)) and found[1] in names
    ]
    for begin in begins:
        ends = (at for at in range(begin, len(lines)) if lines[at].startswith(".Lfunc_end"))
        yield lines[begin].partition(":")[0].strip('"'), lines[begin : next(ends, len(lines))]


def _count_instructions(name: str, lines: list[str]) -> InstructionCounts:
    code = [line for line in lines if _INSTRUCTION.match(line)]
    registers = {one for line in code for one in _VECTOR.findall(_REMARK.sub("", line))}
    return InstructionCounts(
        name,
        len(code),
        len(registers),
        sum("-byte Spill" in line or "-byte Folded Spill" in line for line in code),
        sum("-byte Reload" in line or "-byte Folded Reload" in line for line in code),
    )
