"""The machines that serve a pool: their workers have seats, and their z3 processes answer; and the
machines that came and do not serve, each with a reason for people to read.
"""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple, Protocol

from ..documents import Document
from ..engine.worker.slots import Deliver, PoolMember, ProcessSlot
from ..plain import plain
from .admission import versions
from .hosts import Host, Hosts
from .links import Listener
from .notebooks import Notebook, Standing
from .protocol import EarlierKeys, HostGreeting

if TYPE_CHECKING:
    from ..checks import Verifier


MOST = 100
"""How many reasons are remembered; later ones replace the earliest."""
EVERY = 0
"""Stands for a session: what a machine is refused for whatever is searched."""


class Refusals:
    """Reasons by machine and session."""

    def __init__(self) -> None:
        self._reasons: dict[tuple[str, int], str] = {}

    def add(self, machine: str, session: int, reason: str) -> bool:
        """Remembers a reason; says whether it is news."""
        news = self._reasons.get((machine, session)) != reason
        self._reasons[machine, session] = reason
        # Dictionaries keep their order of insertion: the oldest goes
        if len(self._reasons) > MOST:
            del self._reasons[next(iter(self._reasons))]
        return news

    def forget(self, machine: str) -> None:
        """Forgets a machine that is gone, or serves now."""
        for key in [key for key in self._reasons if key[0] == machine]:
            del self._reasons[key]

    def of(self, session: int) -> dict[str, str]:
        """Who does not serve a search, and why, as it may be shown."""
        return {
            plain(machine): plain(reason)
            for (machine, of), reason in self._reasons.items()
            if of in (session, EVERY)
        }


class PoolSlots(Protocol):
    """The `Pool`, as machines see it."""

    @property
    def members(self) -> tuple[PoolMember, ...]: ...

    @property
    def heard(self) -> tuple[Deliver, Callable[[int], None]]: ...

    def vacant_seat(self) -> int: ...
    def occupy(self, slot: ProcessSlot) -> None: ...
    def warn(self, message: str) -> None: ...


DEPARTURES = 100
"""How many machines that have gone are remembered for `aiosearch status`."""


class Departure(NamedTuple):
    """A machine that has gone."""

    name: str
    reason: str
    at: float
    """On the clock of `time.monotonic`."""


class Machines:
    """The machines that have come, and the seats of their workers."""

    def __init__(self, listener: Listener, pool: PoolSlots, patience: float) -> None:
        self._listener = listener
        self._hosts = Hosts(listener, self, patience)
        self._pool = pool
        self._by_seat: dict[int, Host] = {}
        self._dead: dict[tuple[int, int], Host] = {}
        """Machines that are to say what became of the offers of a dead worker, by its session and
        owner; see `takers`."""
        self._refusals = Refusals()
        self._notebook: Notebook | None = getattr(listener, "notebook", None)
        self._verifier: Verifier | None = None
        self._departed: deque[Departure] = deque(maxlen=DEPARTURES)
        self._closing = False

    @property
    def address(self) -> str:
        """Where machines connect to, as `Listener.address` says."""
        return self._listener.address

    async def start(self) -> None:
        await self._hosts.start()

    async def close(self) -> None:
        """Lets everybody go."""
        self._closing = True
        await self._hosts.close()

    def lend_checkers(self, verifier: Verifier) -> None:
        """Lets the z3 processes of all machines answer, from now on, and what was noted before."""
        self._verifier = verifier
        if self._notebook is not None:
            verifier.share(self._notebook.known(), self._notebook.judged)
        for host in self._hosts.here:
            verifier.add(host)

    def note(self, member: PoolMember) -> None:
        """Notes how a search stands, where the listener has a `notebook`."""
        if self._notebook is not None:
            solutions = member.found
            count, cost, best = len(solutions.encoded), solutions.best_cost, solutions.best
            self._notebook.stands(member.id, Standing(member.name, count, cost, best))

    def stays(self, seat: int) -> bool:
        """Whether a seat is not on a machine that is going or gone."""
        host = self._by_seat.get(seat)
        return host is None or not host.leaving

    def release(self, session: int, seat: int, owner: int, committed: int) -> None:
        """Voids a dead worker's claims on the machine where they were made."""
        if (host := self._by_seat.get(seat)) is not None:
            host.release(session, owner, committed)

    def takers(self, session: int, seat: int, owner: int) -> Mapping[int, int] | None:
        """Who has taken what a dead worker had offered; None while its machine does not say."""
        host = self._dead.pop((session, owner), None) or self._by_seat.get(seat)
        takers = {} if host is None else host.takers(session, owner)
        if takers is None and host is not None:
            self._dead[session, owner] = host  # its seat may be another machine's by then
        return takers

    def rested(self, seat: int) -> None:
        """A seat has been heard: a machine that wants to go may have given everything back."""
        if not self.stays(seat):
            self._let_go(self._by_seat[seat])

    def let_go(self) -> None:
        """Lets machines go that want to, and that have nothing any more."""
        for host in list(self._hosts.here):
            if host.leaving:
                self._let_go(host)

    # What hosts do

    def turned_away(self, here: HostGreeting, peer: str, reason: str) -> None:
        if self._refusals.add(here.name, EVERY, reason):
            self._pool.warn(plain(f"{here.name} ({peer}) cannot serve: {reason}"))

    def admitted(self, host: Host) -> None:
        self._refusals.forget(host.here.name)
        for _ in range(host.here.workers):
            seat = self._pool.vacant_seat()
            self._by_seat[seat] = host
            self._pool.occupy(ProcessSlot(seat, *self._pool.heard, host.worker, host.name))
        if self._verifier is not None:
            self._verifier.add(host)

    def left(self, host: Host, reason: str) -> None:
        self._refusals.forget(host.name)
        if self._verifier is not None:
            self._verifier.remove(host)
        if not self._closing:
            why = "it was let go" if host.leaving else reason
            self._departed.append(Departure(host.name, why, time.monotonic()))
        # Who said that it would leave is no surprise, nor is anybody at the end
        if not self._closing and not host.leaving:
            self._pool.warn(plain(f"{host.name} is gone: {reason}"))

    def refused(self, host: Host, session: int, reason: str) -> None:
        for member in self._pool.members:
            if member.id == session:
                if self._refusals.add(host.name, session, reason):
                    member.warn(plain(f"{host.name} cannot serve: {reason}"))
                for seat in self._seats(host):
                    member.refused(seat, plain(f"{host.name} cannot serve"))
        self.let_go()

    def learning(self, host: Host, session: int, part: int) -> None:
        for member in self._pool.members:
            if member.id == session and (keys := member.known_keys(part)):
                host.send(EarlierKeys(session, part, keys))

    def asked_to_leave(self, host: Host) -> None:
        host.leaving = True
        for member in self._pool.members:
            for seat in self._seats(host):
                member.drain(seat)
        self._let_go(host)

    def refusals(self, session: int) -> Mapping[str, str]:
        """Names the machines that do not serve a search, and why."""
        return self._refusals.of(session)

    def state(self) -> bytes:
        """What `aiosearch status` shows, as JSON."""
        machines = [
            {
                "name": host.name,
                "workers": host.here.workers,
                "busy": self._busy(host),
                "checkers": host.here.checkers,
                "versions": dict(host.here.versions),
                "leaving": host.leaving,
            }
            for host in self._hosts.here
        ]
        searches = [member.state() for member in self._pool.members]
        document = {
            "versions": versions(),
            "machines": machines,
            "departed": self._departures(),
            "searches": searches,
            "refused": self._refused(),
        }
        return json.dumps(document).encode()

    def _departures(self) -> list[Document]:
        """Machines that have gone and have not come back, the latest last."""
        names_here = {host.name for host in self._hosts.here}
        now = time.monotonic()
        return [
            {"name": gone.name, "reason": gone.reason, "seconds_ago": round(now - gone.at, 1)}
            for gone in self._departed
            if gone.name not in names_here
        ]

    def _busy(self, host: Host) -> int:
        """How many of its workers explore for some search."""
        members = self._pool.members
        return sum(any(member.busy(seat) for member in members) for seat in self._seats(host))

    def _refused(self) -> Mapping[str, str]:
        refusals = dict(self._refusals.of(EVERY))
        for member in self._pool.members:
            refusals |= self._refusals.of(member.id)
        return refusals

    def _seats(self, host: Host) -> list[int]:
        return [seat for seat, owner in self._by_seat.items() if owner is host]

    def _let_go(self, host: Host) -> None:
        seats = self._seats(host)
        if not any(member.busy(seat) for member in self._pool.members for seat in seats):
            host.dismiss("it is let go")
