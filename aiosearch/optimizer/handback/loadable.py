"""Whether an answer's machine code, perhaps of another machine, can be loaded here."""

from __future__ import annotations

from ...codegen.native.embedded_source import embedded_programs
from ...codegen.native.errors import NativeError
from ...codegen.native.jax_call import register_program
from ..outcomes.answer import Answer


def refusal(answer: Answer) -> str:
    """Why its kernels cannot be called in this process; nothing where they can, from now on.

    Otherwise the call of a user would be told. Blocks.
    """
    try:
        for _, program in embedded_programs(answer.source):
            register_program(program.native, program.machine, program.effort)
    except (NativeError, MemoryError) as error:
        return str(error) or type(error).__name__
    return ""
