"""Teams: cores of a cache group that work on a step together, and the moves that change them.

At most one team uses a cache group in a step. A set of teams is a tuple in the order in which teams
were added, and never changes: every move gives a fresh tuple.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from msgspec import Struct

from .clusters import Cluster, GroupLocation, ProcessorKind
from .errors import ClusterError

MAX_SCALE = 24
"""How many times its cores a team grows by at most in a move."""
MAX_OFFLOAD = 84
"""How many multiprocessors a move adds at most."""


class Team(Struct, frozen=True):
    """Some cores of the cache group at a location."""

    node: int
    device: int
    group: int
    cores: int

    @property
    def location(self) -> GroupLocation:
        return GroupLocation(self.node, self.device, self.group)


Teams = tuple[Team, ...]
Move = Callable[[Cluster, Teams], Teams]


def full_team(cluster: Cluster, at: GroupLocation) -> Team:
    return Team(*at, cluster.group(at).cores)


def first_team(cluster: Cluster) -> Teams:
    """One core of the first cache group of the first CPU: where every search begins."""
    for at in cluster.locations():
        if cluster.is_cpu(at):
            return (Team(*at, 1),)
    raise ClusterError("the cluster has no CPU, and serial code needs one; describe one")


def host_team(cluster: Cluster, teams: Teams) -> Team:
    """A full team on the first free CPU cache group of the first team's node, for what needs a
    host.
    """
    node = teams[0].node if teams else 0
    locations = [at for at in cluster.locations() if cluster.is_cpu(at)]
    used = {team.location for team in teams}
    near = [at for at in locations if at.node == node] or locations
    if not near:
        raise ClusterError("the cluster has no CPU, and input and output need one; describe one")
    return full_team(cluster, next((at for at in near if at not in used), near[0]))


def scale_up(cluster: Cluster, teams: Teams) -> Teams:
    """Every team grows to as many times its cores as it may, up to all of its cache group."""
    return tuple(
        Team(*team.location, min(team.cores * MAX_SCALE, cluster.group(team.location).cores))
        for team in teams
    )


def spread(cluster: Cluster, teams: Teams) -> Teams:
    """Every team gets a twin, of as many cores, on the next unused cache group of its device."""
    used = {team.location for team in teams}
    twins = []
    for team in teams:
        for group in range(len(cluster.device(team.location).groups)):
            at = GroupLocation(team.node, team.device, group)
            if at not in used:
                used.add(at)
                twins.append(Team(*at, min(team.cores, cluster.group(at).cores)))
                break
    return (*teams, *twins)


def reach_out(cluster: Cluster, teams: Teams) -> Teams:
    """All CPU cache groups of the first node of which nothing is used join."""
    used = {team.node for team in teams}
    for node in range(len(cluster.nodes)):
        if node not in used:
            groups = [at for at in cluster.locations() if at.node == node and cluster.is_cpu(at)]
            if groups:
                return (*teams, *(full_team(cluster, at) for at in groups))
    return teams


def offload(cluster: Cluster, teams: Teams) -> Teams:
    """Multiprocessors join: of GPUs in use, or if these are full, of others on nodes in use."""
    used = {team.location for team in teams}
    devices = {(team.node, team.device) for team in teams}
    nodes = {team.node for team in teams}
    free = [
        at
        for at in cluster.locations()
        if cluster.device(at).kind is ProcessorKind.GPU and at not in used and at.node in nodes
    ]
    ready = [at for at in free if (at.node, at.device) in devices]
    return (*teams, *(full_team(cluster, at) for at in (ready or free)[:MAX_OFFLOAD]))


LOCAL_MOVES: tuple[Move, ...] = (scale_up, spread)
"""Tried while they help."""
JUMPS: tuple[Move, ...] = (reach_out, offload)
"""Tried once local moves change nothing."""


def check_teams(cluster: Cluster, teams: Iterable[Team]) -> None:
    """Raises ClusterError where a team is not in the cluster, or two share a cache group."""
    seen = set()
    locations = set(cluster.locations())
    for team in teams:
        if team.location not in locations:
            raise ClusterError(f"there is no cache group at {tuple(team.location)} in the cluster")
        if not 1 <= team.cores <= cluster.group(team.location).cores:
            raise ClusterError(
                f"the cache group at {tuple(team.location)} has "
                f"{cluster.group(team.location).cores} cores; a team of {team.cores} cannot use it"
            )
        if team.location in seen:
            raise ClusterError(f"two teams use the cache group at {tuple(team.location)}")
        seen.add(team.location)
