"""The description of this machine that `aiosearch cluster measure` keeps for later plans."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from ..folders import cache_folder, make_folder
from .clusterfiles import read_cluster, write_cluster
from .clusters import Cluster
from .detection import detect_cluster
from .errors import ClusterError


def kept_cluster_path() -> Path:
    """The file in the user's cache folder."""
    return cache_folder() / "cluster.json"


def keep_cluster(cluster: Cluster) -> Path:
    """Writes a measured description where `this_machine` finds it, and gives the path."""
    path = kept_cluster_path()
    make_folder(path.parent)
    write_cluster(cluster, path)
    return path


def this_machine() -> Cluster:
    """What was measured, as long as it is of the cores that this process may use now.

    Otherwise what is detected, with assumed speeds.
    """
    detected = detect_cluster()
    with suppress(ClusterError):
        measured = read_cluster(kept_cluster_path())
        if _cores(measured) == _cores(detected):
            return measured
    return detected


def _cores(cluster: Cluster) -> list[tuple[str, str, int]]:
    return [
        (node.identifier, group.identifier, group.cores)
        for node in cluster.nodes
        for device in node.devices
        for group in device.groups
    ]
