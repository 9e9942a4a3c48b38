"""Assigns splits one after another, each to where the step ends earliest.

Always computed: it bounds the exact answer from above, is the answer where the exact one takes too
long, and often is already proved optimal by `StepProblem.lower_bound`. Costs splits x teams.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..costs import Seconds
from .problem import Solution, StepProblem

MARGIN = 1e-12
"""How much a move must lower the slowest load by, relative to it, so that rounding is no progress.
"""


def solve_greedily(problem: StepProblem) -> Solution:
    """The dearest split first; among teams that end the step equally early, the least loaded, and
    among those one on a device that has few splits so far.

    Then splits move away from the slowest team while that makes it faster.
    """
    loads = _Loads(problem)
    # Dear splits first: small ones fill what is left, as in longest-processing-time scheduling.
    for split in np.argsort(-problem.alone().min(axis=1), kind="stable").tolist():
        after = loads.after(split)
        ends = np.maximum(after, loads.seconds.max())
        loads.place(split, int(np.lexsort((loads.on_device(), after, ends))[0]))
    for _ in range(problem.splits):
        if not loads.relieve():
            break
    choice = tuple(int(team) for team in loads.choice)
    return Solution(choice, problem.cost(choice), problem.lower_bound())


class _Loads:
    """What each team does so far. `readers[g, t]` counts the splits on team t that read group g."""

    def __init__(self, problem: StepProblem) -> None:
        self.problem = problem
        self.seconds = np.zeros(problem.teams)
        self.choice = np.full(problem.splits, -1, dtype=np.int64)
        self._costs = np.array([group.cost for group in problem.shared])
        self._readers = np.zeros((len(problem.shared), problem.teams), dtype=np.int64)
        self._devices = np.array(problem.devices)
        self._groups: list[list[int]] = [[] for _ in range(problem.splits)]
        for number, group in enumerate(problem.shared):
            for reader in group.readers:
                self._groups[reader].append(number)

    def after(self, split: int) -> Seconds:
        """By team: its load if it ran this split too."""
        groups = self._groups[split]
        after: Seconds = self.seconds + self.problem.private[split]
        if groups:
            after += np.where(self._readers[groups] == 0, self._costs[groups], 0.0).sum(axis=0)
        return after

    def on_device(self) -> NDArray[np.int64]:
        """By team: how many splits its device has."""
        placed = self._devices[self.choice[self.choice >= 0]]
        counts = np.bincount(placed, minlength=int(self._devices.max()) + 1)
        of_teams: NDArray[np.int64] = counts[self._devices]
        return of_teams

    def place(self, split: int, team: int) -> None:
        self.seconds[team] = self.after(split)[team]
        self._readers[self._groups[split], team] += 1
        self.choice[split] = team

    def remove(self, split: int) -> None:
        team = self.choice[split]
        # Readers go first, so that data this split alone had fetched counts as its own.
        groups = self._groups[split]
        self._readers[groups, team] -= 1
        alone = self.after(split)[team] - self.seconds[team]
        self.seconds[team] -= alone
        self.choice[split] = -1

    def relieve(self) -> bool:
        """Moves a split off the slowest team if that lowers what both teams then take."""
        slowest = int(self.seconds.argmax())
        before = float(self.seconds[slowest])
        for split in np.flatnonzero(self.choice == slowest).tolist():
            self.remove(split)
            after = self.after(split)
            after[slowest] = np.inf
            target = int(after.argmin())
            if max(after[target], self.seconds[slowest]) < before * (1 - MARGIN):
                self.place(split, target)
                return True
            self.place(split, slowest)
        return False
