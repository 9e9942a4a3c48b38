"""The cheapest way through a program's pieces, with as few prices asked as can be."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence

from ..tensor import Program
from ..tensor.errors import TensorError
from .schedules import Schedules

_ROUNDING = 1e-9


class PartitionError(TensorError):
    """A program that no pieces with a price make up, or a piece that does not keep its word."""


class Prices:
    """What each piece costs, as far as anyone asked, and what it costs at least."""

    def __init__(
        self,
        programs: Sequence[Program],
        price: Callable[[Program], float | None],
        least: Callable[[Program], float],
    ) -> None:
        self._programs = programs
        self._price = price
        self._known = {program: least(program) for program in dict.fromkeys(programs)}
        self._asked: set[Program] = set()

    def costs(self) -> list[float]:
        """What each piece costs at least."""
        return [self._known[program] for program in self._programs]

    def ask(self, chosen: Sequence[int]) -> bool:
        """Asks for one price that is not known, if there is any: of what is most often chosen."""
        counts = Counter(self._programs[number] for number in chosen)
        for program, _ in counts.most_common():
            if program not in self._asked:
                self._ask(program)
                return True
        return False

    def _ask(self, program: Program) -> None:
        found = self._price(program)
        cost = math.inf if found is None else found
        bound = self._known[program]
        if cost < bound * (1 - _ROUNDING):
            raise PartitionError(
                f"a piece costs {cost}, and was to cost {bound} at least: {program}"
            )
        self._known[program] = cost
        self._asked.add(program)


def cheapest(ways: Schedules, prices: Prices) -> tuple[float, list[int]]:
    """The cheapest way through, as parts in order, and its price; raises PartitionError.

    Only what lies on a way that may be the cheapest is priced, one piece at a time.
    """
    while True:
        total, chosen = _shortest(ways, prices.costs())
        if total == math.inf:
            raise PartitionError("no pieces with a price make up the program")
        if not prices.ask(chosen):
            return total, chosen


def _shortest(ways: Schedules, costs: Sequence[float]) -> tuple[float, list[int]]:
    totals = [0.0]
    for steps in ways.steps[1:]:
        totals.append(min([totals[start] + costs[number] for start, number in steps]))
    chosen = []
    stage = len(totals) - 1
    while stage:
        total = totals[stage]
        stage, number = next(
            step for step in ways.steps[stage] if totals[step.start] + costs[step.part] == total
        )
        chosen.append(number)
    return totals[-1], chosen[::-1]
