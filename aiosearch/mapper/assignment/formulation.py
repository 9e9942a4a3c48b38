"""The integer program of a step, with what is alike counted rather than told apart.

Problem: 64 equal splits on 84 equal multiprocessors are 5,376 yes-or-no decisions, and 64! * 84!
answers that differ in names only; a solver that walks through those does not end.

Method: splits that cost the same everywhere and read the same shared data are a *class*, and a
count of it goes to each team. Teams that no split can tell apart are put in order: the one before
runs no fewer splits. With n[k, t] of class k on team t, whether team t fetches group g as y[g, t],
and T the step's time:

    minimise T
    sum over t of n[k, t] = size of k                                   every split runs once
    T >= sum over k of c[k, t] n[k, t] + sum over g of d[g, t] y[g, t]  for each team
    n[k, t] <= size of k * y[g, t]                                      for each k that reads g
    size of k * T >= sum over t of alone[k, t] n[k, t]                  a cut: T is above the mean
    sum over k of n[k, t] >= sum over k of n[k, t + 1]                  for teams that are alike

Example: six splits of 1 s on three equal teams are three counts that sum to 6, in descending order:
(2, 2, 2), T = 2, found without branching.

Times are divided by the cost of a known assignment, so that a solver's tolerances fit, and costs
that exceed it are forbidden outright: n[k, t] = 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .problem import StepProblem

Matrix = NDArray[np.float64]


@dataclass(frozen=True)
class SplitClass:
    """Splits that are interchangeable."""

    members: tuple[int, ...]
    groups: tuple[int, ...]
    """The shared groups that they read."""


@dataclass(frozen=True)
class Formulation:
    """Classes, and their costs relative to `scale`."""

    classes: tuple[SplitClass, ...]
    private: Matrix
    """By class and team; infinite where forbidden."""
    shared: Matrix
    """By group and team."""
    alone: Matrix
    alike: tuple[tuple[int, int], ...]
    """Consecutive teams that no split tells apart."""
    scale: float

    @property
    def teams(self) -> int:
        return int(self.private.shape[1])

    def limits(self) -> NDArray[np.int64]:
        """By class and team: how many splits could fit in a time of 1."""
        sizes = np.array([len(split_class.members) for split_class in self.classes])[:, None]
        # Of a class of cost c beside shared data of cost d, (1 - d) / c fit; none where c + d > 1.
        with np.errstate(divide="ignore", invalid="ignore"):
            fitting = np.floor((1 - (self.alone - self.private)) / self.private + 1e-9)
        fitting = np.where(self.alone > 1 + 1e-9, 0, np.where(self.private > 0, fitting, sizes))
        clipped = np.clip(np.nan_to_num(fitting, nan=0, posinf=0), 0, sizes)
        return np.asarray(clipped, dtype=np.int64)

    def expand(self, counts: NDArray[np.int64]) -> tuple[int, ...]:
        """The team of every split, from how many of each class a team has."""
        choice = [0] * sum(len(split_class.members) for split_class in self.classes)
        for split_class, row in zip(self.classes, counts, strict=True):
            teams = np.repeat(np.arange(self.teams), row)
            for member, team in zip(split_class.members, teams, strict=True):
                choice[member] = int(team)
        return tuple(choice)


def formulate(problem: StepProblem, scale: float) -> Formulation:
    """Finds what is alike in a problem of which an assignment of cost `scale` is known."""
    membership: list[list[int]] = [[] for _ in range(problem.splits)]
    for number, group in enumerate(problem.shared):
        for reader in group.readers:
            membership[reader].append(number)
    classes: dict[tuple[bytes, tuple[int, ...]], list[int]] = {}
    for split in range(problem.splits):
        key = (problem.private[split].tobytes(), tuple(membership[split]))
        classes.setdefault(key, []).append(split)
    first = [members[0] for members in classes.values()]
    shared = np.array([group.cost for group in problem.shared]).reshape(-1, problem.teams)
    return Formulation(
        classes=tuple(
            SplitClass(tuple(members), groups) for (_, groups), members in classes.items()
        ),
        private=problem.private[first] / scale,
        shared=shared / scale,
        alone=problem.alone()[first] / scale,
        alike=_alike(problem, shared),
        scale=scale,
    )


def _alike(problem: StepProblem, shared: Matrix) -> tuple[tuple[int, int], ...]:
    """Pairs of consecutive equal teams, device after device in turn, so that all get work."""
    seen: dict[int, int] = {}
    ranks = []
    for device in problem.devices:
        ranks.append(seen.get(device, 0))
        seen[device] = ranks[-1] + 1
    latest: dict[bytes, int] = {}
    pairs = []
    for team in sorted(range(problem.teams), key=lambda team: (ranks[team], problem.devices[team])):
        key = problem.private[:, team].tobytes() + shared[:, team].tobytes()
        if key in latest:
            pairs.append((latest[key], team))
        latest[key] = team
    return tuple(pairs)


def rounded(counts: Sequence[Sequence[float]]) -> NDArray[np.int64]:
    return np.asarray(np.rint(np.asarray(counts)), dtype=np.int64)
