"""Clusters are read from files, written to them, and refused by name where they have a hole."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from aiosearch.mapper.clusterfiles import describe_cluster, read_cluster, write_cluster
from aiosearch.mapper.clusters import Distance, GroupLocation
from aiosearch.mapper.errors import ClusterError
from aiosearch.mapper.published import claix


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    """A cluster survives a file, to the last digit."""
    path = tmp_path / "cluster.json"
    write_cluster(claix(), path)
    assert read_cluster(path) == claix()
    description = json.loads(path.read_text())
    assert description["nodes"][0]["devices"][0]["cache-group"][0]["cores"] == "24"


def test_templates_are_relative_to_the_file_that_names_them(tmp_path: Path) -> None:
    """A device may be a file, whose cache groups are files beside it; keys given win."""
    description = describe_cluster(claix(nodes=1, gpus=0))
    device = description["nodes"][0]["devices"][0]
    group = device["cache-group"][0]
    parts = tmp_path / "parts"
    parts.mkdir()
    (parts / "socket.json").write_text(json.dumps(group))
    device["cache-group"] = [{"template": "socket.json", "identifier": f"s{n}"} for n in "12"]
    (parts / "cpu.json").write_text(json.dumps(device))
    description["nodes"][0]["devices"] = [{"template": "parts/cpu.json", "identifier": "mine"}]
    (tmp_path / "cluster.json").write_text(json.dumps(description))
    cluster = read_cluster(tmp_path / "cluster.json")
    assert cluster.nodes[0].devices[0].identifier == "mine"
    assert [group.identifier for group in cluster.nodes[0].devices[0].groups] == ["s1", "s2"]


def test_a_template_that_uses_itself_is_an_error(tmp_path: Path) -> None:
    """Files that name each other do not send the reader round."""
    (tmp_path / "a.json").write_text('{"template": "b.json"}')
    (tmp_path / "b.json").write_text('{"template": "a.json"}')
    with pytest.raises(ClusterError, match="cannot use itself"):
        read_cluster(tmp_path / "a.json")


def _without(*path: str | int) -> Callable[[Any], None]:
    def change(description: Any) -> None:
        for key in path[:-1]:
            description = description[key]
        del description[path[-1]]

    return change


def _with(value: Any, *path: str | int) -> Callable[[Any], None]:
    def change(description: Any) -> None:
        for key in path[:-1]:
            description = description[key]
        description[path[-1]] = value

    return change


DEVICE = ("nodes", 0, "devices", 0)
GROUP = (*DEVICE, "cache-group", 0)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (_without("nodes"), "nodes is missing"),
        (_without("nodes", 0, "devices"), r"nodes\[0\].devices is missing"),
        (_without(*GROUP, "caches"), r"cache-group\[0\].caches is missing"),
        (_without(*GROUP, "frequency"), r"cache-group\[0\].frequency is missing"),
        (_without(*GROUP, "caches", 2, "size"), r"caches\[2\].size is missing"),
        (_with("fast", *DEVICE, "bandwidth"), r"devices\[0\].bandwidth must be a number"),
        (_with("TPU", *DEVICE, "type"), "must be CPU or GPU"),
        (_with("1.5", *GROUP, "cores"), "must be a whole number"),
        (_with([["0"]], "connectivity-bandwidth"), "must have 2 rows of 2 numbers"),
        (_with([], "nodes"), "must be a list of at least one"),
        (_with("-1", *DEVICE, "latency"), "must be a number of 0 or more"),
    ],
)
def test_a_hole_is_named(change: Callable[[Any], None], message: str, tmp_path: Path) -> None:
    """What is missing, of another type or of another size is said with the path to it."""
    description = copy.deepcopy(describe_cluster(claix()))
    change(description)
    path = tmp_path / "cluster.json"
    path.write_text(json.dumps(description))
    with pytest.raises(ClusterError, match=message):
        read_cluster(path)


def test_what_is_no_json_is_said(tmp_path: Path) -> None:
    """A file that cannot be parsed, or is not there, is one sentence."""
    (tmp_path / "cluster.json").write_text("{nodes")
    with pytest.raises(ClusterError, match="is not JSON"):
        read_cluster(tmp_path / "cluster.json")
    with pytest.raises(ClusterError, match="cannot read"):
        read_cluster(tmp_path / "nowhere.json")


@pytest.mark.parametrize(
    ("to", "distance"),
    [
        (GroupLocation(0, 0, 0), Distance.PROCESSOR),
        (GroupLocation(0, 0, 1), Distance.DEVICE),
        (GroupLocation(0, 1, 0), Distance.NODE),
        (GroupLocation(1, 0, 0), Distance.NETWORK),
    ],
)
def test_distance_is_by_what_is_shared(to: GroupLocation, distance: Distance) -> None:
    """Cache group, device, node, network: the first that two locations share."""
    assert GroupLocation(0, 0, 0).distance(to) is distance
