"""The z3 process: `python -m aiosearch.checks.solver FD HOSTPID SECONDS MEMORY_MB`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..processes.frames import Channel, enter_child
from .protocol import SolverAxioms, SolverBroken, SolverReady, decode_request, encode

if TYPE_CHECKING:
    from .session_cache import SessionCache


def prepare() -> None:
    """Imports what `main` will, before a fork server forks this process."""
    from . import session_cache  # noqa: F401


def main() -> None:
    """Answers each `SolverRequest` until the host goes away or kills the process."""
    channel, (seconds, memory_mb) = enter_child()
    try:
        from .session_cache import SessionCache
    except Exception as error:  # a library that does not load raises what it likes
        channel.send(encode(SolverBroken(f"{type(error).__name__}: {error}")))
        return
    bench = SessionCache(float(seconds), int(memory_mb))
    channel.send(encode(SolverReady()))
    try:
        while True:
            _serve(channel, bench)
    except (EOFError, ConnectionError):
        return


def _serve(channel: Channel, bench: SessionCache) -> None:
    payloads = channel.receive()
    with bench.watchdog.awake():
        for payload in payloads:
            request = decode_request(payload)
            if isinstance(request, SolverAxioms):
                bench.learn(request.number, request.text)
            else:
                channel.send(encode(bench.answer(request)))


if __name__ == "__main__":
    main()
