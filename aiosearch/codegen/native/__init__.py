"""Machine code in this process: `compiler` turns LLVM IR into object code and loads it, `handler`
is what XLA calls, `guarded_run` tries code out between guard pages, `jax_call` makes a JAX function
of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..._lazy import lazily

if TYPE_CHECKING:
    from ..errors import NativeError
    from .assembly import InstructionCounts, assembly_text, instruction_counts
    from .embedded_source import EmbeddedProgram, ProgramOrigin, embedded_programs, encode_program
    from .jax_call import register_program
    from .kernel_program import KernelProgram
    from .machine import CpuMachine, host

__all__ = [
    "CpuMachine",
    "EmbeddedProgram",
    "InstructionCounts",
    "KernelProgram",
    "NativeError",
    "ProgramOrigin",
    "assembly_text",
    "embedded_programs",
    "encode_program",
    "host",
    "instruction_counts",
    "register_program",
]

__getattr__ = lazily(
    __name__,
    {
        "InstructionCounts": ".assembly",
        "assembly_text": ".assembly",
        "instruction_counts": ".assembly",
        "EmbeddedProgram": ".embedded_source",
        "ProgramOrigin": ".embedded_source",
        "embedded_programs": ".embedded_source",
        "encode_program": ".embedded_source",
        "NativeError": "..errors",
        "register_program": ".jax_call",
        "KernelProgram": ".kernel_program",
        "CpuMachine": ".machine",
        "host": ".machine",
    },
)
