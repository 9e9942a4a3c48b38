"""The assignment of a step as numbers.

Problem: splits go to teams so that the slowest team is as fast as possible. A team's load is

    sum of private[s, t] over its splits s
    + sum of cost[t] over the shared groups of which it has at least one reader.

A *shared group* is data that several splits read: a team fetches it once. What only one split reads
is part of that split's private cost, and data with the same readers are one group. That is what
keeps the integer program small: in a level of 64 splits that read a row block each and one weight
matrix there are 64 private costs a team and one group, not 65 decisions a team.

Example: two splits that compute 3 s each and read the same 2 s of data. On one team the load is
3 + 3 + 2 = 8; on two it is 5 each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..clusters import Cluster
from ..costs import Seconds, StepCostModel
from ..errors import MappingError
from ..mappings import DataHolders, Holder
from ..patterns import Work
from ..splits import DataSplit, PatternSplit
from ..teams import Team


@dataclass(frozen=True)
class Shared:
    """Something that its readers' teams fetch once each."""

    readers: tuple[int, ...]
    cost: Seconds
    """By team."""


@dataclass(frozen=True)
class StepProblem:
    private: Seconds
    """By split and team; infinite where the team must not run the split."""
    shared: tuple[Shared, ...]
    devices: tuple[int, ...]
    """By team: a number of its device. Where teams are alike, links to devices are used evenly."""

    @property
    def splits(self) -> int:
        return len(self.private)

    @property
    def teams(self) -> int:
        return len(self.devices)

    def loads(self, choice: Sequence[int]) -> Seconds:
        """What each team does when split s goes to team choice[s]."""
        loads = np.zeros(self.teams)
        np.add.at(loads, list(choice), self.private[np.arange(self.splits), list(choice)])
        for group in self.shared:
            users = list({choice[reader] for reader in group.readers})
            loads[users] += group.cost[users]
        return loads

    def cost(self, choice: Sequence[int]) -> float:
        return float(self.loads(choice).max(initial=0.0))

    def alone(self) -> Seconds:
        """By split and team: the load of a team that runs this split only."""
        alone = self.private.copy()
        for group in self.shared:
            alone[list(group.readers)] += group.cost
        return alone

    def lower_bound(self) -> float:
        """No assignment is faster: some team runs the split that is slowest at its best."""
        return float(self.alone().min(axis=1).max(initial=0.0))

    def fingerprint(self) -> bytes:
        """Equal for problems that are equal number by number, as levels of a loop are."""
        groups = (repr(group.readers).encode() + group.cost.tobytes() for group in self.shared)
        shape = repr((self.private.shape, self.devices)).encode()
        return b"|".join((shape, self.private.tobytes(), *groups))


@dataclass(frozen=True)
class Solution:
    """An assignment, what it costs, and a proven bound that no assignment goes below."""

    choice: tuple[int, ...]
    cost: float
    bound: float

    @property
    def gap(self) -> float:
        """How much of the cost is not proved to be needed: 0 is optimal."""
        return 0.0 if self.cost <= 0 else max(0.0, 1 - self.bound / self.cost)


def pose(
    cluster: Cluster,
    model: StepCostModel,
    splits: Sequence[PatternSplit],
    teams: Sequence[Team],
    holdings: DataHolders,
) -> StepProblem:
    """Writes the assignment of these splits to these teams as numbers."""
    for split in splits:
        if split.needs_cpu and not any(cluster.is_cpu(team.location) for team in teams):
            raise MappingError(f"{split.name} needs a CPU, and none of the teams has one")
    teams = tuple(teams)
    cpus = np.array([cluster.is_cpu(team.location) for team in teams])
    executions: dict[tuple[Work, int, bool], Seconds] = {}
    private = np.empty((len(splits), len(teams)))
    for s, split in enumerate(splits):
        kind = (split.work, split.iterations, split.needs_cpu)
        if kind not in executions:
            seconds = model.execution(split, teams)
            executions[kind] = np.where(cpus, seconds, np.inf) if split.needs_cpu else seconds
        private[s] = executions[kind]
    # Data with the same readers is fetched by the same teams, so its costs are one cost.
    groups: dict[tuple[int, ...], Seconds] = {}

    def add(readers: Sequence[int], cost: Seconds) -> None:
        if len(readers) == 1:
            private[readers[0]] += cost
        else:
            key = tuple(readers)
            groups[key] = groups[key] + cost if key in groups else cost

    data_readers: dict[DataSplit, list[int]] = {}
    # Latency is paid once a holder, however many splits of data it has for a team.
    held_readers: dict[tuple[Holder, ...], dict[int, None]] = {}
    for s, split in enumerate(splits):
        for data in split.inputs:
            data_readers.setdefault(data, []).append(s)
            held_readers.setdefault(holdings.of(data), {})[s] = None
    per_byte: dict[tuple[Holder, ...], Seconds] = {}
    for holders, reading in held_readers.items():
        per_byte[holders], latency = model.fetching(holders, teams)
        add(tuple(reading), latency)
    for data, readers in data_readers.items():
        add(readers, data.bytes * per_byte[holdings.of(data)])
    shared = tuple(Shared(key, cost) for key, cost in groups.items())
    numbers: dict[tuple[int, int], int] = {}
    devices = tuple(numbers.setdefault((t.node, t.device), len(numbers)) for t in teams)
    return StepProblem(private, shared, devices)
