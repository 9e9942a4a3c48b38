"""The boards of one machine: one for each session whose workers pass work on to each other."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from ..strategies.exchange import MOST_PLACES, Board
from .sharing import create_board
from .wire import Begin


class Boards:
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
