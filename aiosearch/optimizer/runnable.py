"""Whether the machine code of an answer runs here, which may have been found elsewhere."""

from __future__ import annotations

from ..codegen.native.calling import enter
from ..codegen.native.errors import NativeError
from ..codegen.native.lines import inside
from .answers import Answer


def refusal(answer: Answer) -> str:
    """Why its kernels cannot be called in this process; nothing where they can, from now on.

    Otherwise the call of a user would be told. Blocks.
    """
    try:
        for _, one in inside(answer.source):
            enter(one.native, one.machine, one.effort)
    except (NativeError, MemoryError) as error:
        return str(error) or type(error).__name__
    return ""
