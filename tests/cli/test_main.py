from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from collections.abc import Callable

import pytest
from testkit.hosts.console import Cli

import aiosearch
from aiosearch.cli import main
from aiosearch.cli.parser import COMMANDS

HEAVY = ("jax", "numpy", "rich", "uvloop", "z3")
LOADED = f"""
import json, sys
from aiosearch.cli import main
code = main(sys.argv[1:])
sys.stderr.write(json.dumps([code, [name for name in {HEAVY} if name in sys.modules]]))
"""


@pytest.mark.parametrize(
    "arguments", [["--help"], ["--version"], *([command, "--help"] for command in COMMANDS)]
)
def test_help_loads_nothing_heavy(arguments: list[str]) -> None:
    """What only tells about the command line imports no jax, numpy, rich, uvloop or z3."""
    command = [sys.executable, "-c", LOADED, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert json.loads(done.stderr) == [0, []]


def test_version(cli: Cli) -> None:
    """--version names the version and ends well."""
    outcome = cli("--version")
    assert (outcome.code, outcome.out) == (0, f"aiosearch {aiosearch.__version__}\n")


def test_python_m() -> None:
    """`python -m aiosearch` is the console script."""
    command = [sys.executable, "-m", "aiosearch", "--version"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == f"aiosearch {aiosearch.__version__}\n"


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        ([], "COMMAND"),
        (["serch"], "did you mean search"),
        (["cache", "clean"], "did you mean clear?"),
        (["--effort", "quick", "optimize", "x"], "did you mean `aiosearch optimize --effort`?"),
        (["bench", "--seed=3", "strategies"], "did you mean `aiosearch bench strategies --seed`?"),
        (["--", "optimise"], "invalid choice: '--'"),
        (["--effrot", "quick", "optimize"], "invalid choice: 'quick'"),
        (["search"], "module:Problem"),
        (["search", "x:y", "--worker", "3"], "--worker (did you mean --worker"),
        (["search", "x:y", "--seconds"], "--seconds"),
        (["search", "x:y", "--resume"], "--journal"),
        (["cache"], "ACTION"),
    ],
)
def test_wrong_usage(cli: Cli, arguments: list[str], word: str) -> None:
    """Wrong usage is one sentence on stderr, and exit code 2."""
    outcome = cli(*arguments)
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.startswith("aiosearch: ")
    assert outcome.err.count("\n") == 1
    assert word in outcome.err


def test_too_many_open_files(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A sentence that says what to raise; other errors of the system are our own mistakes."""

    def refused(number: int) -> Callable[[list[str]], int]:
        def run(given: list[str]) -> int:
            raise OSError(number, os.strerror(number))

        return run

    monkeypatch.setattr("aiosearch.cli._run", refused(errno.EMFILE))
    monkeypatch.setattr("resource.getrlimit", lambda of: (3000, 9000))
    assert main(["doctor"]) == 1
    told = "too many open files: raise the limit of 3000, as with `ulimit -n 6000`"
    assert capsys.readouterr().err == f"aiosearch: {told}\n"
    monkeypatch.setattr("aiosearch.cli._run", refused(errno.EIO))
    with pytest.raises(OSError, match=os.strerror(errno.EIO)):
        main(["doctor"])
