"""`aiosearch programs`: the built-in programs, and any program as text, JSON or a drawing."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from ...display.tables import table
from ..inputs.flags import add_json, add_shape
from ..output.streams import Exit, give, give_json
from ..parser import Parser

if TYPE_CHECKING:
    from ...tensor.programs import Builtin


DESCRIPTION = ""
EPILOG = ""


class ProgramsArguments(argparse.Namespace):
    """What `aiosearch programs` was given."""

    action: str | None
    program: str
    shape: list[str]
    svg: bool
    json: bool


def add_arguments(parser: Parser) -> None:
    """Adds the flags of the command."""
    add_json(parser)
    add_action = parser.add_actions(required=False)
    show = add_action("show", help="write a program as text, JSON or a drawing")
    show.add_argument("program", metavar="PROGRAM", help="a built-in name, or a file")
    add_shape(show)
    form = show.add_mutually_exclusive_group()
    form.add_argument("--svg", action="store_true", help="draw it")
    form.add_argument("--json", action="store_true", help="write JSON")


def run(arguments: ProgramsArguments) -> int:
    """Lists the built-in programs or shows one, and gives the exit code."""
    from ...tensor.programs import BUILTINS

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
    from ...tensor.files import to_json
    from ...tensor.text import write
    from ..inputs.programs import find_program, sizes

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
