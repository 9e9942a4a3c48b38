"""Work sharing between workers of one machine: a session's offers, and the boards that carry them.

The problem: an idle worker should get work from its neighbour in microseconds, without the host,
and still every subtree has to be in somebody's hands if any of the three dies at any moment. The
rule: an offer is in the host's books before others can see it, and who takes it says so in its next
report.

The life of one offer, number 1 of the owner 7, taken by the owner 9:

    7: enter([bundle])        it will be offered with the next report
    7: changes(report=4)      report 4 carries offered=((1, bundle),)
    7: lay_out(report=4)      the host answered `Entered`: now it is on the board
    9: take()                 report of 9: took=((7, 1),)
    7: look()                 next report of 7: gone=((1, 9),)

Either of the last two reports may come first, or never: see `Offers` for the host's side. Taken
back, an offer is gone as well: gone=((1, 7),).

Invariant: a bundle is in exactly one of `_new` (the report that is due), `_coming` (told, not yet
on the board) and `_offers` (on the board), or no longer this worker's. Cost: one report for any
number of offers; the board itself is the strategy's, see plugins/stealing. See docs/why/design.md.
"""

from __future__ import annotations

import contextlib
import importlib
import os
from collections.abc import Mapping, Sequence

import msgspec
from msgspec import Struct

from ...checks.verdict import Status
from ...errors import AiosearchError, StrategyError
from ...strategies.contract import Strategy
from ...strategies.exchange import MOST_PLACES, Board, Exchange, Taken
from ..explore.bundles import Bundle
from ..wire.messages import Begin


class Bell:
    """An eventfd that all workers of a machine have: a ring wakes one of those that wait.

    A ring that comes while nobody waits is kept for the next worker that does. Where the system has
    no eventfd, there are no rings, and workers offer nothing.
    """

    def __init__(self, fd: int) -> None:
        self._fd = fd

    @classmethod
    def make(cls) -> Bell:
        if not hasattr(os, "eventfd"):
            return cls(-1)
        # Non-blocking: a full counter must not stop who rings, nor an empty one who hushes
        return cls(os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC))

    @classmethod
    def inherited(cls, arguments: list[str]) -> Bell:
        """The host's bell, in a child that was started with `Bell.arguments` among its
        `arguments`."""
        return cls(int(arguments[0]) if arguments else -1)

    @property
    def arguments(self) -> tuple[str, ...]:
        return (str(self._fd),) if self._fd >= 0 else ()

    @property
    def fds(self) -> tuple[int, ...]:
        """The files that a child is to inherit, for `Child.spawn`'s `pass_fds`."""
        return (self._fd,) if self._fd >= 0 else ()

    def ring(self) -> None:
        if self._fd < 0:
            return
        with contextlib.suppress(BlockingIOError):  # rung often enough already
            os.eventfd_write(self._fd, 1)

    def hush(self) -> None:
        """Takes note of all rings so far, so that the next `await_bell` waits again."""
        with contextlib.suppress(BlockingIOError):  # somebody else was faster
            os.eventfd_read(self._fd)

    def close(self) -> None:
        """Closes the eventfd; a second call does nothing."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Bundle).decode

Offer = tuple[int, Bundle]
Name = tuple[int, int]
"""An offer's owner and number, as in `WorkerReport.took`; or its number and who has it, as in
`gone`."""


class ExchangeChanges(Struct, frozen=True):
    """What one report says of the exchange: the fields of `WorkerReport` with these names."""

    offered: tuple[Offer, ...] = ()
    gone: tuple[Name, ...] = ()
    took: tuple[Name, ...] = ()


class NoExchange:
    """An exchange with nobody else on it: `WorkSharing` needs no other case for a lone worker."""

    quiet = True
    room = 0
    best = float("inf")

    def lacking(self, calm: bool) -> int:
        return 0

    def fits(self, blob: bytes) -> bool:
        return False

    def promise(self, promised: bool) -> None: ...

    def offer(self, number: int, blob: bytes, weight: float) -> None: ...

    def taken(self) -> Sequence[Name]:
        return ()

    def regain(self) -> Sequence[int]:
        return ()

    def take(self) -> Sequence[Taken]:
        return ()

    def rest(self, resting: bool) -> None: ...

    def improve(self, cost: float) -> None: ...

    def judged(self, digest: bytes, status: str) -> None: ...

    def verdict(self, digest: bytes) -> str:
        return ""

    def close(self) -> None: ...


class WorkSharing:
    """Keeps what the next report has to say of the exchange.

    Everything that is offered goes into a report first, and is laid out when the host has it in
    its books; what is taken from others is theirs in the books until a report names it.
    """

    def __init__(self, exchange: Exchange, owner: int, free_nodes: int, verdicts: bool) -> None:
        self._exchange = exchange
        self._owner = owner
        self.free_nodes = free_nodes
        """How many nodes may be explored of what was taken before the host grants some."""
        self.resting = False
        """After a `Drain`: the host wants nothing to be taken until it sends work."""
        self._verdicts = verdicts
        self._number = 0
        self._new: list[Offer] = []
        self._coming: list[Offer] = []
        """Offers that a report carried and that are not on the board yet."""
        self._offering_report = 0
        """The number of that report, see `lay_out`."""
        self._offers: dict[int, Bundle] = {}
        self.futile = 0
        """How many times on end everything that was offered had to be taken back."""
        self._gone: list[Name] = []
        self._took: list[Name] = []

    @classmethod
    def with_nobody(cls) -> WorkSharing:
        """Makes the sharing of a session that has no board, or is alone on it."""
        return cls(NoExchange(), 0, 0, verdicts=False)

    @property
    def alone(self) -> bool:
        """Whether there is nobody to share with."""
        return isinstance(self._exchange, NoExchange)

    @property
    def subtrees(self) -> int:
        """How many subtrees others may have, as far as this worker knows."""
        coming = sum(bundle.size for _, bundle in self._coming)
        return coming + sum(bundle.size for bundle in self._offers.values())

    @property
    def quiet(self) -> bool:
        """Whether all others of the machine wait as well, so that nobody can offer anything."""
        return self._exchange.quiet

    def look(self) -> None:
        """Finds out which offers are gone, for the next report."""
        if self._offers:
            for number, taker in self._exchange.taken():
                del self._offers[number]
                self._gone.append((number, taker))
                self.futile = 0

    def lacking(self, calm: bool) -> int:
        """How many offers to make now; none before the last ones are on the board."""
        # One report's offers at a time: what is on its way may be all that others want
        return 0 if self._coming else self._exchange.lacking(calm)

    def enter(self, bundles: list[Bundle]) -> list[Bundle]:
        """Takes what is to be offered with the next report; gives back what does not fit
        the board."""
        unoffered = []
        # What a report announced will need its slots on the board, though it is not there yet
        room = self._exchange.room - len(self._coming)
        for bundle in bundles:
            # What does not fit goes to the host instead, which moves it the long way
            if len(self._new) < room and self._exchange.fits(_encode(bundle)):
                self._number += 1
                self._new.append((self._number, bundle))
            else:
                unoffered.append(bundle)
        return unoffered

    def changes(self, report: int) -> ExchangeChanges:
        """What the report with this number, which is written now, says of the exchange."""
        changes = ExchangeChanges(tuple(self._new), tuple(self._gone), tuple(self._took))
        if self._new:
            self._coming, self._offering_report = self._new, report
            # Others need not ask the host: an offer is on its way, one round trip from here
            self._exchange.promise(True)
        self._new, self._gone, self._took = [], [], []
        return changes

    def lay_out(self, report: int) -> None:
        """The host has this `report` in its books: others may see what it offered."""
        if report != self._offering_report:
            return  # that was regained, and another report has offered something since
        coming, self._coming = self._coming, []
        for number, bundle in coming:
            self._offers[number] = bundle
            self._exchange.offer(number, _encode(bundle), bundle.weight)
        self._exchange.promise(False)

    def regain(self) -> list[Bundle]:
        """Takes back what nobody has taken."""
        # What no board has shown yet nobody can have taken
        regained, self._coming = self._coming, []
        if regained:
            self._exchange.promise(False)
        if self._offers:
            self.look()
            # The exchange says which offers were still there; of all others, `look` below learns
            # the taker
            regained += [(number, self._offers.pop(number)) for number in self._exchange.regain()]
            self.look()  # who was faster
        # The host has these in its books as offers: they are ours again
        self._gone += [(number, self._owner) for number, _ in regained]
        # Reset by `look` as soon as somebody has taken anything
        self.futile += bool(regained)
        return [bundle for _, bundle in regained]

    def take(self) -> list[Bundle]:
        """Takes what others offer; nothing while `resting`."""
        if self.resting:
            return []
        offers = self._exchange.take()
        self._took.extend((offer.owner, offer.number) for offer in offers)
        return [_decode(offer.blob) for offer in offers]

    def rest(self, resting: bool) -> None:
        """Says on the board whether this worker has nothing to do."""
        self._exchange.rest(resting)

    def improve(self, cost: float) -> None:
        """Tells others of the cost of a solution that the host knows of."""
        self._exchange.improve(cost)

    @property
    def best(self) -> float:
        """The lowest cost on the board."""
        return self._exchange.best

    def judged(self, digest: bytes, status: Status) -> None:
        if self._verdicts:
            self._exchange.judged(digest, status.value)

    def verdict(self, digest: bytes) -> Status | None:
        status = self._exchange.verdict(digest) if self._verdicts else ""
        return Status(status) if status else None

    def close(self) -> None:
        self._exchange.close()


def exchange_of(strategy: Strategy) -> str:
    """Reads which board a strategy names, once it has started; empty where it names none."""
    named = getattr(strategy, "exchange", None)
    if named is None:
        return ""
    if not isinstance(named, str):
        raise StrategyError(
            f"strategy {type(strategy).__qualname__} gives {named!r} for its exchange; name it as "
            "'module:Class'"
        )
    return named


def load_board(name: str) -> type[Board]:
    """Finds the class of a board by its name, `module:Class`."""
    module, _, qualname = name.partition(":")
    try:
        board: type[Board] = getattr(importlib.import_module(module), qualname)
    except Exception as error:
        raise StrategyError(f"the exchange {name!r} cannot be loaded: {error}") from error
    return board


def create_board(name: str, places: int) -> Board:
    """Makes a board, given by its name; raises `StrategyError` where that cannot be."""
    board = load_board(name)
    try:
        return board.create(places)
    except AiosearchError:
        raise
    except Exception as error:
        raise StrategyError(
            f"the exchange {name!r} cannot make a board of {places} places: "
            f"{type(error).__name__}: {error}"
        ) from error


class MachineBoards:
    """The boards of one machine: one for each session whose workers pass work on to each other.

    Each life of a worker has a place of its own, which another has once it is settled what
    became of its offers. A worker's `key` is any number that no other one of its session has.
    """

    def __init__(self, places: int) -> None:
        self._places = min(places, MOST_PLACES)
        self._boards: dict[int, Board] = {}
        self._seated: dict[int, dict[int, tuple[int, int]]] = {}
        """The place of each session and key on a board, and the owner who has it."""

    def open(self, session: int, exchange: str) -> None:
        """Makes a session's board; raises `StrategyError` where that cannot be."""
        self._boards[session] = create_board(exchange, self._places)
        self._seated[session] = {}

    def seat(self, begin: Begin, key: int) -> Begin:
        """Gives a worker its place in its `Begin`, where there is one and somebody to share
        with."""
        session = begin.session
        if begin.exchange and self._places > 1 and session not in self._boards:
            self.open(session, begin.exchange)
        seated = self._seated.get(session, {})
        occupied = {place for place, _ in seated.values()}
        place = next((place for place in range(self._places) if place not in occupied), None)
        if session not in self._boards or place is None:
            return msgspec.structs.replace(begin, exchange="", board="")
        seated[key] = (place, begin.owner)
        return msgspec.structs.replace(begin, board=self._boards[session].path, place=place)

    def revoke(self, session: int, key: int) -> Mapping[int, int] | None:
        """Takes a dead worker's offers back and says who has taken which; None as long as
        that cannot be said."""
        seat = self._seated.get(session, {}).get(key)
        if seat is None:
            return {}
        takers = self._boards[session].revoke(*seat)
        if takers is not None:
            self.leave(session, key)
        return takers

    def leave(self, session: int, key: int) -> None:
        """A worker needs its place no more; the board is closed with its last worker."""
        seated = self._seated.get(session, {})
        if seated.pop(key, None) is not None and not seated:
            del self._seated[session]
            self._boards.pop(session).close()

    def close(self) -> None:
        """Closes every board."""
        for board in self._boards.values():
            board.close()
        self._boards.clear()
        self._seated.clear()
