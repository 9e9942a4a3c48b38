"""Whether an answer's machine code, perhaps of another machine, can be loaded here."""

from __future__ import annotations

from ...codegen.native import NativeError, embedded_programs, register_program
from ..outcomes.answer import Answer


def refusal(answer: Answer) -> str:
    """Why the kernels of an answer cannot be called in this process; empty where they can, from now
    on.

    Otherwise the first call of a user would find out. Blocks.
    """
    try:
        for _, program in embedded_programs(answer.source):
            register_program(program.native, program.machine, program.effort)
    except (NativeError, MemoryError) as error:
        return str(error) or type(error).__name__
    return ""
