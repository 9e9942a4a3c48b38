"""Moves of teams stay within the cluster, and a cache group has one team."""

from __future__ import annotations

import pytest

from aiosearch.mapper.errors import ClusterError
from aiosearch.mapper.published import claix
from aiosearch.mapper.teams import (
    Team,
    check_teams,
    first_team,
    offload,
    reach_out,
    scale_up,
    spread,
)

CLUSTER = claix()


def test_a_team_grows_to_its_cache_group() -> None:
    """From one core to twenty-four, and no further."""
    grown = scale_up(CLUSTER, first_team(CLUSTER))
    assert grown == (Team(0, 0, 0, 24),)
    assert scale_up(CLUSTER, grown) == grown


def test_a_team_spreads_over_its_device() -> None:
    """To the other socket, and then nowhere."""
    both = spread(CLUSTER, (Team(0, 0, 0, 24),))
    assert both == (Team(0, 0, 0, 24), Team(0, 0, 1, 24))
    assert spread(CLUSTER, both) == both


def test_another_node_joins_with_all_its_sockets() -> None:
    """And with none of its GPUs."""
    joined = reach_out(CLUSTER, (Team(0, 0, 0, 24),))[1:]
    assert joined == (Team(1, 0, 0, 24), Team(1, 0, 1, 24))


def test_multiprocessors_of_a_gpu_in_use_come_first() -> None:
    """84 at a time: 80 and 4, and then the remaining 76 of the second."""
    first = offload(CLUSTER, (Team(0, 0, 0, 24),))
    assert [sum(team.device == device for team in first) for device in (1, 2)] == [80, 4]
    second = offload(CLUSTER, first)
    assert [sum(team.device == device for team in second) for device in (1, 2)] == [80, 80]
    assert {team.node for team in second} == {0}


@pytest.mark.parametrize("moves", [(scale_up, spread, offload, spread, reach_out, offload)])
def test_moves_give_teams_that_fit(moves) -> None:  # type: ignore[no-untyped-def]
    """Whatever the order, a cache group has one team of at most its cores."""
    teams = first_team(CLUSTER)
    for move in moves:
        before = len(teams)
        teams = move(CLUSTER, teams)
        assert len(teams) >= before
        check_teams(CLUSTER, teams)


@pytest.mark.parametrize(
    ("teams", "message"),
    [
        ((Team(0, 0, 5, 1),), "no cache group"),
        ((Team(0, 0, 0, 25),), "cannot use"),
        ((Team(0, 0, 0, 1), Team(0, 0, 0, 2)), "two teams"),
    ],
)
def test_teams_that_do_not_fit_are_refused(teams: tuple[Team, ...], message: str) -> None:
    """A device that is gone, too many cores, a cache group twice: one sentence each."""
    with pytest.raises(ClusterError, match=message):
        check_teams(CLUSTER, teams)
