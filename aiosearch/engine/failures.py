"""What goes wrong on a worker, on its way to the host: written down here, and raised there."""

from __future__ import annotations

import traceback

from ..errors import AiosearchError, ProblemError, StrategyError
from .wire import Begin, Failed


def failed(session: int, problem: str, error: Exception) -> Failed:
    """Tells what a search raised while it ran, with the traceback of what is to blame."""
    trace = "".join(traceback.format_exception(error.__cause__ or error))
    if isinstance(error, ProblemError):
        return Failed(session, problem, error.method, error.reason, error.path, trace)
    return Failed(session, problem, "", f"{type(error).__name__}: {error}", None, trace)


def not_begun(begin: Begin, error: Exception) -> Failed:
    """Tells what cannot be begun: the problem's own fault, or the board's."""
    if isinstance(error, StrategyError):
        return Failed(begin.session, "", "", str(error), None)
    reason = f"a worker cannot build the problem: {type(error).__name__}: {error}"
    return Failed(begin.session, begin.problem.qualname, "__init__", reason, None)


def error_of(message: Failed) -> AiosearchError:
    """What the host raises for it."""
    if not message.problem:
        return StrategyError(message.reason)
    if message.method:
        return ProblemError(message.problem, message.method, message.reason, message.path)
    return AiosearchError(f"{message.problem}: the engine failed: {message.reason}")
