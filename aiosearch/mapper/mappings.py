"""Mappings: which team runs each split of each level, and who holds the data that was written.

`DataHolders` remembers, for every data split, who wrote it last. Reading makes no copy: a
team that needs another's data fetches it at every step, as in the published model.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from msgspec import Struct

from ..documents import Document
from .clusters import Cluster, GroupLocation
from .errors import MappingError
from .levels import Level
from .splits import DataSplit, PatternSplit
from .teams import Team, Teams, check_teams

Assignment = tuple[tuple[PatternSplit, Team], ...]
"""Who runs what in a level."""


class StepMapping(Struct, frozen=True):
    """The assignment of a level and its cost in seconds, as the model predicts it."""

    level: int
    assignment: Assignment
    cost: float

    def teams(self) -> Teams:
        """The teams that run anything, in the order of their first splits."""
        return tuple(dict.fromkeys(team for _, team in self.assignment))


class MappingResult(Struct, frozen=True):
    """A whole program mapped: its steps, and the sum of their costs."""

    steps: tuple[StepMapping, ...]

    @property
    def score(self) -> float:
        return sum(step.cost for step in self.steps)


class Holder(NamedTuple):
    """A team that wrote something, and in which step.

    A team of another step is another holder, even on the same cores: each has a latency of its own
    in the published model, and without that its scores are missed in the seventh digit.
    """

    team: Team
    step: int
    cached: bool = True
    """Whether it is in the team's cache, or in its device's memory only."""


class DataHolders:
    """For each data split, those that wrote it last."""

    def __init__(
        self, holders: Mapping[DataSplit, tuple[Holder, ...]] | None = None, step: int = 0
    ) -> None:
        self._holders = dict(holders or {})
        self._step = step

    def of(self, data: DataSplit) -> tuple[Holder, ...]:
        return self._holders.get(data, ())

    def after(self, assignment: Assignment) -> DataHolders:
        """What is held where once a step is done; this table does not change."""
        written: dict[DataSplit, dict[Holder, None]] = {}
        for split, team in assignment:
            for data in split.outputs:
                written.setdefault(data, {})[Holder(team, self._step)] = None
        holders = {**self._holders, **{data: tuple(by) for data, by in written.items()}}
        return DataHolders(holders, self._step + 1)


def check_step(cluster: Cluster, level: Level, assignment: Assignment) -> None:
    """Raises MappingError unless each split is assigned once, to a team that may run it."""
    check_teams(cluster, dict.fromkeys(team for _, team in assignment))
    assigned = [split for split, _ in assignment]
    if sorted(map(repr, assigned)) != sorted(map(repr, level.placed)):
        raise MappingError("a step must assign each split of its level exactly once")
    for split, team in assignment:
        if split.needs_cpu and not cluster.is_cpu(team.location):
            raise MappingError(f"{split.name} reads or writes files, so a CPU must run it")


def report(
    name: str, cluster: Cluster, steps: Iterable[StepMapping], *, cluster_name: str = "cluster"
) -> Document:
    """The mapping as an object with the fields that Pattern-OPT's reports have."""
    steps = list(steps)
    return {
        "Algorithm": name,
        "Cluster": cluster_name,
        "Score": sum(step.cost for step in steps),
        "stepMappings": [
            {"Step": step.level, "Nodes": _report_step(cluster, step)} for step in steps
        ],
    }


def _report_step(cluster: Cluster, step: StepMapping) -> list[Document]:
    calls: dict[str, list[Document]] = {}
    for split, team in step.assignment:
        node = cluster.nodes[team.node]
        device = node.devices[team.device]
        calls.setdefault(split.name, []).append(
            {
                "Indices": list(split.starts),
                "Lengths": list(split.lengths),
                "Node": node.identifier,
                "ComputeDevice": device.identifier,
                "Processor": device.groups[team.group].identifier,
                "Cores": team.cores,
            }
        )
    return [{"Node": name, "Assignment": rows} for name, rows in calls.items()]


def read_report(
    text: str | bytes, cluster: Cluster, levels: tuple[Level, ...]
) -> tuple[Assignment, ...]:
    """Reads who runs what from a report, so that an edited one can be costed again.

    Levels in which nothing is placed have no entry. Raises MappingError for what does not fit.
    """
    try:
        steps = json.loads(text)["stepMappings"]
        entries = {
            step["Step"]: [
                (call["Node"], tuple(row["Indices"]), tuple(row["Lengths"]), row)
                for call in step["Nodes"]
                for row in call["Assignment"]
            ]
            for step in steps
        }
    except (ValueError, KeyError, TypeError) as error:
        raise MappingError(f"this is no report of a mapping: {error!r}") from None
    teams = _teams_by_identifiers(cluster)
    assignments = []
    for number, level in enumerate(levels):
        if not level.placed:
            continue
        waiting = {(split.name, split.starts, split.lengths): split for split in level.placed}
        pairs = []
        for name, starts, lengths, row in entries.get(number, ()):
            split = waiting.pop((name, starts, lengths), None)
            identifiers = (row["Node"], row["ComputeDevice"], row["Processor"])
            if split is None:
                raise MappingError(f"step {number} has no split of {name} at {starts}, {lengths}")
            if identifiers not in teams:
                raise MappingError(f"step {number}: the cluster has no {'/'.join(identifiers)}")
            pairs.append((split, Team(*teams[identifiers], int(row["Cores"]))))
        check_step(cluster, level, tuple(pairs))
        assignments.append(tuple(pairs))
    return tuple(assignments)


def _teams_by_identifiers(cluster: Cluster) -> dict[tuple[str, str, str], GroupLocation]:
    return {
        (
            cluster.nodes[at.node].identifier,
            cluster.device(at).identifier,
            cluster.group(at).identifier,
        ): at
        for at in cluster.locations()
    }
