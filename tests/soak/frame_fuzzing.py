"""Frames of a trusted host gone bad, against the search's side of it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any

import msgspec
from aiosearch_sockets import Secure
from aiosearch_stealing import Stealing
from lib.figures import figure, versions
from message_mutator import Coverage, Mutator, form, words

from aiosearch.engine.books.coordinator import Coordinator, Outlets
from aiosearch.engine.explore.bundles import ROOT
from aiosearch.engine.explore.claims import SharedClaims
from aiosearch.engine.explore.counts import Counts
from aiosearch.engine.wire import messages as wire
from aiosearch.engine.wire.reference import ObjectReference
from aiosearch.errors import AiosearchError
from aiosearch.problem import Obligation
from aiosearch.remote import protocol
from aiosearch.remote.admission import versions as host_versions
from aiosearch.remote.hosts import Host, Hosts
from aiosearch.remote.links import Link
from aiosearch.strategies import Plan

REFUSED = (msgspec.DecodeError, ValueError)
"""What a link may raise of a message that makes no sense: it closes then, and nothing else."""
FRAMES_A_LINK = 200
PROCESSES = 2
COVERED = (
    "remote/hosts.py",
    "remote/protocol.py",
    "engine/wire.py",
    "engine/coordinator.py",
    "engine/seats.py",
    "engine/offers.py",
    "aiosearch_sockets/secure.py",
)
HERE = protocol.encode(protocol.HostGreeting(protocol.API, "host", 2, 1, host_versions()))


def introduced(token: bytes) -> tuple[Secure, Secure]:
    """Gives a caller and a listener after their handshake."""
    caller, listener = Secure(token, caller=True), Secure(token, caller=False)
    listener.feed(caller.begin())
    for one, other in ((listener, caller), (caller, listener)) * 2:
        other.feed(one.outgoing())
    return caller, listener


class MemoryLink:
    """A link whose other end is a trusted host gone bad: it seals what it likes."""

    peer = "a host gone bad"

    def __init__(self) -> None:
        self._there, self._here = introduced(bytes(32))

    def open(self, received: Callable[[bytes], None], closed: Callable[[str], None]) -> None:
        self.received, self.closed = received, closed

    def hear(self, payload: bytes) -> None:
        for message in self._here.feed(self._there.seal(payload)):
            self.received(message)

    def send(self, payload: bytes) -> None:
        pass

    def close(self, reason: str = "") -> None:
        pass


class Books:
    """The books of a search of which one host has everything."""

    def __init__(self) -> None:
        nobody = ObjectReference("", "")
        self._claims = SharedClaims.create(16)
        self._heard: wire.ToHost = wire.Hello()
        outlets = Outlets(
            send=lambda seat, message: None,
            commit=lambda transaction: None,
            fail=self._fail,
            ask=lambda digest, obligation, priority: None,
            withdraw=lambda digest: None,
            release_claims=lambda seat, owner, report: self._claims.release(owner, report),
        )
        begin = wire.Begin(1, nobody, nobody, "defer", False, "")
        self._books = Coordinator(Stealing(), Plan(0, False), begin, outlets, time.monotonic_ns)
        self._books.start({1: ROOT}, 2)
        for seat in range(PROCESSES):
            self._books.join(seat, "a host gone bad")

    def hear(self, seat: int, frame: bytes) -> None:
        self._heard = wire.decode_for_host(frame)
        if self._heard.session == 1:
            self._books.receive(seat, self._heard)

    def _fail(self, error: AiosearchError, trace: str) -> None:
        """A host may say that something fails there; nothing else may fail for what it says."""
        if not isinstance(self._heard, wire.WorkerFailed):
            raise error

    def close(self) -> None:
        """The host is lost, and everything it held is open again."""
        for seat in range(PROCESSES):
            self._books.lose(seat, blame=False, forever=True)
        if self._books.ledger.free < len(self._books.ledger):
            raise RuntimeError("a subtree is lost")
        self._claims.close()


class Desk:
    """The search's side: its hosts, of which each is given two processes, and a search."""

    address = invitation = "in memory"
    covers_here = False

    def __init__(self) -> None:
        self._hosts = Hosts(self, self)
        self._tasks: set[asyncio.Task[Any]] = set()
        self._link: MemoryLink | None = None
        self._books: Books | None = None

    async def start(self, joined: Callable[[Link], None]) -> None:
        self._joined = joined

    async def close(self) -> None:
        await self._renounce()

    async def renew(self, introduced: bool) -> MemoryLink:
        """Gives a link to a new host, which has said what it is or not."""
        await self._renounce()
        if not hasattr(self, "_joined"):
            await self._hosts.start()
        self._link = MemoryLink()
        self._joined(self._link)
        if introduced:
            self._link.hear(HERE)
            await asyncio.sleep(0)
        return self._link

    async def _renounce(self) -> None:
        if self._link is not None:
            self._link.closed("renewed")
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks.clear()
        if self._books is not None:
            self._books.close()
            self._books = None

    def admitted(self, host: Host) -> None:
        loop = asyncio.get_running_loop()
        self._books = books = Books()
        for seat in range(PROCESSES):
            worker = host.worker(partial(books.hear, seat), lambda: None)
            self._tasks.add(loop.create_task(worker))

    def turned_away(self, here: protocol.HostGreeting, peer: str, reason: str) -> None:
        pass

    def learning(self, host: Host, session: int, part: int) -> None:
        pass

    def left(self, host: Host, reason: str) -> None:
        pass

    def refused(self, host: Host, session: int, reason: str) -> None:
        pass

    def asked_to_leave(self, host: Host) -> None:
        pass

    def state(self) -> bytes:
        return b"{}"

    def warn(self, message: str) -> None:
        pass


def seeds() -> list[bytes]:
    """One message of every kind, and in frames of workers one of every kind of theirs."""
    said: list[wire.ToHost] = [
        wire.Hello(),
        wire.WorkerReport(
            1, True, given=(), solutions=(b"one",), costs=(1.0,), counts=Counts(nodes=5)
        ),
        wire.WorkerReport(1, True, kept=(ROOT,), offered=((1, ROOT),), sequence=1),
        wire.WorkerReport(1, True, gone=((1, 1),), took=((1, 1),), idle=True, sequence=2),
        wire.VerdictRequest(1, bytes(16), Obligation("(assert false)"), 0.5),
        wire.Withdraw(1, (bytes(16),)),
        wire.WorkerFailed(1, "Problem", "expand", "an error", (0, 1)),
    ]
    messages: list[protocol.FromAgent] = [
        protocol.ProgressQuery(protocol.API),
        protocol.Spawned(1, 1234),
        protocol.ProcessGone(2, "it ended"),
        protocol.HostLeaving(),
        protocol.SessionRefused(1, "not installed here"),
        protocol.OfferTakers(1, 1, {1: 2}),
        protocol.ProcessSilent(1),
        protocol.KeysAccepted(1, 0),
        protocol.Pulse(),
        *(protocol.FrameFromProcess(1, wire.encode(frame)) for frame in said),
    ]
    answers: list[protocol.ToAgent] = [
        protocol.Spawn(1, "checker", (1.0, 100)),
        protocol.FrameToProcess(1, b"frame"),
        protocol.Kill(1),
        protocol.ReleaseClaims(1, 1, 5),
        protocol.Farewell("over"),
        protocol.SearchStateDocument(b"{}"),
    ]
    return [HERE, *map(protocol.encode, answers), *map(protocol.encode, messages)]


def shown(link: MemoryLink, frame: bytes) -> object:
    """Has a frame handled; gives what that showed, or raises what must not be raised.

    The decoder of the host's side has its turn too; what it gives is not followed.
    """
    try:
        other: object = form(protocol.decode_for_agent(frame))
    except REFUSED as error:
        other = words(error)
    try:
        link.hear(frame)
    except REFUSED as error:
        return words(error), other
    return form(protocol.decode_from_agent(frame)), other


def well_formed(frame: bytes) -> bool:
    try:
        protocol.decode_from_agent(frame)
    except REFUSED:
        return False
    return True


async def frames(count: int, seed: int) -> None:
    """Goes on until so many distinct frames were handled; a crash is a figure, not the end."""
    random = Random(seed)
    mutator, coverage, desk = Mutator(random, seeds()), Coverage(*COVERED), Desk()
    distinct: set[int] = set()
    crashes: dict[str, bytes] = {}
    growth: dict[str, int] = {}
    accepted = made = 0
    started = time.process_time()
    while len(distinct) < count:
        if made % FRAMES_A_LINK == 0:
            link = await desk.renew(introduced=random.random() < 0.8)
        frame = mutator.frame()
        made += 1
        if (mark := hash(frame)) in distinct:
            continue
        distinct.add(mark)
        good = well_formed(frame)
        accepted += good
        try:
            if coverage.run(partial(shown, link, frame)):
                mutator.keep(frame, good)
        except Exception as error:
            crashes.setdefault(words(error), frame)
        if len(distinct) in (count // 1000, count // 100, count // 10, count):
            growth[str(len(distinct))] = len(coverage.seen)
    await desk.close()
    figure(
        "frames of a trusted host gone bad: distinct ones that crashed the search's side",
        len(crashes),
        "kinds of crash",
        target=0,
        frames=len(distinct),
        well_formed=accepted,
        coverage=growth,
        corpus=mutator.corpus,
        crashes={told: frame.hex()[:200] for told, frame in crashes.items()},
        cpu_seconds=round(time.process_time() - started, 1),
        seed=seed,
        packages=versions("aiosearch-sockets"),
    )
