"""The host's books on what workers pass on to each other without it.

A worker reports an offer before others can see it, and who takes one says so with its next report;
either may be late, or dead, and the reports of two workers come in any order. A report that builds
on one which has not come yet waits for it, and one that builds on what never came is void.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import TypeAlias

from msgspec import Struct

from .wire import Report

Name: TypeAlias = tuple[int, int]
"""An owner and the number of its offer."""


class Standing(enum.Enum):
    """What a report builds on."""

    GOOD = enum.auto()
    EARLY = enum.auto()
    """On a report that is still on its way."""
    VOID = enum.auto()
    """On what a worker did that died before it could report it."""


class Settled(Struct, frozen=True):
    """What a report changes."""

    closed: tuple[int, ...]
    """Offers that the report's own bundles stand for now."""
    orphans: tuple[int, ...]
    """Offers whose takers died."""


class Offers:
    """Every offer is in the hands of the one who made it, or of the one who took it."""

    def __init__(self) -> None:
        self._lying: dict[int, dict[int, int]] = {}
        """By living owner: its offers, and the tasks in the ledger that they are."""
        self._taken: dict[Name, tuple[int, int]] = {}
        """Offers whose takers have not said so yet: the task and the taker."""
        self._newest: dict[int, int] = {}
        self._reports: dict[int, int] = {}

    def join(self, owner: int) -> None:
        """A worker begins."""
        self._lying[owner] = {}
        self._newest[owner] = self._reports[owner] = 0

    def standing(self, owner: int, report: Report) -> Standing:
        """Says whether a report can be taken now."""
        early = False
        for name in report.took:
            if name[1] not in self._lying.get(name[0], ()) and not self._has(name, owner):
                if not self._may_come(name[0], name[1], self._newest):
                    return Standing.VOID
                early = True
        for other, number in report.leans:
            if self._reports.get(other, 0) < number:
                if not self._may_come(other, number, self._reports):
                    return Standing.VOID
                early = True
        return Standing.EARLY if early else Standing.GOOD

    def _has(self, name: Name, taker: int) -> bool:
        return name in self._taken and self._taken[name][1] == taker

    def _may_come(self, owner: int, number: int, known: Mapping[int, int]) -> bool:
        return owner in self._lying and number > known[owner]

    def settle(self, owner: int, report: Report, offered: Mapping[int, int]) -> Settled:
        """Takes a report whose standing is good; `offered` gives the tasks of its new offers."""
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
            elif taker in self._lying:
                self._taken[owner, number] = (task, taker)
            else:
                orphans.append(task)
        if offered:
            lying.update(offered)
            self._newest[owner] = max(offered)
        self._reports[owner] = report.sequence
        return Settled(tuple(closed), tuple(orphans))

    def bury(self, owner: int, takers: Mapping[int, int] | None) -> list[int]:
        """A worker has died; gives the tasks of its offers that nobody has, and of what it took.

        `takers` has what the board knew of the offers that were taken.
        """
        opened = [task for task, taker in self._taken.values() if taker == owner]
        self._taken = {name: one for name, one in self._taken.items() if one[1] != owner}
        for number, task in self._lying.pop(owner, {}).items():
            taker = (takers or {}).get(number)
            if taker in self._lying:
                self._taken[owner, number] = (task, taker)
            else:
                opened.append(task)
        return opened

    def tasks(self, owner: int) -> list[int]:
        """What a worker offers, as far as the host knows."""
        return list(self._lying.get(owner, {}).values())
