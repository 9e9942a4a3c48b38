"""The contract of a strategy: events in, commands out, no input or output of its own.

A strategy decides which worker explores which subtrees. It knows workers by number, from 0; the
process behind a number may die and be replaced, the number stays. The engine owns the subtrees: it
hands a strategy `Task` handles, carries its commands out, and tells it what happened. Because a
strategy does nothing else, the same code runs over processes and on a virtual clock.

The rules:

- Every task that was `Opened` must be assigned at some time; the engine fails a search whose
  workers are all idle while tasks lie unassigned and no command comes.
- A task may be assigned once. What its worker does not finish comes back as new tasks.
- Events are handled one at a time, and the commands are carried out in the order given.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import Protocol, TypeAlias

from msgspec import Struct, StructMeta

API = 1
"""The version of this contract. A strategy that carries another number is refused by name."""


def _warn(old: str, new: str) -> None:
    message = f"`{old}` of a strategy's contract is called `{new}` now"
    warnings.warn(message, DeprecationWarning, stacklevel=3)


class _Renamed(StructMeta):
    """Takes `seat` for `worker` and `seats` for `workers`, as they were called, with a warning."""

    def __call__(self, *values: object, **named: object) -> object:
        for old, new in (("seat", "worker"), ("seats", "workers")):
            if old in named:
                _warn(old, new)
                named[new] = named.pop(old)
        return super().__call__(*values, **named)


class _OfWorker(Struct, frozen=True, metaclass=_Renamed):
    """What is said of a worker, or to it."""

    @property
    def seat(self) -> int | None:
        """The former name of `worker`."""
        _warn("seat", "worker")
        number: int | None = getattr(self, "worker")  # noqa: B009  # each kind declares it
        return number


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


class Plan(Struct, frozen=True, metaclass=_Renamed):
    """What a strategy knows of a search before it starts."""

    workers: int
    """How many there are on this machine. Others may join, and leave, at any time."""
    ordered: bool
    """Whether the order compares all open subtrees (best-first, breadth-first): then work has to
    come back now and then, to be compared. Depth-first work can stay where it is."""
    seed: int = 0

    @property
    def seats(self) -> int:
        """The former name of `workers`."""
        _warn("seats", "workers")
        return self.workers


class Opened(_OfWorker, frozen=True):
    """These `tasks` are free: the root, or what a worker published, gave back or left at its
    death."""

    tasks: tuple[Task, ...]
    worker: int | None = None
    """The worker they come from; None for the root and for what a journal held."""


class Joined(_OfWorker, frozen=True):
    """A worker is there, which may be one that the `Plan` did not count; `Idle` follows."""

    worker: int
    host: str = ""
    """Which machine it is on; empty for the host's own. Workers of one machine talk for less."""


class Idle(_OfWorker, frozen=True):
    """A worker holds nothing: it has just come, or has finished all it had. It waits for an
    `Assign`."""

    worker: int


class Reported(_OfWorker, frozen=True):
    """A worker tells how it is getting on; comes now and then, and after each `Ask`."""

    worker: int
    surplus: int
    """How many subtrees it could give away when it is asked."""
    weight: float = 0.0
    """The share of the tree that it holds, as `Task.weight` has it."""


class Lost(_OfWorker, frozen=True):
    """A worker died, or is leaving. What it held comes back as `Opened`; a new one may be `Joined`
    under its number."""

    worker: int


class Assign(_OfWorker, frozen=True):
    """Gives a worker tasks on top of what it has. They have to be free, and the worker there."""

    worker: int
    tasks: tuple[int, ...]
    seconds: float = 0.0
    """Seconds to explore before what is left comes back as `Opened`; 0 for as long as it takes."""
    depth: int = 0
    """Not zero: the worker explores down to this depth only, and gives each subtree there back
    by itself."""


class Ask(_OfWorker, frozen=True):
    """Asks a worker for about half of its subtrees; it answers as soon as it has two."""

    worker: int


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
