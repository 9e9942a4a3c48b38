"""Boards with one thing wrong each, and a strategy to name one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import ClassVar

from aiosearch_stealing.board import SharedBoard
from aiosearch_stealing.layout import TAKER
from aiosearch_stealing.place import BoardPlace

from aiosearch.strategies import Command, Plan, Taken
from aiosearch.strategies.queue import Queue


class Names(Queue):
    """Deals the root out, and leaves the rest to the board."""

    def __init__(self, exchange: object) -> None:
        self._named = exchange

    def start(self, plan: Plan) -> None:
        super().start(plan)
        self.exchange = self._named

    def _lacking(self, ready: int) -> int:
        return 0

    def _ask_at_need(self, worker: int) -> Iterator[Command]:
        return iter(())


class Odd(SharedBoard):
    """A board whose lives are of its own kind."""

    Life: ClassVar[type[BoardPlace]] = BoardPlace

    def exchange(
        self,
        place: int,
        owner: int,
        ring: Callable[[], None],
        on_close: Callable[[], None] = lambda: None,
    ) -> BoardPlace:
        return self.Life(self, place, owner, ring, on_close)


class Wakes(Odd):
    """Takes everybody for busy who has just come."""

    class Life(BoardPlace):
        @property
        def quiet(self) -> bool:
            return False


class Stingy(Odd):
    """Never wants an offer."""

    class Life(BoardPlace):
        def lacking(self, calm: bool) -> int:
            return 0


class Deaf(Odd):
    """Does not tell a giver what is gone."""

    class Life(BoardPlace):
        def taken(self) -> list[tuple[int, int]]:
            super().taken()
            return []


class NamesPlaces(Odd):
    """Takes a place for the number of a life."""

    class Life(BoardPlace):
        def take(self) -> list[Taken]:
            return [Taken(0, one.number, one.blob) for one in super().take()]


class Grasps(Odd):
    """Regains what others have taken as well."""

    class Life(BoardPlace):
        def regain(self) -> list[int]:
            offered = list(self._slots)
            super().regain()
            return offered


class Cuts(Odd):
    """Passes only the beginning of a large offer on."""

    class Life(BoardPlace):
        def offer(self, number: int, blob: bytes, weight: float) -> None:
            super().offer(number, blob[:50], weight)


class Boasts(Odd):
    """Tells of costs that are lower than they are."""

    class Life(BoardPlace):
        def improve(self, cost: float) -> None:
            super().improve(cost - 1.0)


class Forgets(SharedBoard):
    """Does not say who has what of the dead."""

    def revoke(self, place: int, owner: int) -> dict[int, int] | None:
        super().revoke(place, owner)
        return {}


class Haunted(SharedBoard):
    """Leaves what the dead had offered."""

    def revoke(self, place: int, owner: int) -> dict[int, int] | None:
        words = self.layout.words(place)
        return {word >> 24: word & TAKER for word in words if word & TAKER}


class CannotBeMade(SharedBoard):
    """Finds no room."""

    @classmethod
    def create(cls, places: int) -> SharedBoard:
        raise OSError("no room")


class CannotBeJoined(SharedBoard):
    """Cannot be opened by others."""

    @classmethod
    def join(cls, path: str, place: int, owner: int, ring: Callable[[], None]) -> BoardPlace:
        raise PermissionError("not for you")
