"""The console script: thin, and lazy about everything that is slow to import."""

from __future__ import annotations

import errno
import os
import resource
import sys
import traceback
from collections.abc import Sequence

from ..errors import AiosearchError, ProblemError, WorkerError
from .output.streams import Exit, OutputError, complain, flush_output, open_stderr, tell
from .parser import read_command_line
from .signals import repeat_lost_interrupt

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the console script and gives its exit code; takes `sys.argv` by default."""
    words = list(sys.argv[1:] if argv is None else argv)
    open_stderr()
    if sys.stdout is None:
        complain("stdout is closed; redirect it to a file, or to /dev/null")
        return Exit.USAGE
    try:
        with repeat_lost_interrupt():
            return _run(words)
    except BrokenPipeError:
        return Exit.FINE
    except KeyboardInterrupt:
        tell("interrupted")
        return Exit.INTERRUPTED
    except OutputError as error:
        complain(str(error))
        return Exit.FAILED
    except FileNotFoundError:
        if _is_somewhere():
            raise
        complain("the current folder was deleted; go to another one")
        return Exit.USAGE
    except AiosearchError as error:
        complain(str(error))
        if error.__cause__ is not None and {"-v", "--verbose"} & set(words):
            tell("".join(traceback.format_exception(error.__cause__)).rstrip())
        return Exit.FAILED if isinstance(error, ProblemError | WorkerError) else Exit.USAGE
    except OSError as error:
        if error.errno != errno.EMFILE:
            raise
        most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        raised = f"raise the limit of {most}, as with `ulimit -n {max(2 * most, 1024)}`"
        complain(f"{os.strerror(error.errno).lower()}: {raised}")
        return Exit.FAILED
    finally:
        flush_output()


def _is_somewhere() -> bool:
    try:
        os.getcwd()
    except FileNotFoundError:
        return False
    return True


def _run(words: list[str]) -> int:
    try:
        command, arguments = read_command_line(words)
    except SystemExit as shown:  # --help and --version
        return int(shown.code or 0)
    return int(command.run(arguments))
