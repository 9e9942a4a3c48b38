"""`aiosearch explain`: its flags, and what runs it."""

from __future__ import annotations

import argparse

from ..inputs.flags import add_dtype, add_json, add_shape
from ..parser import Parser

DESCRIPTION = """\
Shows what an answer of optimize is, or what a program becomes on its way to machine code: the
program, the tile IR, the schedule in words, the registers that it takes; where --show asks for it,
LLVM IR, assembly and Pallas text. A target is the id of an answer, or the start of it; a file that
--emit wrote; a built-in program, or a program's file. Nothing is searched or timed."""
EPILOG = """\
examples:
  aiosearch explain rms_norm --shape row=8 --constant W
  aiosearch explain fused.txt --show llvm > fused.ll
  aiosearch explain 3fa2b1c0 --show schedule,registers,assembly
  aiosearch explain faster.py --svg drawings

exit codes: 0 shown, 2 wrong usage, or there is no such thing"""


class ExplainArguments(argparse.Namespace):
    """What `aiosearch explain` was given."""

    target: str
    show: list[str]
    svg: str | None
    json: bool
    file: str | None
    shape: list[str]
    dtype: str | None
    constant: list[str]
    device: str


def add_arguments(parser: Parser) -> None:
    """Adds the flags of the command."""
    parser.add_argument("target", metavar="TARGET", help="an answer, a file or a built-in program")
    parser.add_argument(
        "--show",
        action="append",
        default=[],
        metavar="SECTION",
        help="program, tile-ir, schedule, registers, llvm, assembly, pallas, source, jaxpr, or all;"
        " several with commas; one alone is written as it is",
    )
    parser.add_argument("--svg", metavar="DIR", help="draw the program into a folder")
    add_json(parser)
    parser.add_argument("--file", metavar="PATH", help="where answers are kept")
    program_flags = parser.add_argument_group("a program")
    add_shape(program_flags)
    add_dtype(program_flags)
    program_flags.add_argument(
        "--constant",
        action="append",
        default=[],
        metavar="NAME",
        help="an input that is laid out beforehand, by its name; may be repeated",
    )
    program_flags.add_argument(
        "--device",
        default="H200",
        metavar="NAME",
        help="the GPU that Pallas text is cut for: A100, H100 or H200, which is the default",
    )


def run(arguments: ExplainArguments) -> int:
    """Runs the command, and gives the exit code."""
    from ..runs.explain import run as explain

    return explain(arguments)
