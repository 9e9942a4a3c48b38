"""The contract of a strategy: events in, commands out, no input or output of its own.

A strategy decides which seat explores which subtrees. A seat is a place for one worker; workers
may die and be replaced, seats stay. The engine owns the subtrees: it hands a strategy `Task`
handles, carries its commands out, and tells it what happened. Because a strategy does nothing
else, the same code runs over processes and on a virtual clock.

The rules:

- Every task that was `Opened` must be assigned at some time; the engine fails a search whose
  seats are all idle while tasks lie unassigned and no command comes.
- A task may be assigned once. What its seat does not finish comes back as new tasks.
- Events are handled one at a time, and the commands are carried out in the order given.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, TypeAlias

from msgspec import Struct

API = 1
"""The version of this contract. A strategy that carries another number is refused by name."""


class Task(Struct, frozen=True):
    """One or more open subtrees that travel together, as a strategy sees a bundle."""

    id: int
    size: int
    """How many subtrees."""
    depth: int
    """The depth of the shallowest of its subtrees."""
    priority: float
    """Lower is more promising; it follows from the search's `Order`."""
    rank: int
    """Lower ranks come first: what waits for better knowledge has rank 1."""
    weight: float = 0.0
    """The share of the tree in it, if every node's children shared its own alike."""


class Plan(Struct, frozen=True):
    """What a strategy knows of a search before it starts."""

    seats: int
    """Workers of this machine. Others may join, and leave, at any time."""
    ordered: bool
    """Whether the order compares all open subtrees (best-first, breadth-first): then work has to
    come back now and then, to be compared. Depth-first work can stay where it is."""
    seed: int = 0


class Opened(Struct, frozen=True):
    """These `tasks` are free: the root, or what a seat published, gave back or left at its
    death."""

    tasks: tuple[Task, ...]
    seat: int | None = None
    """The seat they come from; None for the root and for what a journal held."""


class Joined(Struct, frozen=True):
    """A worker has taken a seat, which may be one that the `Plan` did not count; `Idle` follows."""

    seat: int
    host: str = ""
    """Which machine it is on; empty for the host's own. Seats of one machine talk for less."""


class Idle(Struct, frozen=True):
    """A seat holds nothing: its worker has just come, or has finished all it had. It waits for
    an `Assign`."""

    seat: int


class Reported(Struct, frozen=True):
    """A seat tells how it is getting on; comes now and then, and after each `Ask`."""

    seat: int
    surplus: int
    """How many subtrees the seat could give away when it is asked."""
    weight: float = 0.0
    """The share of the tree that it holds, as `Task.weight` has it."""


class Lost(Struct, frozen=True):
    """A seat's worker died, or is leaving. What it held comes back as `Opened`; a new one may be
    `Joined`."""

    seat: int


class Assign(Struct, frozen=True):
    """Gives tasks to a seat, on top of what it has. They have to be free, and the seat alive."""

    seat: int
    tasks: tuple[int, ...]
    seconds: float = 0.0
    """Seconds to explore before what is left comes back as `Opened`; 0 for as long as it takes."""
    depth: int = 0
    """Not zero: the worker explores down to this depth only, and gives each subtree there back
    by itself."""


class Ask(Struct, frozen=True):
    """Asks a seat for about half of its subtrees; it answers as soon as it has two."""

    seat: int


Event: TypeAlias = Opened | Joined | Idle | Reported | Lost
Command: TypeAlias = Assign | Ask


class Strategy(Protocol):
    """What a plugin writes: a class that takes its options as keyword arguments, all optional,
    with `api = API`."""

    api: int

    def start(self, plan: Plan) -> None:
        """Called once, before any event, with what is known of the search."""
        ...

    def handle(self, event: Event) -> Iterable[Command]:
        """Takes one `Event` and gives the commands that follow from it."""
        ...
