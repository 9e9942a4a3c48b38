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
  aiosearch verify mine:loss mine:fast --arg f32[8,16] --arg i32[8] --input labels=0..15
  aiosearch verify mine:exact mine:rough --arg f32[8,64] --tolerance 0.01
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
    input: list[str]
    inputs: str | None
    tolerance: float | None
    seconds: float
    full_size: bool
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
    use = parser.add_argument_group("what is known of the use")
    use.add_argument(
        "--input",
        action="append",
        default=[],
        metavar="NAME=LOW..HIGH",
        help="the values that an input has, as labels=0..15 or x=0.. ; may be repeated",
    )
    use.add_argument(
        "--inputs", metavar="FILE", help="an .npz of NumPy with inputs, by name, to try first"
    )
    use.add_argument(
        "--tolerance",
        type=_positive,
        metavar="SHARE",
        help="accept results that are off by this share of their size, as 0.01",
    )
    how = parser.add_argument_group("how")
    how.add_argument(
        "--seconds",
        type=_positive,
        default=60.0,
        metavar="S",
        help="leave out what is not done in floats after so many seconds; 60 by default",
    )
    how.add_argument(
        "--full-size",
        action="store_true",
        help="compare floats at the shapes given, also of values above 4 million elements; by"
        " default at smaller ones, where real numbers agree",
    )
    how.add_argument("--seed", type=seed, default=0, metavar="N", help="for all random draws")
    how.add_argument(
        "--strict", action="store_true", help="demand nan and infinity where the first gives them"
    )
    how.add_argument(
        "--no-floats", action="store_true", help="leave out the comparison in floating point"
    )
    add_json(parser)


def _positive(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is no number above 0")
    return number


def run(arguments: VerifyArguments) -> int:
    """Runs the command, and gives the exit code."""
    from ..runs.verify import run as verify

    return verify(arguments)
