"""What a step costs: an additive estimate for choosing, and a roofline for judging what was chosen.

Two views of the same quantities:

- *A priori*, before it is known what else a team does: seconds that a split computes, and seconds
  that a data split takes to arrive. Sums of these are what integer programs minimise.
- *A posteriori*, of a whole assignment: a team's operations and bytes are merged, and links are
  shared by those that use them at the same time. This is what a mapping's score is made of.

`FaithfulModel` is the published model, with its peculiarities, and gives the published scores to
all digits: writes are free, caches and memories hold everything, starting costs nothing. A team's
cost is execution + transfer - min(transfer, overlap * execution); overlap 1 makes that the larger
of the two, the classical roofline. A step costs what its slowest team does.

`CalibratedModel` mends what the published one leaves out: `CachedHolders` forgets what a cache has
no room for, and remembers who read; writing takes as long as reading, devices have a size, a link
is shared also in what is minimised, and each call of a team in a step costs a launch.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Protocol

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from .clusters import MEGA, NANO, Cluster, Distance, GroupLocation, ProcessorKind
from .mappings import Assignment, DataHolders, Holder
from .splits import DataSplit, PatternSplit
from .teams import Team, Teams

Seconds = NDArray[np.float64]


class TeamCost(Struct, frozen=True):
    """What a team does in a step, in seconds; its bytes are those that it fetches."""

    team: Team
    execution: float
    transfer: float
    total: float
    bytes: float


class StepCostModel(Protocol):
    """What the search asks a model."""

    def holdings(self) -> DataHolders:
        """What is held where before the first step."""
        ...

    def execution(self, split: PatternSplit, teams: Teams) -> Seconds:
        """By team: the seconds it takes to compute a split, data at hand."""
        ...

    def fetching(self, holders: tuple[Holder, ...], teams: Teams) -> tuple[Seconds, Seconds]:
        """By team: seconds a byte takes from the nearest holder, and until the first arrives.

        No holder stands for main memory.
        """
        ...

    def judge(self, assignment: Assignment, holdings: DataHolders) -> list[TeamCost]:
        """What each team of a step costs, all that it does taken together."""
        ...


class FaithfulModel:
    """The published model, on a cluster."""

    def __init__(self, cluster: Cluster, overlap: float = 0.0) -> None:
        self.cluster = cluster
        self.overlap = overlap
        self._teams: Teams = ()
        self._fetching: dict[tuple[tuple[Team, bool], ...], tuple[Seconds, Seconds]] = {}

    def holdings(self) -> DataHolders:
        return DataHolders()

    def operations(self, split: PatternSplit, team: Team) -> int:
        return split.work.on(self.cluster.device(team.location).kind is ProcessorKind.GPU)

    def execution(self, split: PatternSplit, teams: Teams) -> Seconds:
        count = split.iterations
        return np.array(
            [self._execution(self.operations(split, team), count, team) for team in teams]
        )

    def _execution(self, operations: int, iterations: int, team: Team) -> float:
        rate = self.cluster.group(team.location).rate
        return operations * iterations / min(iterations, team.cores) / rate

    def memory_stream(self, team: Team) -> float:
        """Bytes per second from a device's memory to a team."""
        device = self.cluster.device(team.location)
        return device.bandwidth * min(device.max_bandwidth / device.bandwidth, team.cores) * MEGA

    def link(self, holder: Holder | None, team: Team) -> tuple[float, float]:
        """Bytes per second from a holder to a team, nobody else on the way, and the latency."""
        distance = Distance.DEVICE
        if holder is not None:
            distance = holder.team.location.distance(team.location)
        if holder is None or distance is Distance.DEVICE:
            return self.memory_stream(team), self.cluster.device(team.location).latency * NANO
        if distance is Distance.PROCESSOR:
            cache = self.cluster.group(holder.team.location).last_level
            return cache.bandwidth * holder.team.cores * MEGA, cache.latency * NANO
        if distance is Distance.NODE:
            node, ends = self.cluster.nodes[team.node], (holder.team.device, team.device)
            return node.bandwidth[ends[0]][ends[1]] * MEGA, node.latency[ends[0]][ends[1]] * NANO
        ends = holder.team.node, team.node
        bandwidth, latency = self.cluster.bandwidth, self.cluster.latency
        return bandwidth[ends[0]][ends[1]] * MEGA, latency[ends[0]][ends[1]] * NANO

    def fetching(self, holders: tuple[Holder, ...], teams: Teams) -> tuple[Seconds, Seconds]:
        if teams != self._teams:
            # Levels and lookaheads ask for the same teams many times in a row.
            self._teams, self._fetching = teams, {}
        key = tuple((holder.team, holder.cached) for holder in holders)
        if key not in self._fetching:
            self._fetching[key] = self._columns(holders, teams)
        return self._fetching[key]

    def _columns(self, holders: tuple[Holder, ...], teams: Teams) -> tuple[Seconds, Seconds]:
        # A link depends on a team's device and cores alone, unless the team holds the data itself.
        homes = {(holder.team.node, holder.team.device, holder.team.group) for holder in holders}
        links: dict[tuple[int, int, int, int], tuple[float, float]] = {}
        columns = []
        for team in teams:
            at_home = (team.node, team.device, team.group) in homes
            key = (team.node, team.device, team.cores, team.group if at_home else -1)
            if key not in links:
                links[key] = self.link(nearest_holder(holders, team), team)
            columns.append(links[key])
        bandwidth, latency = np.array(columns).T
        return 1 / bandwidth, latency

    def judge(self, assignment: Assignment, holdings: DataHolders) -> list[TeamCost]:
        splits: dict[Team, list[PatternSplit]] = {}
        for split, team in assignment:
            splits.setdefault(team, []).append(split)
        sharing: dict[tuple[int, int], int] = {}
        for team in splits:
            sharing[team.node, team.device] = sharing.get((team.node, team.device), 0) + 1
        return [
            self._judge_team(team, assigned, holdings, sharing[team.node, team.device])
            for team, assigned in splits.items()
        ]

    def _judge_team(
        self, team: Team, splits: list[PatternSplit], holdings: DataHolders, sharing: int
    ) -> TeamCost:
        # One iteration more than there are, for each call: needed for the published scores.
        iterations: dict[int, int] = {}
        operations: dict[int, int] = {}
        fetched: dict[Holder | None, dict[DataSplit, None]] = {}
        for split in splits:
            iterations[split.call] = iterations.get(split.call, 1) + split.iterations
            operations[split.call] = self.operations(split, team)
            for data in split.inputs:
                holder = nearest_holder(holdings.of(data), team)
                fetched.setdefault(holder, {})[data] = None
        execution = sum(
            self._execution(operations[call], count, team) for call, count in iterations.items()
        )
        transfer = moved = 0.0
        for holder, pieces in fetched.items():
            size = sum(piece.bytes for piece in pieces)
            bandwidth, latency = self.link(holder, team)
            # Teams of a device share its link; the a priori costs know nothing of each other.
            if holder is not None and holder.team.location.distance(team.location) is Distance.NODE:
                bandwidth /= sharing
            transfer += size / bandwidth + latency
            moved += size
        # Prefetching hides up to a share of the computing; with overlap 0 nothing is hidden.
        total = execution + transfer - min(transfer, self.overlap * execution)
        return TeamCost(team, execution, transfer, total, moved)


Contents = Mapping[GroupLocation, tuple[DataSplit, ...]]
"""By cache group: what its last-level cache holds, what was used longest ago first."""


class CachedHolders(DataHolders):
    """For each data split, the caches that hold it, and the device whose memory does.

    What a team reads or writes goes into the cache of its group; what was used longest ago leaves
    it when there is no room. Writing makes all other copies stale.

    Example: a cache of 32 MB after a team has written 20 MB of `a` and then 20 MB of `b` holds b
    alone, and a comes from memory.
    """

    def __init__(
        self,
        cluster: Cluster,
        memory: Mapping[DataSplit, tuple[Holder, ...]] | None = None,
        contents: Contents | None = None,
        step: int = 0,
    ) -> None:
        super().__init__(memory, step)
        self._cluster = cluster
        self._contents: Contents = contents or {}

    def of(self, data: DataSplit) -> tuple[Holder, ...]:
        cached = tuple(
            Holder(Team(*at, self._cluster.group(at).cores), self._step)
            for at, held in self._contents.items()
            if data in held
        )
        return (*cached, *super().of(data))

    def after(self, assignment: Assignment) -> CachedHolders:
        memory = dict(self._holders)
        contents = {at: dict.fromkeys(held) for at, held in self._contents.items()}
        for split, team in assignment:
            cache = contents.setdefault(team.location, {})
            for data in (*split.inputs, *split.outputs):
                # Used last, so behind all others in the order of leaving.
                cache.pop(data, None)
                cache[data] = None
        for split, team in assignment:
            for data in split.outputs:
                memory[data] = (Holder(team, self._step, cached=False),)
                for at, cache in contents.items():
                    if at != team.location:
                        cache.pop(data, None)
        return CachedHolders(
            self._cluster,
            memory,
            {at: self._kept(at, cache) for at, cache in contents.items()},
            self._step + 1,
        )

    def _kept(self, at: GroupLocation, cache: dict[DataSplit, None]) -> tuple[DataSplit, ...]:
        room = self._cluster.group(at).last_level.size * MEGA
        kept: list[DataSplit] = []
        for data in reversed(cache):
            room -= data.bytes
            # A split that is larger than what is left pushes itself out as it is streamed.
            if room < 0:
                break
            kept.append(data)
        return tuple(reversed(kept))


class CalibratedModel(FaithfulModel):
    """The published model with what measurement asks for; `launch` is seconds that a call takes to
    start."""

    def __init__(self, cluster: Cluster, overlap: float = 1.0, launch: float = 1e-5) -> None:
        super().__init__(cluster, overlap)
        self.launch = launch

    def holdings(self) -> DataHolders:
        return CachedHolders(self.cluster)

    def execution(self, split: PatternSplit, teams: Teams) -> Seconds:
        size = sum(data.bytes for data in split.outputs)
        writing = np.array([size / self.memory_stream(team) for team in teams])
        seconds: Seconds = super().execution(split, teams) + writing + self.launch
        return seconds

    def link(self, holder: Holder | None, team: Team) -> tuple[float, float]:
        if holder is not None and not holder.cached:
            near = holder.team.location.distance(team.location) <= Distance.DEVICE
            return super().link(None if near else holder, team)
        return super().link(holder, team)

    def _columns(self, holders: tuple[Holder, ...], teams: Teams) -> tuple[Seconds, Seconds]:
        per_byte, latency = super()._columns(holders, teams)
        devices = Counter((team.node, team.device) for team in teams)
        near = [
            any(holder.team.location.distance(team.location) < Distance.NODE for holder in holders)
            for team in teams
        ]
        # All teams of a device may want the link at once; a program that is linear in the teams
        # cannot know which do, so the most are assumed.
        sharing = [
            1 if not holders or at_hand else devices[team.node, team.device]
            for team, at_hand in zip(teams, near, strict=True)
        ]
        return per_byte * np.array(sharing), latency

    def judge(self, assignment: Assignment, holdings: DataHolders) -> list[TeamCost]:
        costs = super().judge(assignment, holdings)
        needed: dict[tuple[int, int], set[DataSplit]] = {}
        for split, team in assignment:
            held = needed.setdefault((team.node, team.device), set())
            held.update(split.inputs, split.outputs)
        full = {
            at
            for at, splits in needed.items()
            if sum(data.bytes for data in splits)
            > self.cluster.nodes[at[0]].devices[at[1]].size * MEGA
        }
        return [
            TeamCost(cost.team, cost.execution, cost.transfer, float("inf"), cost.bytes)
            if (cost.team.node, cost.team.device) in full
            else cost
            for cost in costs
        ]

    def _judge_team(
        self, team: Team, splits: list[PatternSplit], holdings: DataHolders, sharing: int
    ) -> TeamCost:
        cost = super()._judge_team(team, splits, holdings, sharing)
        written = sum(data.bytes for data in {d for split in splits for d in split.outputs})
        transfer = cost.transfer + written / self.memory_stream(team)
        total = cost.execution + transfer - min(transfer, self.overlap * cost.execution)
        calls = len({split.call for split in splits})
        return TeamCost(
            team, cost.execution, transfer, total + calls * self.launch, cost.bytes + written
        )


MODELS: Mapping[str, type[FaithfulModel]] = {
    "calibrated": CalibratedModel,
    "faithful": FaithfulModel,
}
"""By the names that a search takes."""


def nearest_holder(holders: Iterable[Holder], team: Team) -> Holder | None:
    """The holder that a team fetches from; None stands for main memory."""
    return min(
        holders, key=lambda holder: holder.team.location.distance(team.location), default=None
    )


def step_cost(model: StepCostModel, assignment: Assignment, holdings: DataHolders) -> float:
    """What the slowest team of a step takes, in seconds; nothing where nobody works."""
    return max((cost.total for cost in model.judge(assignment, holdings)), default=0.0)


def score(model: StepCostModel, assignments: Iterable[Assignment]) -> float:
    """The sum of the steps' costs: the score of a mapping."""
    total, holdings = 0.0, model.holdings()
    for assignment in assignments:
        total += step_cost(model, assignment, holdings)
        holdings = holdings.after(assignment)
    return total
