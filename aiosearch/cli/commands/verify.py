"""`aiosearch verify`: its flags, and what runs it."""

from __future__ import annotations

import argparse

from ..inputs.flags import add_arg, add_dtype, add_json, add_shape, seed
from ..parser import Parser

DESCRIPTION = """\
Says whether two tensor programs compute the same: proved, tested, refuted or not judged, and how
that is known. A program is a file (text or JSON), a built-in one, or a function of JAX arrays."""
EPILOG = """\
examples:
  aiosearch verify rms_norm fused.txt
  aiosearch verify mine:plain mine:fast --arg f32[16,4096] --arg f32[4096,1024]
  aiosearch verify --mugraph lora_bs1.json --program lora --json

exit codes: 0 all are accepted (proved or tested), 1 some are refuted or not judged, 2 wrong usage
or a file that cannot be read"""


class VerifyArguments(argparse.Namespace):
    """What `aiosearch verify` was given."""

    targets: list[str]
    arg: list[str]
    dtype: str | None
    shape: list[str]
    mugraph: str | None
    program: str | None
    seed: int
    strict: bool
    no_floats: bool
    json: bool


def add_arguments(parser: Parser) -> None:
    """Adds the flags of the command."""
    parser.add_argument(
        "targets", nargs="*", metavar="PROGRAM", help="two files, built-in names or module:function"
    )
    add_arg(parser)
    add_dtype(parser, "f16, as Mirage and `aiosearch programs show` have it")
    add_shape(parser)
    saved = parser.add_argument_group("graphs that Mirage saved")
    saved.add_argument("--mugraph", metavar="FILE", help="compare every graph of this file")
    saved.add_argument("--program", metavar="NAME", help="the program that they should be")
    how = parser.add_argument_group("how")
    how.add_argument("--seed", type=seed, default=0, metavar="N", help="for all random draws")
    how.add_argument(
        "--strict", action="store_true", help="demand nan and infinity where the first gives them"
    )
    how.add_argument(
        "--no-floats", action="store_true", help="leave out the comparison in floating point"
    )
    add_json(parser)


def run(arguments: VerifyArguments) -> int:
    """Runs the command, and gives the exit code."""
    from ..runs.verify import run as verify

    return verify(arguments)
