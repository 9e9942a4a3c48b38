"""The z3 process: `python -m aiosearch.checks.solver FD HOSTPID SECONDS MEMORY_MB`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..engine.channel import Channel, enter_child
from .protocol import Axioms, Broken, Ready, decode_request, encode

if TYPE_CHECKING:
    from .bench import Bench


def prepare() -> None:
    """Imports what `main` will, before a nursery forks this process."""
    from . import bench  # noqa: F401


def main() -> None:
    """Answers questions until the host goes away or kills the process."""
    channel, (seconds, memory_mb) = enter_child()
    try:
        from .bench import Bench
    except Exception as error:  # a library that does not load raises what it likes
        channel.send(encode(Broken(f"{type(error).__name__}: {error}")))
        return
    bench = Bench(float(seconds), int(memory_mb))
    channel.send(encode(Ready()))
    try:
        while True:
            _serve(channel, bench)
    except (EOFError, ConnectionError):
        return


def _serve(channel: Channel, bench: Bench) -> None:
    payloads = channel.receive()
    with bench.watchdog.awake():
        for payload in payloads:
            request = decode_request(payload)
            if isinstance(request, Axioms):
                bench.learn(request.number, request.text)
            else:
                channel.send(encode(bench.answer(request)))


if __name__ == "__main__":
    main()
