"""How a command line is read: first which command, then its flags, from the module that has both.

    aiosearch results list --json
              │       └ flags, and actions of its own: `commands/results.py` declares them
              └ the command: a module of `commands`, imported only where it is named

So `aiosearch --help` imports no command, and each command says what it takes beside what runs it.
"""

from __future__ import annotations

import argparse
import importlib
import re
from collections.abc import Sequence
from typing import Any, NoReturn, Protocol

from .. import __version__
from ..arguments import nearest
from .inputs.flags import ArgparseOption
from .output.streams import UsageError

COMMANDS = {
    "search": "run a search",
    "worker": "lend this machine to a search elsewhere",
    "status": "say who serves a search that listens, and how far",
    "bench": "compare ways of running one search",
    "simulate": "replay a recorded search with any number of workers",
    "optimize": "find a faster function that computes the same",
    "place": "find how a function runs fastest on all cores of this machine",
    "cluster": "describe this machine as a cluster, or measure it",
    "tune": "find the fastest configuration of a kernel",
    "explain": "show a program or an answer on its way to machine code",
    "verify": "say whether two tensor programs compute the same",
    "cuda": "check CUDA kernels for races and the like, or show what they become",
    "programs": "list the built-in tensor programs, or show one",
    "strategies": "list the installed strategies",
    "journal": "say what the journal of a search holds",
    "cache": "look at z3's verdicts on disk, or remove them",
    "results": "look at what optimize has found, or forget it",
    "doctor": "say what works on this machine, and what lacks",
}
"""The modules of `commands`, in the order of the help, and what each does."""

_DESCRIPTION = "An asyncio search engine, and a verifying optimizer of JAX functions."
_OPTION = re.compile(r"(?<![\w-])--?[a-zA-Z][\w-]*")


class Command(Protocol):
    """What a module of `commands` has."""

    DESCRIPTION: str
    EPILOG: str

    def add_arguments(self, parser: Parser) -> None: ...

    def run(self, arguments: Any) -> int: ...


class Parser(argparse.ArgumentParser):
    """A parser that complains in one sentence, without the usage, and names what is nearest."""

    def __init__(self, **options: ArgparseOption) -> None:
        options.setdefault("formatter_class", argparse.RawDescriptionHelpFormatter)
        super().__init__(allow_abbrev=False, **options)
        self.actions: dict[str, Parser] = {}
        """The parsers of actions such as `clear` in `aiosearch cache clear`, by their names."""

    def add_actions(self, *, required: bool) -> Actions:
        """Makes room for actions, of which the command line names one in `arguments.action`."""
        subparsers = self.add_subparsers(metavar="ACTION", dest="action", required=required)

        def add(name: str, help: str, **options: ArgparseOption) -> Parser:
            action: Parser = subparsers.add_parser(name, help=help, **options)
            self.actions[name] = action
            return action

        return add

    def options(self) -> set[str]:
        """Gives the options of this parser, as its usage spells them."""
        return set(_OPTION.findall(self.format_usage())) | {"--help"}

    def parse(self, argv: Sequence[str]) -> argparse.Namespace:
        """Reads the words behind the command; raises UsageError for what it does not know."""
        if self.actions:
            _require_known_first(self, self.actions, argv, "ACTION")
        arguments, unknown = self.parse_known_args(argv)
        if unknown:
            reader = self.actions.get(getattr(arguments, "action", None) or "", self)
            first, *further = unknown
            first += nearest(first.partition("=")[0], reader.options())
            reader.error(f"unrecognized arguments: {' '.join([first, *further])}")
        return arguments

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message}; `{self.prog} --help` shows what there is")


class Actions(Protocol):
    """Adds an action to a command, and gives its parser."""

    def __call__(self, name: str, help: str, **options: ArgparseOption) -> Parser: ...


def read_command_line(argv: Sequence[str]) -> tuple[Command, argparse.Namespace]:
    """Gives the command that `argv` names and what it was given.

    Raises UsageError for what is not understood, and SystemExit behind `--help` and `--version`,
    as argparse does.
    """
    if not argv or argv[0] not in COMMANDS:
        _top_parser(argv).parse_args(argv)
        raise AssertionError("a command line without a command is refused above")
    name, *words = argv
    command = import_command(name)
    arguments = command_parser(name).parse(words)
    arguments.argv = list(argv)
    return command, arguments


def import_command(name: str) -> Command:
    """Imports a command's module, which may be slow to import."""
    command: Any = importlib.import_module(f".commands.{name}", __package__)
    return command  # type: ignore[no-any-return]  # a module is not checked against a protocol


def command_parser(name: str) -> Parser:
    """Gives the parser of one command."""
    command = import_command(name)
    parser = Parser(
        prog=f"aiosearch {name}", description=command.DESCRIPTION, epilog=command.EPILOG
    )
    command.add_arguments(parser)
    return parser


def help_of(*words: str) -> str:
    """Gives what `aiosearch WORDS --help` writes, as for `help_of("cache", "clear")`."""
    if not words:
        return _top_parser(()).format_help()
    name, *actions = words
    parser = command_parser(name)
    for action in actions:
        parser = parser.actions[action]
    return parser.format_help()


def _top_parser(argv: Sequence[str]) -> Parser:
    """A parser that lists the commands; it complains of `argv` where that names none of them."""
    parser = Parser(prog="aiosearch", description=_DESCRIPTION)
    parser.add_argument("--version", action="version", version=f"aiosearch {__version__}")
    commands = parser.add_subparsers(metavar="COMMAND", dest="command", required=True)
    for name, summary in COMMANDS.items():
        commands.add_parser(name, help=summary, add_help=False)
    if argv and argv[0] not in parser.options() | {"-h", "--version"}:
        parsers = _Commands()
        _require_known_first(parser, parsers, argv, "COMMAND")
    return parser


class _Commands(dict[str, Parser]):
    """The parsers of all commands, each made when it is asked for."""

    def __init__(self) -> None:
        super().__init__(dict.fromkeys(COMMANDS))  # type: ignore[arg-type]  # made on demand

    def __getitem__(self, name: str) -> Parser:
        return command_parser(name)


def _require_known_first(
    parser: Parser, choices: dict[str, Parser], argv: Sequence[str], what: str
) -> None:
    """Complains of a word that is none of `choices`, or of an option of a choice before it.

    For `aiosearch --effort quick optimize f` the complaint is that `--effort` belongs behind
    `optimize`, and not that there is no command `quick`.
    """
    words = [word for word in argv if not word.startswith("-") or word == "--"]
    first, *further = list(argv) or [""]
    option = first.partition("=")[0]
    if option.startswith("-") and option != "--" and option not in parser.options() | {"-h"}:
        for name in further:
            if name in choices and option in choices[name].options():
                parser.error(
                    f"{option} stands before the {'command' if what == 'COMMAND' else 'action'}"
                    f" (did you mean `{parser.prog} {name} {option}`?)"
                )
    if words and words[0] not in choices:
        names = ", ".join(choices)
        parser.error(
            f"argument {what}: invalid choice: {words[0]!r} (choose from {names})"
            f"{nearest(words[0], choices)}"
        )
