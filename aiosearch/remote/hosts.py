"""Other machines as the search sees them: places where processes can be started.

A `Host` is a machine that has introduced itself, a `RemoteChild` a process there, which the engine
uses like a `Child`. The first message of a link decides: `HostGreeting` makes it a host,
`ProgressQuery` an onlooker, anything else closes it.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Mapping
from typing import Protocol

from . import protocol
from .admission import difference, versions
from .heartbeat import PATIENCE, Heartbeat
from .links import Link, Listener
from .protocol import (
    API,
    Farewell,
    FrameFromProcess,
    FrameToProcess,
    FromAgent,
    HostGreeting,
    HostLeaving,
    KeysAccepted,
    Kill,
    OfferTakers,
    Probe,
    ProcessGone,
    ProcessSilent,
    ProgressQuery,
    Pulse,
    ReleaseClaims,
    SearchStateDocument,
    SessionRefused,
    Spawn,
    Spawned,
    ToAgent,
    encode,
)

GREETING_SECONDS = 10.0
"""Seconds in which a host has to say what it is."""


class RemoteChild:
    """A process on another machine; the same to the engine as a `Child`, as both are a `Handle`."""

    def __init__(
        self,
        host: Host,
        channel: int,
        on_frame: Callable[[bytes], None],
        on_gone: Callable[[], None],
    ) -> None:
        self.sent = 0
        self.received = 0
        self.pid = 0
        self.death = "it is gone"
        self._host = host
        self._channel = channel
        self._on_frame = on_frame
        self._on_gone = on_gone
        self._on_silence: Callable[[], None] | None = None
        self._killed = False
        self._started: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._gone = asyncio.Event()

    @property
    def alive(self) -> bool:
        return self.pid > 0 and not self._killed and not self._gone.is_set()

    async def start(self, kind: str, limits: tuple[float, int]) -> None:
        """Returns when it runs; raises `OSError` where it cannot."""
        self._host.send(Spawn(self._channel, kind, limits))
        await self._started

    def send(self, payload: bytes) -> None:
        if not self._killed:
            self.sent += 1
            self._host.send(FrameToProcess(self._channel, payload))

    def probe(self, payload: bytes, seconds: float, silent: Callable[[], None]) -> None:
        if not self._killed:
            self.sent += 1
            self._on_silence = silent
            self._host.send(Probe(self._channel, payload, seconds))

    def silent(self) -> None:
        """It has not answered where it runs."""
        if not self._killed and self._on_silence is not None:
            self._on_silence()

    def kill(self) -> None:
        """Ends it; nothing that it says is heard any more."""
        if not self._killed:
            # Set first: a frame that is already on its way must not be heard
            self._killed = True
            self._host.send(Kill(self._channel))

    async def reap(self) -> None:
        await self._gone.wait()

    def heard(self, payload: bytes) -> None:
        if not self._killed:
            self.received += 1
            self._on_frame(payload)

    def spawned(self, pid: int) -> None:
        self.pid = pid
        if not self._started.done():
            self._started.set_result(None)

    def ended(self, reason: str) -> None:
        """It is gone, or never came."""
        if self._gone.is_set():
            return
        self.death = reason
        self._gone.set()
        if self._started.done():
            self._on_gone()
        else:
            self._started.set_exception(OSError(reason))


class Host:
    """One machine that serves the search, from its greeting until its link closes."""

    def __init__(self, link: Link, here: HostGreeting, heartbeat: Heartbeat, name: str) -> None:
        self.here = here
        self.name = name
        self.checkers = here.checkers
        self.leaving = False
        self._link = link
        self._heartbeat = heartbeat
        self._children: dict[int, RemoteChild] = {}
        self._channels = 0
        self._settled: dict[tuple[int, int], Mapping[int, int]] = {}
        self._gone = False

    async def worker(
        self, on_frame: Callable[[bytes], None], on_gone: Callable[[], None]
    ) -> RemoteChild:
        """Starts a worker there."""
        return await self._spawn("worker", (0.0, 0), on_frame, on_gone)

    async def checker(
        self,
        limits: tuple[float, int],
        on_frame: Callable[[bytes], None],
        on_gone: Callable[[], None],
    ) -> RemoteChild:
        """Starts a z3 process there, with seconds for a question and megabytes as `limits`."""
        return await self._spawn("checker", limits, on_frame, on_gone)

    def release(self, session: int, owner: int, committed: int) -> None:
        """Voids the claims of one of its workers that died, by `ReleaseClaims`."""
        self.send(ReleaseClaims(session, owner, committed))

    def takers(self, session: int, owner: int) -> Mapping[int, int] | None:
        """Who has taken what a dead worker of this machine had offered; None while the
        machine has not said so, and nobody where it is lost: then its other workers are as
        well."""
        return {} if self._gone else self._settled.pop((session, owner), None)

    def dismiss(self, reason: str) -> None:
        """Lets it go."""
        self.send(Farewell(reason))
        # After the farewell, which a closing link still carries
        self._link.close(reason)

    def send(self, message: ToAgent) -> None:
        self._link.send(encode(message))

    def received(self, message: FromAgent) -> None:
        """Takes what concerns its processes; raises `ValueError` at what makes no sense."""
        match message:
            case FrameFromProcess(channel=channel, payload=payload):
                self._child(channel).heard(payload)
            case Spawned(channel=channel, pid=pid):
                self._child(channel).spawned(pid)
            case ProcessSilent(channel=channel):
                self._child(channel).silent()
            case ProcessGone(channel=channel, reason=reason):
                self._child(channel).ended(reason)
                del self._children[channel]
            case OfferTakers(session=session, owner=owner, takers=takers):
                self._settled[session, owner] = takers
            case HostGreeting() | ProgressQuery():
                raise ValueError("it introduced itself twice")

    def lost(self, reason: str) -> None:
        """Settles that the link of a host has closed: all that ran there is gone."""
        self._heartbeat.stop()
        self.leaving = self._gone = True
        # Emptied first: `ended` may start new processes, which must find the host gone
        children, self._children = self._children, {}
        for child in children.values():
            child.ended(f"{self.name}: {reason}")

    async def _spawn(
        self,
        kind: str,
        limits: tuple[float, int],
        on_frame: Callable[[bytes], None],
        on_gone: Callable[[], None],
    ) -> RemoteChild:
        if self.leaving:
            raise OSError(f"{self.name} is leaving")
        # Numbers are never used again, so that a late frame cannot reach another process
        self._channels += 1
        child = RemoteChild(self, self._channels, on_frame, on_gone)
        self._children[self._channels] = child
        await child.start(kind, limits)
        return child

    def _child(self, channel: int) -> RemoteChild:
        try:
            return self._children[channel]
        except KeyError:
            raise ValueError(f"it speaks of process {channel}, which is not there") from None


class Housekeeper(Protocol):
    """Who gives hosts work (`Machines` does): each method is called from the event loop."""

    def turned_away(self, here: HostGreeting, peer: str, reason: str) -> None: ...
    def admitted(self, host: Host) -> None: ...
    def left(self, host: Host, reason: str) -> None: ...
    def refused(self, host: Host, session: int, reason: str) -> None: ...
    def learning(self, host: Host, session: int, part: int) -> None: ...
    def asked_to_leave(self, host: Host) -> None: ...
    def state(self) -> bytes: ...


class Hosts:
    """All machines that come to serve a pool, over one listener."""

    def __init__(self, listener: Listener, keeper: Housekeeper, patience: float = PATIENCE) -> None:
        self.patience = patience
        """Seconds for which a host may be silent."""
        self._listener = listener
        self._keeper = keeper
        self._hosts: set[Host] = set()
        self._greeting: set[_Greeting] = set()

    @property
    def here(self) -> tuple[Host, ...]:
        return tuple(self._hosts)

    async def start(self) -> None:
        await self._listener.start(self._joined)

    async def close(self) -> None:
        """Lets everybody go."""
        for greeting in list(self._greeting):
            greeting.link.close("the search is over")
        for host in list(self._hosts):
            host.dismiss("the search is over")
        # Last, because it waits until what was said to them has gone out
        await self._listener.close()

    def _joined(self, link: Link) -> None:
        self._greeting.add(_Greeting(link, self))

    def introduced(self, greeting: _Greeting, here: HostGreeting) -> Host | None:
        """A host has said what it is; gives its `Host`, unless it cannot serve."""
        self._greeting.discard(greeting)
        reason = _unfit(here)
        if reason:
            self._keeper.turned_away(here, greeting.link.peer, reason)
            greeting.link.send(encode(Farewell(reason, refused=True)))
            greeting.link.close(reason)
            return None
        host = Host(greeting.link, here, greeting.heartbeat, self._name_of(greeting.link, here))
        self._hosts.add(host)
        self._keeper.admitted(host)
        return host

    def _name_of(self, link: Link, here: HostGreeting) -> str:
        """A name that no other machine here has: strategies tell machines apart by it."""
        # Two machines may have one name, and one machine may come twice
        name = f"{here.name} ({link.peer})"
        names_here = {host.name for host in self._hosts}
        names = itertools.chain([name], (f"{name} #{number}" for number in itertools.count(2)))
        return next(candidate for candidate in names if candidate not in names_here)

    def watched(self, greeting: _Greeting) -> None:
        """Somebody wants to know the state only, and gets a `SearchStateDocument`."""
        self._greeting.discard(greeting)
        greeting.link.send(encode(SearchStateDocument(self._keeper.state())))
        greeting.link.send(encode(Farewell("")))

    def received(self, host: Host, message: FromAgent) -> None:
        match message:
            case SessionRefused(session=session, reason=reason):
                self._keeper.refused(host, session, reason)
            case KeysAccepted(session=session, part=part):
                self._keeper.learning(host, session, part)
            case HostLeaving():
                self._keeper.asked_to_leave(host)
            case _:
                host.received(message)

    def closed(self, greeting: _Greeting, host: Host | None, reason: str) -> None:
        self._greeting.discard(greeting)
        if host is not None and host in self._hosts:
            self._hosts.discard(host)
            self._keeper.left(host, reason)
            host.lost(reason)


class _Greeting:
    """A link, from the time when it opens until it has said what it is."""

    def __init__(self, link: Link, hosts: Hosts) -> None:
        self.link = link
        self.heartbeat = Heartbeat(link, encode(Pulse()), hosts.patience)
        self._hosts = hosts
        self._host: Host | None = None
        self._known = False
        loop = asyncio.get_running_loop()
        # A peer that says nothing would otherwise hold its link for ever
        self._timer = loop.call_later(GREETING_SECONDS, link.close, "it did not say what it is")
        link.open(self._received, self._closed)

    def _received(self, payload: bytes) -> None:
        self.heartbeat.heard()
        message = protocol.decode_from_agent(payload)
        if self._host is not None:
            self._hosts.received(self._host, message)
        elif isinstance(message, HostGreeting) and not self._known:
            self._met()
            self._host = self._hosts.introduced(self, message)
        elif isinstance(message, ProgressQuery) and not self._known:
            self._met()
            self._hosts.watched(self)
        elif not isinstance(message, Pulse):
            raise ValueError("it did not say what it is")

    def _met(self) -> None:
        self._known = True
        self._timer.cancel()
        self.heartbeat.start()

    def _closed(self, reason: str) -> None:
        self._timer.cancel()
        self.heartbeat.stop()
        self._hosts.closed(self, self._host, reason)


def _unfit(here: HostGreeting) -> str:
    if here.api != API:
        return f"it speaks version {here.api} of the protocol, and this search version {API}"
    return difference(versions(), here.versions)
