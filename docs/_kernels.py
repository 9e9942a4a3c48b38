"""What a kernel becomes on its way to machine code, for one processor whatever builds the page."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

from aiosearch.codegen import ir, pallas
from aiosearch.codegen.cpu.description import describe_schedule
from aiosearch.codegen.cpu.emit.kernel import print_module
from aiosearch.codegen.cpu.space.choices import choices
from aiosearch.codegen.llvm.scalars import ERRORS
from aiosearch.codegen.lower.lowering import lower
from aiosearch.codegen.native.assembly import assembly_text, instruction_counts
from aiosearch.codegen.native.machine import CpuMachine
from aiosearch.devices import device
from aiosearch.tensor import DType
from aiosearch.tensor.text import parse

from _tensor import table

PAGE = Path(__file__).with_name("why") / "kernels.md"
PROGRAM = re.compile(r"^program norm\(.*?^}\n", re.MULTILINE | re.DOTALL)
MACHINE = CpuMachine(
    "x86_64-unknown-linux-gnu",
    "znver4",
    "+avx,+avx2,+fma,+f16c,+avx512f,+avx512bw,+avx512dq,+avx512vl,+avx512bf16",
    l1=32 << 10,
    l2=1 << 20,
)
THREADS = 2
GPU = "H200"
SHOWN = 16
"""Lines of LLVM IR."""


class Printed(NamedTuple):
    """The kernel of the page, by the schedule of the best prediction."""

    module: ir.Module
    schedules: tuple[str, ...]
    """All that are legal, in words, best predicted first."""
    llvm: str
    assembly: str


@cache
def printed() -> Printed:
    found = PROGRAM.search(PAGE.read_text(encoding="utf-8"))
    assert found is not None
    module = lower(parse(found[0]))
    (kernel,) = module.kernels
    legal = choices(kernel, MACHINE, THREADS, ["W"])
    made = print_module(module, {kernel.name: legal[0]}, MACHINE)
    words = tuple(describe_schedule(kernel, one) for one in legal)
    return Printed(module, words, made.text, assembly_text(made, MACHINE))


def kernel(section: str) -> str:
    """Gives one of the texts of the kernel on the page."""
    return KERNEL[section]()


def _schedule() -> str:
    return _fenced("text", printed().schedules[0])


def _schedules() -> str:
    count = len(printed().schedules)
    where = f"On a processor with AVX-512, {THREADS} threads and W laid out beforehand"
    return f"{where}, {count} schedules of this kernel are worth a look."


def _llvm() -> str:
    """The loop in which nearly all the time goes, without what it hands on to its next turn."""
    lines = [line for line in _innermost(printed().llvm) if " phi " not in line]
    more = f"  ; and {len(lines) - SHOWN} lines more"
    return _fenced("llvm", "\n".join([*lines[:SHOWN], more]))


def _assembly() -> str:
    lines = [line for line in _innermost(printed().assembly) if not line.lstrip().startswith("#")]
    end = next(at for at, line in enumerate(lines) if line.lstrip().startswith("j"))
    return _fenced("asm", "\n".join(line.partition("#")[0].rstrip() for line in lines[: end + 1]))


def _registers() -> str:
    (counted,) = instruction_counts(printed().assembly)
    return _fenced("text", str(counted))


def _pallas() -> str:
    module = printed().module
    tilings = {one.name: pallas.choices(one, device(GPU))[0] for one in module.kernels}
    return _fenced("python", pallas.write(module, tilings))


def _innermost(text: str) -> list[str]:
    """The lines behind the label that most products are behind."""
    blocks: list[list[str]] = [[]]
    for line in text.splitlines():
        if re.match(r"[.\w]+:", line):
            blocks.append([])
        blocks[-1].append(line)
    return max(blocks, key=lambda block: sum("dpbf16ps" in line for line in block))


def _fenced(language: str, text: str) -> str:
    return f"```{language}\n{text.rstrip()}\n```"


KERNEL = {
    "assembly": _assembly,
    "llvm": _llvm,
    "pallas": _pallas,
    "registers": _registers,
    "schedule": _schedule,
    "schedules": _schedules,
}


def scalar_errors() -> str:
    """Lists how far functions are off at most: those that are not exact, and not just rounded."""
    rows = []
    for operation in dict.fromkeys(operation for operation, _ in ERRORS):
        f32, f64 = (ERRORS[operation, dtype] for dtype in (DType.F32, DType.F64))
        if f32.fused > 0.5:
            cells = (f32.fused, f32.plain, f64.fused, f64.plain)
            rows.append((f"`{operation}`", *(f"{cell:g}" for cell in cells)))
    return table(("function", "f32", "without FMA", "f64", "without FMA"), rows)
