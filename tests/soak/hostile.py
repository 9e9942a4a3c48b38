"""What somebody can do who sends what nobody should: frames, connections, recorded sessions.

Three things must hold whatever comes: nothing but a refusal is raised, the good goes on, and
nothing is obeyed that the other end did not say, there and then.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import resource
import socket
import statistics
import sys
import time
from contextlib import suppress
from pathlib import Path
from random import Random

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))

from aiosearch_sockets import Secure, TcpListener, call, secure
from frame_fuzzing import HERE, frames, introduced
from lib.figures import figure

from aiosearch.remote.links import Link

TOKEN = os.urandom(32)
AT_ONCE = 50


class Good:
    """A link that sends a number and has it back, again and again, all the time."""

    def __init__(self, link: Link) -> None:
        self.times: list[float] = []
        self.wrong = 0
        self.closed = ""
        self._link = link
        self._sent = time.perf_counter()
        link.open(self._back, self._ended)
        link.send(b"0")

    def _back(self, payload: bytes) -> None:
        self.wrong += payload != b"%d" % len(self.times)
        self.times.append(time.perf_counter() - self._sent)
        asyncio.get_running_loop().call_later(0.002, self._again)

    def _again(self) -> None:
        self._sent = time.perf_counter()
        self._link.send(b"%d" % len(self.times))

    def _ended(self, reason: str) -> None:
        self.closed = reason


def noise(random: Random, recorded: bytes) -> bytes:
    """What a hostile connection says."""
    hello = Secure(TOKEN, caller=True).begin()
    cut = random.randrange(len(recorded))
    flipped = bytearray(recorded)
    flipped[cut] ^= 1 << random.randrange(8)
    return random.choice(
        (
            b"",
            random.randbytes(random.choice((1, 43, 44, 100, 5000))),
            b"GET / HTTP/1.1\r\nHost: search\r\n\r\n" * 2,
            hello[: random.randrange(len(hello))],
            hello,
            hello + random.randbytes(200),
            secure.MAGIC + random.randbytes(36),
            recorded,
            recorded[:cut],
            bytes(flipped),
        )
    )


async def attack(address: str, said: bytes, patient: bool) -> tuple[bool, bool]:
    """Opens a connection and says something; gives whether it could, and got a proof for it."""
    host, _, port = address.rpartition(":")
    loop = asyncio.get_running_loop()
    connected, heard = False, b""
    with socket.socket() as connection, suppress(OSError, TimeoutError):
        connection.setblocking(False)
        await loop.sock_connect(connection, (host, int(port)))
        connected = True
        await loop.sock_sendall(connection, said)
        async with asyncio.timeout(0.2 if patient else 0.0):
            while more := await loop.sock_recv(connection, 4096):
                heard += more
    return connected, heard[secure.HELLO_BYTES :].strip(b"\0") != b""


class Port:
    """A listener with an echo behind it, and a good host on it."""

    async def __aenter__(self) -> Port:
        self._joined: list[Link] = []
        self._listener = TcpListener("127.0.0.1:0", TOKEN)
        await self._listener.start(self._echo)
        self.address = self._listener.address
        self.good = Good(await call(self.address, TOKEN))
        return self

    async def __aexit__(self, *_: object) -> None:
        for link in self._joined:
            link.close()
        await self._listener.close()

    @property
    def joined(self) -> int:
        return len(self._joined)

    def _echo(self, link: Link) -> None:
        self._joined.append(link)
        link.open(link.send, lambda reason: None)


async def connections(count: int, seed: int) -> None:
    """Hostile connections, fifty at a time, beside a good one; then a new good one comes."""
    random = Random(seed)
    recorded = recording()
    async with Port() as port:
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        outcomes: list[tuple[bool, bool]] = []
        for _ in range(0, count, AT_ONCE):
            attacks = (
                attack(port.address, noise(random, recorded), random.random() < 0.2)
                for _ in range(AT_ONCE)
            )
            outcomes += await asyncio.gather(*attacks)
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory
        (await call(port.address, TOKEN)).close()
        good = port.good
        figure(
            "hostile connections on the real port that were believed",
            sum(believed for _, believed in outcomes) + port.joined - 2,
            "connections",
            target=0,
            connections=sum(connected for connected, _ in outcomes),
            good_round_trips=len(good.times),
            good_answers_wrong=good.wrong,
            good_link_closed=good.closed,
            good_median_ms=round(statistics.median(good.times) * 1e3, 2),
            good_worst_ms=round(max(good.times) * 1e3, 1),
            grown_mb=round(grown / 1024, 1),
            seed=seed,
        )


def recording() -> bytes:
    """What a caller with the token said in a session with a listener."""
    caller, listener = Secure(TOKEN, caller=True), Secure(TOKEN, caller=False)
    listener.feed(hello := caller.begin())
    caller.feed(listener.outgoing())
    listener.feed(proof := caller.outgoing())
    caller.feed(listener.outgoing())
    return hello + proof + b"".join(caller.seal(HERE) for _ in range(3))


def replays(count: int, seed: int) -> None:
    """Frames of a session given again: late, early, twice, back, or to another session."""
    random = Random(seed)
    obeyed = 0
    for number in range(count):
        ours, theirs = (introduced(TOKEN) for _ in range(2))
        sent = [ours[0].seal(b"%d" % one) for one in range(4)]
        back = [ours[1].seal(b"%d" % one) for one in range(4)]
        stolen = [theirs[0].seal(b"%d" % one) for one in range(4)]
        order = random.sample(range(4), 4)
        sequence = (
            [sent[0], sent[0]],
            [sent[one] for one in order] if order != [0, 1, 2, 3] else [sent[1]],
            [sent[0], stolen[1]],
            [stolen[0]],
            [back[0]],
            sent[1:],
        )[number % 6]
        taken: list[bytes] = []
        with suppress(secure.FrameError):
            for frame in sequence:
                taken += ours[1].feed(frame)
        truth = [b"%d" % one for one in range(4)]
        obeyed += taken != truth[: len(taken)] or len(taken) == len(sequence)
    figure(
        "stolen, repeated, reordered and reflected frames that were taken",
        obeyed,
        "sequences",
        target=0,
        sequences=count,
        seed=seed,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--frames", type=int, default=1_000_000)
    parser.add_argument("--connections", type=int, default=10_000)
    parser.add_argument("--replays", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--quick", action="store_true", help="a hundredth of everything")
    options = parser.parse_args()
    part = 100 if options.quick else 1
    asyncio.run(frames(options.frames // part, options.seed))
    asyncio.run(connections(options.connections // part, options.seed))
    replays(options.replays // part, options.seed)


if __name__ == "__main__":
    main()
