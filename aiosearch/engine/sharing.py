"""A session's part in an exchange: what it offers, took and knows from other workers."""

from __future__ import annotations

import importlib
from typing import Any

import msgspec

from ..checks.verdict import Status
from ..errors import StrategyError
from ..strategies.exchange import Board, Exchange
from .bundles import Bundle

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Bundle).decode

Offer = tuple[int, Bundle]
Name = tuple[int, int]
"""An offer's owner and number; or an owner and one of its reports."""


class Sharing:
    """Keeps what the next report has to say of the exchange.

    Everything that is offered goes into a report first, and is laid out after it is sent; what is
    taken from others is theirs in the host's books until a report names it.
    """

    def __init__(self, exchange: Exchange, owner: int, free_nodes: int, verdicts: bool) -> None:
        self._exchange = exchange
        self._owner = owner
        self.free_nodes = free_nodes
        """How many nodes may be explored of what was taken, before the host grants some."""
        self.resting = False
        """The host wants nothing to be taken until it sends work."""
        self._verdicts = verdicts
        self._offers: dict[int, Bundle] = {}
        self._number = 0
        self._new: list[Offer] = []
        self._gone: list[Name] = []
        self._took: list[Name] = []
        self._leans: dict[int, int] = {}

    @property
    def subtrees(self) -> int:
        """How many subtrees lie there for others, as far as one knows."""
        return sum(bundle.size for bundle in self._offers.values())

    def look(self) -> None:
        """Finds out which offers are gone."""
        if self._offers:
            for number, thief in self._exchange.taken():
                del self._offers[number]
                self._gone.append((number, thief))

    @property
    def quiet(self) -> bool:
        """Whether all others of the machine wait as well."""
        return self._exchange.quiet

    def lacking(self, calm: bool) -> int:
        return self._exchange.lacking(calm)

    def enter(self, bundles: list[Bundle]) -> list[Bundle]:
        """Takes what is to be offered with the next report; gives back what does not fit."""
        others = []
        room = self._exchange.room
        for bundle in bundles:
            if len(self._new) < room and self._exchange.fits(_encode(bundle)):
                self._number += 1
                self._new.append((self._number, bundle))
            else:
                others.append(bundle)
        return others

    def regain(self) -> list[Bundle]:
        """Takes back what nobody has taken."""
        if not self._offers:
            return []
        self.look()
        regained = []
        for number in self._exchange.regain():
            regained.append(self._offers.pop(number))
            self._gone.append((number, self._owner))
        self.look()  # who was faster
        return regained

    def take(self) -> list[Bundle]:
        """Takes what others offer."""
        if self.resting:
            return []
        taken = self._exchange.take()
        self._took.extend((one.owner, one.number) for one in taken)
        return [_decode(one.blob) for one in taken]

    def rest(self, resting: bool) -> None:
        self._exchange.rest(resting)

    def told(self) -> dict[str, Any]:
        """What the report that is written now says of all this."""
        said = {
            "offered": tuple(self._new),
            "gone": tuple(self._gone),
            "took": tuple(self._took),
            "leans": tuple(self._leans.items()),
        }
        self._gone, self._took = [], []
        return said

    def lay_out(self) -> None:
        """The report is on its way: now the offers may be seen."""
        for number, bundle in self._new:
            self._offers[number] = bundle
            self._exchange.offer(number, _encode(bundle), bundle.weight)
        self._new = []

    def improve(self, cost: float, sequence: int) -> None:
        self._exchange.improve(cost, sequence)

    def better(self, incumbent: float) -> float:
        """Gives the lowest cost known here; what is left out for its sake rests on its report."""
        cost, owner, sequence = self._exchange.best()
        if cost < incumbent and owner != self._owner:
            self._leans[owner] = max(sequence, self._leans.get(owner, 0))
        return cost

    def confirm(self) -> None:
        """The host knows of a solution as good as the best known here."""
        self._leans.clear()

    def judged(self, digest: bytes, status: Status) -> None:
        if self._verdicts:
            self._exchange.judged(digest, status.value)

    def verdict(self, digest: bytes) -> Status | None:
        status = self._exchange.verdict(digest) if self._verdicts else ""
        return Status(status) if status else None

    def close(self) -> None:
        self._exchange.close()


def load_board(name: str) -> type[Board]:
    """Finds the class of a board, `module:Class`."""
    module, _, qualname = name.partition(":")
    try:
        board: type[Board] = getattr(importlib.import_module(module), qualname)
    except (ImportError, AttributeError, ValueError) as error:
        raise StrategyError(f"the exchange {name!r} cannot be loaded: {error}") from error
    return board
