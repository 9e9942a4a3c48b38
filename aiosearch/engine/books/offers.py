"""The host's record of subtrees that workers of one machine pass to each other without it.

The problem: an offer changes hands on a board in shared memory, and the host hears of it twice,
from who took it (`WorkerReport.took`) and from who gave it (`WorkerReport.gone`). Either may be
late, or dead before it could say so, and the reports of two workers come in any order. Still each
offer has to be one task of one worker at any time.

An offer is in the books before other workers can see it. Offer 1 of the owner 7 is task 20; the
owner 9 takes it:

    settle(7, report, {1: 20})              outstanding: 7 -> {1: 20}
    settle(9, took=((7, 1),))               9 was faster: closed=(20,), and 9's bundles stand for it
    settle(7, gone=((1, 9),))               nothing is left to do

and in the other order:

    settle(7, gone=((1, 9),))               taken: (7, 1) -> (20, 9)
    settle(9, took=((7, 1),))               closed=(20,)
    leave(9), if 9 died before               opened: 20, and the search goes on without it

Invariant: a task is under exactly one key of `_outstanding` or `_taken`. Cost: constant per offer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TypeAlias

from msgspec import Struct

from ..wire.messages import WorkerReport

Name: TypeAlias = tuple[int, int]
"""An owner and the number of its offer."""


class OfferChanges(Struct, frozen=True):
    """What a report changes in the ledger."""

    closed: tuple[int, ...]
    """Tasks that the report's own bundles stand for now."""
    orphans: tuple[int, ...]
    """Tasks whose takers died before they could report them."""


class Offers:
    """Every offer is in the hands of the worker that made it, or of the one that took it."""

    def __init__(self) -> None:
        self._living: dict[int, str] = {}
        """Living owners, and the machine of each: work is passed on inside one machine."""
        self._machines: dict[int, str] = {}
        """The owners in `_living`, and dead ones until `bury` has settled their offers."""
        self._outstanding: dict[int, dict[int, int]] = {}
        """The offers of each owner, and the task in the ledger of each offer."""
        self._newest: dict[int, int] = {}
        """The number of the last offer of each owner; numbers rise, so an old report cannot name a
        new offer."""
        self._taken: dict[Name, tuple[int, int]] = {}
        """Offers that their makers reported gone and their takers have not reported yet:
        the task and the taker."""

    def join(self, owner: int, machine: str = "") -> None:
        """A worker begins, under a number that no other ever had."""
        self._living[owner] = self._machines[owner] = machine
        self._outstanding[owner] = {}
        self._newest[owner] = 0

    def check(self, owner: int, report: WorkerReport, offered: Sequence[int]) -> None:
        """Raises `ValueError` where a worker says that it took what it cannot have taken,
        or offers something under a number that it has used."""
        for before, number in pairwise((self._newest[owner], *offered)):
            if number <= before:
                raise ValueError(f"owner {owner} offers {number} after {before}")
        machine = self._living[owner]
        for name in report.took:
            giver, number = name
            transfer = self._taken.get(name)
            # Not taken as far as we know, and within reach: on the taker's own machine
            free = number in self._outstanding.get(giver, ()) and self._machines[giver] == machine
            if not free and (transfer is None or transfer[1] != owner):
                raise ValueError(
                    f"owner {owner} took offer {number} of {giver}, which is not there"
                )
        if len(set(report.took)) < len(report.took):
            raise ValueError(f"owner {owner} took something twice")

    def _is_near(self, owner: int, taker: int) -> bool:
        return taker in self._living and self._living[taker] == self._machines[owner]

    def settle(self, owner: int, report: WorkerReport, offered: Mapping[int, int]) -> OfferChanges:
        """Enters a report that `check` let pass; `offered` gives the tasks of its new offers."""
        closed = []
        orphans = []
        for name in report.took:
            # Popped from either book: whoever reports first decides which
            moved = self._taken.pop(name, None)
            closed.append(moved[0] if moved else self._outstanding[name[0]].pop(name[1]))
        outstanding = self._outstanding[owner]
        for number, taker in report.gone:
            task = outstanding.pop(number, None)
            if task is None:
                continue  # its taker was faster
            if taker == owner:
                closed.append(task)
            # The taker lives: its own report will close the task
            elif self._is_near(owner, taker):
                self._taken[owner, number] = (task, taker)
            else:
                orphans.append(task)
        outstanding.update(offered)
        self._newest[owner] = max(offered, default=self._newest[owner])
        return OfferChanges(tuple(closed), tuple(orphans))

    def leave(self, owner: int) -> list[int]:
        """A worker has died; gives the tasks of what it took, as far as their makers have
        said so."""
        self._living.pop(owner, None)
        opened = [task for task, taker in self._taken.values() if taker == owner]
        self._taken = {
            name: transfer for name, transfer in self._taken.items() if transfer[1] != owner
        }
        return opened

    def bury(self, owner: int, takers: Mapping[int, int]) -> list[int]:
        """Settles what a dead worker offered, once nobody can take it any more; gives the
        tasks that nobody has.

        `takers` has what the board knows of the offers that were taken.
        """
        opened = []
        for number, task in self._outstanding.pop(owner, {}).items():
            taker = takers.get(number)
            if taker is not None and self._is_near(owner, taker):
                self._taken[owner, number] = (task, taker)
            else:
                opened.append(task)
        self._machines.pop(owner, None)
        self._newest.pop(owner, None)
        return opened

    def tasks(self, owner: int) -> list[int]:
        """The tasks that a worker offers, as far as the host knows."""
        return list(self._outstanding.get(owner, {}).values())
