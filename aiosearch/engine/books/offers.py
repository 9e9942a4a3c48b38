"""The host's record of subtrees that workers of one machine pass to each other without it.

An offer is in the books before other workers can see it. Who takes one says so with its next
report, and its giver does; either may be late, or dead before it could, and the reports of two
workers come in any order.
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
    """What a report changes."""

    closed: tuple[int, ...]
    """Offers that the report's own bundles stand for now."""
    orphans: tuple[int, ...]
    """Offers whose takers died."""


class Offers:
    """Every offer is in the hands of the one who made it, or of the one who took it."""

    def __init__(self) -> None:
        self._living: dict[int, str] = {}
        """Owners, and the machines that they are on: work is passed on inside of one."""
        self._machines: dict[int, str] = {}
        """The same, of the dead as well that are not buried yet."""
        self._lying: dict[int, dict[int, int]] = {}
        """By owner: its offers, and the tasks in the ledger that they are."""
        self._newest: dict[int, int] = {}
        """By owner: the number of its last offer."""
        self._taken: dict[Name, tuple[int, int]] = {}
        """Offers whose takers have not said so yet: the task and the taker."""

    def join(self, owner: int, machine: str = "") -> None:
        """A worker begins."""
        self._living[owner] = self._machines[owner] = machine
        self._lying[owner] = {}
        self._newest[owner] = 0

    def check(self, owner: int, report: WorkerReport, offered: Sequence[int]) -> None:
        """Raises ValueError where a worker says that it took what it cannot have taken, or offers
        something under a number that it has used."""
        for before, number in pairwise((self._newest[owner], *offered)):
            if number <= before:
                raise ValueError(f"owner {owner} offers {number} after {before}")
        machine = self._living[owner]
        for name in report.took:
            other, number = name
            taken = self._taken.get(name)
            free = number in self._lying.get(other, ()) and self._machines[other] == machine
            if not free and (taken is None or taken[1] != owner):
                raise ValueError(
                    f"owner {owner} took offer {number} of {other}, which is not there"
                )
        if len(set(report.took)) < len(report.took):
            raise ValueError(f"owner {owner} took something twice")

    def _is_near(self, owner: int, taker: int) -> bool:
        return taker in self._living and self._living[taker] == self._machines[owner]

    def settle(self, owner: int, report: WorkerReport, offered: Mapping[int, int]) -> OfferChanges:
        """Takes a report to heart; `offered` gives the tasks of its new offers."""
        closed = []
        orphans = []
        for name in report.took:
            moved = self._taken.pop(name, None)
            closed.append(moved[0] if moved else self._lying[name[0]].pop(name[1]))
        lying = self._lying[owner]
        for number, taker in report.gone:
            task = lying.pop(number, None)
            if task is None:
                continue  # its taker was faster
            if taker == owner:
                closed.append(task)
            elif self._is_near(owner, taker):
                self._taken[owner, number] = (task, taker)
            else:
                orphans.append(task)
        lying.update(offered)
        self._newest[owner] = max(offered, default=self._newest[owner])
        return OfferChanges(tuple(closed), tuple(orphans))

    def leave(self, owner: int) -> list[int]:
        """A worker has died; gives the tasks of what it took, as far as others have said so."""
        self._living.pop(owner, None)
        opened = [task for task, taker in self._taken.values() if taker == owner]
        self._taken = {name: one for name, one in self._taken.items() if one[1] != owner}
        return opened

    def bury(self, owner: int, takers: Mapping[int, int]) -> list[int]:
        """Nobody can take what a dead worker offered any more; gives the tasks that nobody has.

        `takers` has what the board knows of the offers that were taken.
        """
        opened = []
        for number, task in self._lying.pop(owner, {}).items():
            taker = takers.get(number)
            if taker is not None and self._is_near(owner, taker):
                self._taken[owner, number] = (task, taker)
            else:
                opened.append(task)
        self._machines.pop(owner, None)
        self._newest.pop(owner, None)
        return opened

    def tasks(self, owner: int) -> list[int]:
        """What a worker offers, as far as the host knows."""
        return list(self._lying.get(owner, {}).values())
