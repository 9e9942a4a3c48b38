"""The flags of the console script."""

from __future__ import annotations

import argparse
import sys
from typing import Any, NoReturn

from .. import __version__
from ..arguments import nearest
from .commands.optimize import add_fusing
from .commands.tune import add_tune
from .inputs.settings import SETTINGS
from .lab_flags import add_bench, add_simulate
from .output.streams import UsageError

_DESCRIPTION = "An asyncio search engine, and a verifying optimizer of JAX functions."
_SEARCH = """\
Searches a problem: a class with root(), expand(node) and solutions(node), whose fields --set sets;
an instance of one; or a function that gives one. The best solution goes to stdout, how it is going
to stderr. Ctrl-C ends the search with what it has; pressed twice, at once."""
_EXAMPLES = """\
examples:
  aiosearch search aiosearch.workloads.queens:Queens --set n=10
  aiosearch search path/to/mine.py:Problem --seconds 60 --journal run.journal
  aiosearch search --journal run.journal --resume

Settings may also stand in [tool.aiosearch] of the nearest pyproject.toml, or in variables such as
AIOSEARCH_WORKERS; a flag comes first, then a variable, then the file.

exit codes: 0 complete or a limit reached, 1 the search failed, 2 wrong usage, 130 interrupted"""
_WORKER = """\
Lends this machine's processors to a search that listens elsewhere, until it is over. Only problems
that are installed here are run. Ctrl-C or SIGTERM gives back what it has, and ends; a second one
ends at once. Where the connection is lost it tries again."""
_WORKER_EXAMPLES = """\
examples:
  aiosearch search aiosearch.workloads.queens:Queens --listen 192.0.2.1:7000 --token-file token
  aiosearch worker --connect 192.0.2.1:7000 --token-file token

exit codes: 0 the search is over, 1 it does not want this machine or this machine cannot serve it, 2
wrong usage, 130 interrupted"""
_VERIFY = """\
Says whether two tensor programs compute the same: proved, tested, refuted or not judged, and how
that is known. A program is a file (text or JSON), a built-in one, or a function of JAX arrays."""
_VERIFY_EXAMPLES = """\
examples:
  aiosearch verify rms_norm fused.txt
  aiosearch verify mine:plain mine:fast --arg f32[16,4096] --arg f32[4096,1024]
  aiosearch verify --mugraph lora_bs1.json --program lora --json

exit codes: 0 all are accepted (proved or tested), 1 some are refuted or not judged, 2 wrong usage
or a file that cannot be read"""
_OPTIMIZE = """\
Finds a faster function that computes the same, and writes a table of the best few: each is verified
before its time counts, and timed in turns with the original. A target is a function of JAX arrays,
a built-in program or a file. Answers are kept; `aiosearch results` shows them. With --search-only
nothing is timed: all equal programs of fused kernels are searched, and the best predicted told."""
_OPTIMIZE_EXAMPLES = """\
examples:
  aiosearch optimize rms_norm --effort quick
  aiosearch optimize mymodule:f --arg bf16[1,4096] --arg bf16[4096,4096] --emit faster.py
  aiosearch optimize mymodule:f --arg f32[8,4096] --arg f32[4096,4096] --constant 1
  aiosearch optimize attention --shape head=64 --plot attention.svg
  aiosearch optimize rms_norm --search-only --device H100 --svg drawings

exit codes: 0 whether or not something was found, 1 z3 disagrees (--referee), 2 wrong usage, what
cannot be traced or searched, or a target that is absent, 130 interrupted"""
_EXPLAIN = """\
Shows what an answer of optimize is, or what a program becomes on its way to machine code: the
program, the tile IR, the schedule in words, the registers that it takes; where --show asks for it,
LLVM IR, assembly and Pallas text. A target is the id of an answer, or the start of it; a file that
--emit wrote; a built-in program, or a program's file. Nothing is searched or timed."""
_EXPLAIN_EXAMPLES = """\
examples:
  aiosearch explain rms_norm --shape row=8 --constant W
  aiosearch explain fused.txt --show llvm > fused.ll
  aiosearch explain 3fa2b1c0 --show schedule,registers,assembly
  aiosearch explain faster.py --svg drawings

exit codes: 0 shown, 2 wrong usage, or there is no such thing"""
_EXPLORING = ("strategy", "order", "workers", "seed", "on-unknown", "on-error", "cache")


class Parser(argparse.ArgumentParser):
    """Complains in one sentence, without the usage."""

    def __init__(self, **options: object) -> None:
        options.setdefault("formatter_class", argparse.RawDescriptionHelpFormatter)
        super().__init__(allow_abbrev=False, **options)  # type: ignore[arg-type]  # argparse's own

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message}; `{self.prog} --help` shows what there is")

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Has a command complain of what it does not know, and not the one above it."""
        self._require_command_first(args)
        found, unknown = super().parse_known_args(args, namespace)
        if unknown and self._subparsers is None:
            first, *others = unknown
            first += nearest(first.partition("=")[0], self._option_string_actions)
            self.error(f"unrecognized arguments: {' '.join([first, *others])}")
        return found, unknown

    def _require_command_first(self, args: Any) -> None:
        """Complains of an option of a command that stands before the command."""
        first, *others = list(sys.argv[1:] if args is None else args) or [""]
        option = first.partition("=")[0]
        if self._subparsers is None or option in self._option_string_actions:
            return
        (commands,) = (one for one in self._subparsers._group_actions if one.choices)
        choices: Any = commands.choices
        known = {name for name, one in choices.items() if option in one._option_string_actions}
        command = next((one for one in others if one in known), None)
        if command is not None:
            self.error(
                f"{option} stands before the command"
                f" (did you mean `{self.prog} {command} {option}`?)"
            )

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """Names what is nearest to a word that there is not."""
        try:
            super()._check_value(action, value)
        except argparse.ArgumentError as error:
            meant = nearest(str(value), map(str, action.choices or ()))
            raise argparse.ArgumentError(action, f"{error.message}{meant}") from None


def make_parser() -> Parser:
    """Gives the whole command line; each command names the function that runs it."""
    parser = Parser(prog="aiosearch", description=_DESCRIPTION)
    parser.add_argument("--version", action="version", version=f"aiosearch {__version__}")
    commands = parser.add_subparsers(metavar="COMMAND", dest="command", required=True)
    _add_search(commands)
    _add_worker(commands)
    _add_status(commands)
    add_bench(commands)
    add_simulate(commands)
    _add_optimize(commands)
    add_tune(commands)
    _add_explain(commands)
    _add_verify(commands)
    _add_programs(commands)
    _add_json(commands.add_parser("strategies", help="list the installed strategies"))
    _add_cache(commands)
    _add_results(commands)
    _add_doctor(commands)
    return parser


def _add_search(commands: argparse._SubParsersAction[Parser]) -> None:
    parser = commands.add_parser(
        "search", help="run a search", description=_SEARCH, epilog=_EXAMPLES
    )
    parser.add_argument(
        "problem",
        nargs="?",
        metavar="module:Problem",
        help="or path/to/file.py:Problem; with --resume, by default that of the journal",
    )
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="set a field of the problem; may be repeated",
    )
    _add_settings(parser)
    _add_hosts(parser)
    keeping = parser.add_argument_group("keeping")
    keeping.add_argument("--journal", metavar="FILE", help="write a journal, to be resumed from")
    keeping.add_argument("--resume", action="store_true", help="go on where the journal stops")
    keeping.add_argument("--trace", metavar="FILE", help="write a Chrome trace, for Perfetto")
    keeping.add_argument(
        "--record-tree",
        metavar="FILE",
        help="instead of a result write the tree and its times, as one worker walks it depth-first,"
        " for `aiosearch simulate`",
    )
    _add_showing(parser)


def _add_hosts(parser: Parser) -> None:
    hosts = parser.add_argument_group("other machines")
    hosts.add_argument(
        "--listen",
        metavar="HOST:PORT",
        help="let `aiosearch worker --connect HOST:PORT` join, at any time; --workers 0 leaves"
        " the work to those alone",
    )
    _add_token(hosts)
    _add_patience(hosts)


def _add_patience(parser: Parser | argparse._ArgumentGroup) -> None:
    parser.add_argument(
        "--patience",
        type=float,
        default=5.0,
        metavar="S",
        help="give the other end up after so many seconds of silence; by default 5",
    )


def _add_token(parser: Parser | argparse._ArgumentGroup) -> None:
    parser.add_argument(
        "--token-file",
        metavar="FILE",
        help="what all machines must know, in a file that only you can read; on this machine alone"
        " it may be left out",
    )


def _add_worker(commands: argparse._SubParsersAction[Parser]) -> None:
    parser = commands.add_parser(
        "worker",
        help="lend this machine to a search elsewhere",
        description=_WORKER,
        epilog=_WORKER_EXAMPLES,
    )
    parser.add_argument(
        "--connect", required=True, metavar="HOST:PORT", help="where the search listens"
    )
    _add_token(parser)
    parser.add_argument(
        "--workers", type=int, metavar="N", help="worker processes; by default one per core"
    )
    parser.add_argument(
        "--checkers", type=int, metavar="N", help="z3 processes; by default as many as workers"
    )
    _add_patience(parser)
    parser.add_argument("--name", default="", help="what it is called; by default as the machine")
    parser.add_argument(
        "--stay", action="store_true", help="wait for the next search when one is over"
    )
    parser.add_argument("--transport", default="sockets", metavar="NAME", help="by which plugin")


def _add_status(commands: argparse._SubParsersAction[Parser]) -> None:
    parser = commands.add_parser("status", help="say who serves a search that listens, and how far")
    parser.add_argument("address", metavar="HOST:PORT", help="where the search listens")
    _add_token(parser)
    parser.add_argument("--transport", default="sockets", metavar="NAME", help="by which plugin")
    _add_json(parser)


def _add_settings(parser: Parser) -> None:
    exploring = parser.add_argument_group("exploring")
    limits = parser.add_argument_group("limits, of which the first one reached ends the search")
    for setting in SETTINGS:
        group = exploring if setting.name in _EXPLORING else limits
        group.add_argument(
            setting.flag, dest=setting.name, metavar=setting.metavar, help=setting.help
        )
    exploring.add_argument(
        "--no-cache", dest="cache", action="store_const", const="off", help="same as --cache off"
    )
    exploring.add_argument(
        "--strategy-set",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="set an option of the strategy; may be repeated",
    )


def _add_showing(parser: Parser) -> None:
    showing = parser.add_argument_group("showing")
    showing.add_argument("--json", action="store_true", help="write each event as a line of JSON")
    showing.add_argument("--quiet", "-q", action="store_true", help="show the result only")
    showing.add_argument(
        "--verbose", "-v", action="store_true", help="show tracebacks of the problem's errors"
    )
    showing.add_argument(
        "--show-settings", action="store_true", help="list the settings and their origins, and end"
    )


def _add_optimize(commands: argparse._SubParsersAction[Parser]) -> None:
    parser = commands.add_parser(
        "optimize",
        help="find a faster function that computes the same",
        description=_OPTIMIZE,
        epilog=_OPTIMIZE_EXAMPLES,
    )
    parser.add_argument(
        "function",
        metavar="TARGET",
        help="module:function, path/to/file.py:function, a built-in program or a file",
    )
    _add_arg(parser, "; NAME=TYPE gives it by name")
    _add_shape(parser)
    _add_dtype(parser)
    parser.add_argument(
        "--constant",
        action="append",
        default=[],
        metavar="NAME",
        help="an argument that stays the same from call to call, by its name or its place from 0;"
        " may be repeated",
    )
    how = parser.add_argument_group("how")
    how.add_argument(
        "--effort",
        default="default",
        metavar="EFFORT",
        help="quick (mostly under a minute), default or exhaustive",
    )
    how.add_argument(
        "--target", default="auto", metavar="DEVICE", help="cpu, cuda, or auto for what jax takes"
    )
    how.add_argument("--seed", type=_seed, default=0, metavar="N", help="for all random draws")
    how.add_argument(
        "--strict",
        action="store_true",
        help="demand nan and infinity where the original gives them",
    )
    how.add_argument(
        "--no-kernels",
        action="store_true",
        help="give plain JAX, and no kernels of our own",
    )
    add_fusing(parser)
    giving = parser.add_argument_group("giving")
    giving.add_argument("--emit", metavar="FILE", help="write the answer as code that stands alone")
    giving.add_argument(
        "--plot", metavar="FILE.svg", help="draw the times and their noise, and the roofline"
    )
    giving.add_argument("--file", metavar="PATH", help="where answers are kept")
    giving.add_argument("--quiet", "-q", action="store_true", help="show the result only")
    _add_json(giving)


def _add_explain(commands: argparse._SubParsersAction[Parser]) -> None:
    parser = commands.add_parser(
        "explain",
        help="show a program or an answer on its way to machine code",
        description=_EXPLAIN,
        epilog=_EXPLAIN_EXAMPLES,
    )
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
    _add_json(parser)
    parser.add_argument("--file", metavar="PATH", help="where answers are kept")
    made = parser.add_argument_group("a program")
    _add_shape(made)
    _add_dtype(made)
    made.add_argument(
        "--constant",
        action="append",
        default=[],
        metavar="NAME",
        help="an input that is laid out beforehand, by its name; may be repeated",
    )
    made.add_argument(
        "--device",
        default="H200",
        metavar="NAME",
        help="the GPU that Pallas text is cut for: A100, H100 or H200, which is the default",
    )


def _add_verify(commands: argparse._SubParsersAction[Parser]) -> None:
    parser = commands.add_parser(
        "verify",
        help="say whether two tensor programs compute the same",
        description=_VERIFY,
        epilog=_VERIFY_EXAMPLES,
    )
    parser.add_argument(
        "targets", nargs="*", metavar="PROGRAM", help="two files, built-in names or module:function"
    )
    _add_arg(parser)
    _add_dtype(parser, "f16, as Mirage and `aiosearch programs show` have it")
    _add_shape(parser)
    saved = parser.add_argument_group("graphs that Mirage saved")
    saved.add_argument("--mugraph", metavar="FILE", help="compare every graph of this file")
    saved.add_argument("--program", metavar="NAME", help="the program that they should be")
    how = parser.add_argument_group("how")
    how.add_argument("--seed", type=_seed, default=0, metavar="N", help="for all random draws")
    how.add_argument(
        "--strict", action="store_true", help="demand nan and infinity where the first gives them"
    )
    how.add_argument(
        "--no-floats", action="store_true", help="leave out the comparison in floating point"
    )
    _add_json(parser)


def _add_programs(commands: argparse._SubParsersAction[Parser]) -> None:
    parser = commands.add_parser("programs", help="list the built-in tensor programs, or show one")
    _add_json(parser)
    actions = parser.add_subparsers(metavar="ACTION", dest="action")
    show = actions.add_parser("show", help="write a program as text, JSON or a drawing")
    show.add_argument("program", metavar="PROGRAM", help="a built-in name, or a file")
    _add_shape(show)
    form = show.add_mutually_exclusive_group()
    form.add_argument("--svg", action="store_true", help="draw it")
    form.add_argument("--json", action="store_true", help="write JSON")


def _seed(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number from 0")
    return int(text)


def _add_arg(parser: Parser, more: str = "") -> None:
    parser.add_argument(
        "--arg",
        action="append",
        default=[],
        metavar="TYPE",
        help="the type of a function's next argument, as f32[16,4096]; may be repeated" + more,
    )


def _add_dtype(parser: Parser | argparse._ArgumentGroup, usual: str = "bf16") -> None:
    parser.add_argument(
        "--dtype",
        metavar="TYPE",
        help=f"the element type of a built-in program; by default {usual}",
    )


def _add_shape(parser: Parser | argparse._ArgumentGroup) -> None:
    parser.add_argument(
        "--shape",
        action="append",
        default=[],
        metavar="NAME=N",
        help="a size of a built-in program; may be repeated",
    )


def _add_cache(commands: argparse._SubParsersAction[Parser]) -> None:
    cache = commands.add_parser("cache", help="look at z3's verdicts on disk, or remove them")
    actions = cache.add_subparsers(metavar="ACTION", dest="action", required=True)
    for name, help in (("stats", "count the verdicts"), ("clear", "remove them")):
        action = actions.add_parser(name, help=help)
        action.add_argument("--cache", metavar="PATH", help="the file; by default the setting's")
        _add_json(action)


def _add_results(commands: argparse._SubParsersAction[Parser]) -> None:
    results = commands.add_parser("results", help="look at what optimize has found, or forget it")
    actions = results.add_subparsers(metavar="ACTION", dest="action", required=True)
    listed = actions.add_parser("list", help="list the answers, the newest first")
    show = actions.add_parser("show", help="write an answer as a module that stands alone")
    show.add_argument("answer", metavar="ANSWER", help="its id, the start of it, or its name")
    export = actions.add_parser("export", help="write answers as modules into a folder")
    export.add_argument("folder", metavar="FOLDER")
    export.add_argument("answers", nargs="*", metavar="ANSWER", help="by default all")
    forget = actions.add_parser("forget", help="remove answers")
    forget.add_argument("answers", nargs="*", metavar="ANSWER")
    forget.add_argument("--all", action="store_true", help="remove all of them")
    for action in (listed, show, export, forget):
        action.add_argument("--file", metavar="PATH", help="the file; by default the user's")
        _add_json(action)


def _add_doctor(commands: argparse._SubParsersAction[Parser]) -> None:
    doctor = commands.add_parser("doctor", help="say what works on this machine, and what lacks")
    doctor.add_argument(
        "--measure",
        action="store_true",
        help="first measure the most that its devices can do, and keep the figures",
    )
    _add_json(doctor)


def _add_json(parser: Parser | argparse._ArgumentGroup) -> None:
    parser.add_argument("--json", action="store_true", help="write JSON")
