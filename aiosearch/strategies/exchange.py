"""The contract of an exchange: how the workers of one machine pass work on without the host.

A strategy that has one names it in an attribute `exchange`, as `"module:Class"` of its board; the
engine reads it after `start`, so a strategy can do without for some searches: then it is empty, or
None. Workers of other machines load it where it is the value of an entry point in the group
`aiosearch.exchanges`; the name of that entry point is not used. With an attribute
`breath`, workers keep to themselves for at least so many seconds what they may settle among
themselves, where messages are dear.

There is one board a search and machine. The engine makes it, gives each worker its `Exchange` on
it, and keeps the books right: an offer is in the host's books before others can see it, and who
takes it says so with its next report. So a board has to promise one thing only, also where workers
are killed at any instruction: an offer is taken by one worker, or regained by the one that made it,
or revoked.

Whoever raises out of a method here ends the worker or the search: a board that finds nothing, or
does not get a lock, gives what is empty.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from msgspec import Struct

MOST_PLACES = 4096
"""Places that a `Board` has to have at most, one for each worker of its machine."""


class Taken(Struct, frozen=True):
    """Some subtrees that another worker had offered."""

    owner: int
    """The owner's number of the life that offered it, which is not its place."""
    number: int
    blob: bytes


class Exchange(Protocol):
    """One life of one worker, at its place on the board.

    It begins at rest, with no work: `rest(False)` is the first that is heard of it. Everybody is
    named by an owner's number, which is never 0 and never used again; a place is used again.
    """

    @property
    def quiet(self) -> bool:
        """Whether nothing can come from others, because all of them rest or nobody is there.

        Then a worker that has run dry says so at once, and does not wait for offers first.
        """
        ...

    def lacking(self, calm: bool) -> int:
        """How many offers to make now, 0 or a power of two: what is open is halved so
        often.

        `calm` says that making them would cost next to nothing.
        """
        ...

    @property
    def room(self) -> int:
        """How many more offers `offer` would take now."""
        ...

    def fits(self, blob: bytes) -> bool:
        """Whether `blob` is small enough for an offer."""
        ...

    def promise(self, promised: bool) -> None:
        """Says whether offers are on their way, which the host has to enter first.

        Whoever counts who offers may count them, so that not too many do.
        """
        ...

    def offer(self, number: int, blob: bytes, weight: float) -> None:
        """Lays subtrees out for whoever comes first, and rings for one who waits.

        Numbers go up, and none is used again in this life.
        """
        ...

    def taken(self) -> Sequence[tuple[int, int]]:
        """Which own offers were taken since the last call: numbers, and the owner's number
        of who has each."""
        ...

    def regain(self) -> Sequence[int]:
        """Takes all own offers back that nobody has taken; gives their numbers."""
        ...

    def take(self) -> Sequence[Taken]:
        """Takes what another worker has offered, if there is something."""
        ...

    def rest(self, resting: bool) -> None:
        """Says whether this worker has nothing to do, and waits for offers."""
        ...

    def improve(self, cost: float) -> None:
        """Tells the others the `cost` of a solution that the host knows of."""
        ...

    @property
    def best(self) -> float:
        """The lowest `cost` that somebody told of; infinite where nobody did."""
        ...

    def judged(self, digest: bytes, status: str) -> None:
        """Tells the others what z3 said to the question of this `digest`."""
        ...

    def verdict(self, digest: bytes) -> str:
        """What z3 said to it, as far as somebody here was told; empty where nobody was."""
        ...

    def close(self) -> None:
        """Gives memory and files back. Safe to call twice."""
        ...


class Board(Protocol):
    """What the workers of one machine share in one search."""

    path: str
    """Where `join` opens it in other processes of this user and machine, while it is open here."""

    @classmethod
    def create(cls, places: int) -> Board:
        """Makes an empty board for so many `places`."""
        ...

    @classmethod
    def join(cls, path: str, place: int, owner: int, ring: Callable[[], None]) -> Exchange:
        """Opens another process's board for one life of one worker; `place` is below `places`.

        `ring` wakes one worker of the machine that waits, or the next one to wait. Any thread may
        call it, and more often than needed. Who waits looks again every 50 ms in any case. What
        this raises ends the search, unless that is over: its board may be closed meanwhile.
        """
        ...

    def exchange(self, place: int, owner: int, ring: Callable[[], None]) -> Exchange:
        """Opens a place for a worker of this very process, such as a simulated one."""
        ...

    def revoke(self, place: int, owner: int) -> dict[int, int] | None:
        """Takes a dead worker's offers back; says who has taken those that are not there any more.

        Gives each taker's number, by the number of the offer, for all offers of that owner that the
        board still knows of, those included that `taken` told of: the worker may have died before
        it passed that on. Nothing of the owner's can be taken from then on. An owner that never
        sat down had nothing. None where this cannot be said yet: it is asked again.
        """
        ...

    def close(self) -> None:
        """Gives memory and files back. Safe to call twice."""
        ...
