"""`aiosearch cuda`: its flags, and what runs it."""

from __future__ import annotations

import argparse

from ..inputs.flags import add_json, seed
from ..parser import Parser

DESCRIPTION = """\
Works on files of CUDA C++ without a GPU: `check` runs kernels and names the lines of races,
divergent barriers, accesses out of bounds and reads of what nobody wrote; `explain` shows what a
kernel becomes on its way to machine code; `fidelity` says which operations are exact."""
EPILOG = """\
examples:
  aiosearch cuda check kernels.cu --launch 'scale[4, 256](f32[1024], 2.0)'
  aiosearch cuda check kernels.cu --launches launches.toml --json
  aiosearch cuda explain kernels.cu --launch 'reduce[1, 64, 256](f32[64], zeros(f32[1]), 64)'
  aiosearch cuda fidelity kernels.cu

exit codes: 0 nothing is wrong, 1 something is, 2 not understood: the file, a construct in it, or
the command line"""


class CudaArguments(argparse.Namespace):
    """What `aiosearch cuda` was given."""

    action: str
    file: str
    launch: list[str]
    launches: str | None
    define: list[str]
    include: list[str]
    seed: int
    compiled: bool
    show: str
    json: bool


def add_arguments(parser: Parser) -> None:
    """Adds the actions of the command and their flags."""
    add = parser.add_actions(required=True)
    check = add("check", help="run launches, and name what is wrong in them")
    _add_file(check)
    _add_launches(check)
    check.add_argument(
        "--seed", type=seed, default=0, metavar="N", help="for inputs that are drawn"
    )
    check.add_argument(
        "--compiled",
        action="store_true",
        help="for large grids: only races and accesses out of bounds, and much faster",
    )
    add_json(check)
    explain = add("explain", help="show a kernel on its way to machine code")
    _add_file(explain)
    _add_launches(explain)
    explain.add_argument(
        "--show",
        default="before,after,reasons",
        metavar="WHAT",
        help="of before, after, reasons, llvm, assembly; by default before,after,reasons",
    )
    fidelity = add("fidelity", help="say which operations of each kernel are exact")
    _add_file(fidelity)
    add_json(fidelity)


def _add_file(parser: Parser) -> None:
    parser.add_argument("file", metavar="FILE", help="of CUDA C++")
    parser.add_argument(
        "-D",
        dest="define",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="as a compiler's",
    )
    parser.add_argument(
        "-I", dest="include", action="append", default=[], metavar="FOLDER", help="as a compiler's"
    )


def _add_launches(parser: Parser) -> None:
    parser.add_argument(
        "--launch",
        action="append",
        default=[],
        metavar="'KERNEL[GRID, BLOCK](ARGUMENTS)'",
        help="what to run, as `scale[4, 256](f32[1024], 2.0)`; may be repeated",
    )
    parser.add_argument("--launches", metavar="FILE.toml", help="a file with a list `launch`")


def run(arguments: CudaArguments) -> int:
    """Runs the command, and gives the exit code."""
    from ..runs.cuda import run as run_cuda

    return run_cuda(arguments)
