"""`aiosearch programs`: the built-in programs, and any program as text, JSON or a drawing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...tensor.files import to_json
from ...tensor.programs import BUILTINS, Builtin
from ...tensor.text import write
from ..inputs.programs import find_program, sizes
from ..output.streams import Exit, give, give_json
from ..output.table import table

if TYPE_CHECKING:
    from ..commands.programs import ProgramsArguments


def run(arguments: ProgramsArguments) -> int:
    """Lists the built-in programs or shows one, and gives the exit code."""
    if arguments.action == "show":
        give(_shown(arguments).rstrip("\n"))
    elif arguments.json:
        give_json([_facts(builtin) for builtin in BUILTINS.values()])
    else:
        rows = [("program", "what it computes")]
        rows += [(builtin.name, builtin.summary) for builtin in BUILTINS.values()]
        give(table(rows))
    return Exit.FINE


def _shown(arguments: ProgramsArguments) -> str:
    program = find_program(arguments.program, sizes(arguments.shape))
    if arguments.svg:
        from ...tensor.drawing import draw

        return draw(program)
    return to_json(program).decode() if arguments.json else write(program)


def _facts(builtin: Builtin) -> dict[str, object]:
    return {
        "name": builtin.name,
        "summary": builtin.summary,
        "inputs": builtin.inputs,
        "sizes": builtin.sizes,
    }
