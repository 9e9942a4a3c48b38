"""The boards of one machine: one for each session whose workers pass work on to each other."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from ..engine.sharing import load_board
from ..engine.wire import Begin
from ..strategies.exchange import Board


class Boards:
    """Boards live from the first worker that opens a session until the last one ends it."""

    def __init__(self, places: int) -> None:
        self._places = places
        self._boards: dict[int, Board] = {}
        self._seated: dict[int, dict[int, tuple[int, int]]] = {}
        """By session and channel: the place on the board, and who has it."""

    def seat(self, begin: Begin, channel: int) -> Begin:
        """Gives a worker its place; without one where nobody is there to share with."""
        if not begin.exchange or self._places < 2:
            return msgspec.structs.replace(begin, exchange="", board="")
        session = begin.session
        if session not in self._boards:
            self._boards[session] = load_board(begin.exchange).create(self._places)
            self._seated[session] = {}
        seated = self._seated[session]
        taken = {place for place, _ in seated.values()}
        place = next(place for place in range(self._places) if place not in taken)
        seated[channel] = (place, begin.owner)
        return msgspec.structs.replace(begin, board=self._boards[session].path, place=place)

    def leave(self, session: int, channel: int) -> Mapping[int, int] | None:
        """A worker is gone; says who has taken what it had offered, as far as that is known."""
        seated = self._seated.get(session, {})
        if channel not in seated:
            return None
        place, owner = seated.pop(channel)
        takers = self._boards[session].revoke(place, owner)
        if not seated:
            del self._seated[session]
            self._boards.pop(session).close()
        return takers

    def close(self) -> None:
        for board in self._boards.values():
            board.close()
        self._boards.clear()
        self._seated.clear()
