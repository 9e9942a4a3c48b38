"""Work sharing between workers of one machine: a session's offers, and boards that carry them.

The boards of one machine: one for each session whose workers pass work on to each other.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from ...checks.verdict import Status
from ...errors import AiosearchError, StrategyError
from ...strategies.contract import Strategy
from ...strategies.exchange import MOST_PLACES, Board, Exchange, Taken
from ..explore.bundles import Bundle
from ..wire.messages import Begin

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Bundle).decode

Offer = tuple[int, Bundle]
Name = tuple[int, int]
"""An offer's owner and number; or its number, and who has it."""


class NoExchange:
    """An exchange without others."""

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
        """How many nodes may be explored of what was taken, before the host grants some."""
        self.resting = False
        """The host wants nothing to be taken until it sends work."""
        self._verdicts = verdicts
        self._number = 0
        self._new: list[Offer] = []
        self._coming: list[Offer] = []
        """What a report has told the host of."""
        self._told = 0
        """Which one."""
        self._offers: dict[int, Bundle] = {}
        self.futile = 0
        """How many times on end everything that was offered had to be taken back."""
        self._gone: list[Name] = []
        self._took: list[Name] = []

    @classmethod
    def with_nobody(cls) -> WorkSharing:
        """Where there is no board, or nobody else at it."""
        return cls(NoExchange(), 0, 0, verdicts=False)

    @property
    def alone(self) -> bool:
        """Whether there is nobody to share with."""
        return isinstance(self._exchange, NoExchange)

    @property
    def subtrees(self) -> int:
        """How many subtrees others may have, as far as one knows."""
        coming = sum(bundle.size for _, bundle in self._coming)
        return coming + sum(bundle.size for bundle in self._offers.values())

    @property
    def quiet(self) -> bool:
        """Whether all others of the machine wait as well."""
        return self._exchange.quiet

    def look(self) -> None:
        """Finds out which offers are gone."""
        if self._offers:
            for number, taker in self._exchange.taken():
                del self._offers[number]
                self._gone.append((number, taker))
                self.futile = 0

    def lacking(self, calm: bool) -> int:
        """How many offers to make now."""
        return 0 if self._coming else self._exchange.lacking(calm)

    def enter(self, bundles: list[Bundle]) -> list[Bundle]:
        """Takes what is to be offered with the next report; gives back what does not fit."""
        others = []
        room = self._exchange.room - len(self._coming)
        for bundle in bundles:
            if len(self._new) < room and self._exchange.fits(_encode(bundle)):
                self._number += 1
                self._new.append((self._number, bundle))
            else:
                others.append(bundle)
        return others

    def told(self, report: int) -> dict[str, Any]:
        """What the report that is written now, of this number, says of all this."""
        said = {
            "offered": tuple(self._new),
            "gone": tuple(self._gone),
            "took": tuple(self._took),
        }
        if self._new:
            self._coming, self._told = self._new, report
            self._exchange.promise(True)
        self._new, self._gone, self._took = [], [], []
        return said

    def lay_out(self, report: int) -> None:
        """The host has this report in its books: others may see what it offered."""
        if report != self._told:
            return  # that was regained, and another report has offered something since
        coming, self._coming = self._coming, []
        for number, bundle in coming:
            self._offers[number] = bundle
            self._exchange.offer(number, _encode(bundle), bundle.weight)
        self._exchange.promise(False)

    def regain(self) -> list[Bundle]:
        """Takes back what nobody has taken."""
        regained, self._coming = self._coming, []
        if regained:
            self._exchange.promise(False)
        if self._offers:
            self.look()
            regained += [(number, self._offers.pop(number)) for number in self._exchange.regain()]
            self.look()  # who was faster
        self._gone += [(number, self._owner) for number, _ in regained]
        self.futile += bool(regained)
        return [bundle for _, bundle in regained]

    def take(self) -> list[Bundle]:
        """Takes what others offer."""
        if self.resting:
            return []
        taken = self._exchange.take()
        self._took.extend((one.owner, one.number) for one in taken)
        return [_decode(one.blob) for one in taken]

    def rest(self, resting: bool) -> None:
        """Says whether this worker has nothing to do."""
        self._exchange.rest(resting)

    def improve(self, cost: float) -> None:
        """Tells others of a solution that the host knows of."""
        self._exchange.improve(cost)

    @property
    def best(self) -> float:
        """The lowest cost that somebody told of."""
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
    """Finds the class of a board, `module:Class`."""
    module, _, qualname = name.partition(":")
    try:
        board: type[Board] = getattr(importlib.import_module(module), qualname)
    except Exception as error:
        raise StrategyError(f"the exchange {name!r} cannot be loaded: {error}") from error
    return board


def create_board(name: str, places: int) -> Board:
    """Makes a board, given by its name; raises StrategyError where that cannot be."""
    made = load_board(name)
    try:
        return made.create(places)
    except AiosearchError:
        raise
    except Exception as error:
        raise StrategyError(
            f"the exchange {name!r} cannot make a board of {places} places: "
            f"{type(error).__name__}: {error}"
        ) from error


pass


class MachineBoards:
    """Gives each life of a worker a place of its own, which another has when it is settled what
    became of its offers. A worker's key is any number that no other one of its session has.
    """

    def __init__(self, places: int) -> None:
        self._places = min(places, MOST_PLACES)
        self._boards: dict[int, Board] = {}
        self._seated: dict[int, dict[int, tuple[int, int]]] = {}
        """By session and key: the place, and who has it."""

    def open(self, session: int, exchange: str) -> None:
        """Makes a session's board; raises StrategyError where that cannot be."""
        self._boards[session] = create_board(exchange, self._places)
        self._seated[session] = {}

    def seat(self, begin: Begin, key: int) -> Begin:
        """Gives a worker its place, where there is one and somebody to share with."""
        session = begin.session
        if begin.exchange and self._places > 1 and session not in self._boards:
            self.open(session, begin.exchange)
        seated = self._seated.get(session, {})
        taken = {place for place, _ in seated.values()}
        place = next((place for place in range(self._places) if place not in taken), None)
        if session not in self._boards or place is None:
            return msgspec.structs.replace(begin, exchange="", board="")
        seated[key] = (place, begin.owner)
        return msgspec.structs.replace(begin, board=self._boards[session].path, place=place)

    def revoke(self, session: int, key: int) -> Mapping[int, int] | None:
        """Takes a dead worker's offers back and says who has taken which; None as long as that
        cannot be said."""
        seat = self._seated.get(session, {}).get(key)
        if seat is None:
            return {}
        takers = self._boards[session].revoke(*seat)
        if takers is not None:
            self.leave(session, key)
        return takers

    def leave(self, session: int, key: int) -> None:
        """A worker needs its place no more; the board goes with the last one."""
        seated = self._seated.get(session, {})
        if seated.pop(key, None) is not None and not seated:
            del self._seated[session]
            self._boards.pop(session).close()

    def close(self) -> None:
        """Gives everything back."""
        for board in self._boards.values():
            board.close()
        self._boards.clear()
        self._seated.clear()
