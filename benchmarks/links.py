"""What a message between two hosts costs: there and back over TCP on loopback, signed both ways.

The other side is a process of its own. Beside it, in the same run, `multiprocessing.connection`,
which proves a key at the start of a connection and signs nothing after.
"""

from __future__ import annotations

import asyncio
import multiprocessing.connection
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import uvloop
from aiosearch_sockets import TcpListener, call
from lib.figures import figure, spread

from aiosearch.remote.links import Link

TARGET = 150.0
SMALL, LARGE = 100, 1 << 20
KEY = b"a key of this benchmark"
LOOPS = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}


async def echo(address: str) -> None:
    """The other side: sends everything back until the link closes."""
    gone = asyncio.Event()
    link = await call(address)
    link.open(link.send, lambda reason: gone.set())
    await gone.wait()


def plain_echo(port: int) -> None:
    with multiprocessing.connection.Client(("127.0.0.1", port), authkey=KEY) as connection:
        while message := connection.recv_bytes():
            connection.send_bytes(message)


def other_side(how: str, where: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, Path(__file__), how, where])


async def trips(link: Link, size: int, count: int) -> list[float]:
    """Microseconds of each message there and back."""
    message = os.urandom(size)
    back: asyncio.Queue[bytes] = asyncio.Queue()
    link.open(back.put_nowait, lambda reason: None)
    times = []
    for _ in range(count):
        start = time.perf_counter()
        link.send(message)
        await back.get()
        times.append((time.perf_counter() - start) * 1e6)
    return times


async def through_links(loop: str, size: int, count: int) -> list[float]:
    listener = TcpListener()
    joined: asyncio.Future[Link] = asyncio.get_running_loop().create_future()
    await listener.start(joined.set_result)
    process = other_side(loop, listener.address)
    try:
        link = await joined
        times = await trips(link, size, count)
        link.close()
    finally:
        await listener.close()
        await asyncio.to_thread(process.wait)
    return times


def through_connection(size: int, count: int) -> list[float]:
    message = os.urandom(size)
    times = []
    with multiprocessing.connection.Listener(("127.0.0.1", 0), authkey=KEY) as listener:
        process = other_side("plain", str(listener.address[1]))
        with listener.accept() as connection:
            for _ in range(count):
                start = time.perf_counter()
                connection.send_bytes(message)
                connection.recv_bytes()
                times.append((time.perf_counter() - start) * 1e6)
            connection.send_bytes(b"")
        process.wait()
    return times


def repeated(run: Callable[[], list[float]]) -> tuple[list[float], float]:
    """Medians of three runs, and the 99th percentile of all."""
    runs = [run() for _ in range(3)]
    everything = sorted(value for times in runs for value in times)
    return [statistics.median(times) for times in runs], everything[len(everything) * 99 // 100]


def measure(size: int, count: int, target: float | None) -> None:
    plain, plain_late = repeated(lambda: through_connection(size, count))
    for name, make in LOOPS.items():

        def run(
            name: str = name, make: Callable[[], asyncio.AbstractEventLoop] = make
        ) -> list[float]:
            with asyncio.Runner(loop_factory=make) as runner:
                return runner.run(through_links(name, size, count))

        medians, late = repeated(run)
        figure(
            f"round trip of {size} bytes over a link between processes, {name}",
            statistics.median(medians),
            "us",
            target=target,
            runs=spread(medians),
            late=round(late, 1),
            multiprocessing_connection=round(statistics.median(plain), 1),
            multiprocessing_connection_late=round(plain_late, 1),
        )


def main() -> None:
    if len(sys.argv) > 1:
        how, where = sys.argv[1:]
        if how == "plain":
            plain_echo(int(where))
        else:
            with asyncio.Runner(loop_factory=LOOPS[how]) as runner:
                runner.run(echo(where))
        return
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XDG_RUNTIME_DIR"] = folder
        measure(SMALL, 3_000, TARGET)
        measure(LARGE, 100, None)


if __name__ == "__main__":
    main()
