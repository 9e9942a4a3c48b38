"""`aiosearch cluster`: this machine as a cluster, detected or measured."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from ...mapper import Cluster, detect_cluster
from ...mapper.calibration import keep_cluster
from ...mapper.clusterfiles import describe_cluster
from ..output.files import require_place, write
from ..output.streams import Exit, give, give_json, tell
from ..output.table import table

if TYPE_CHECKING:
    from ..commands.cluster import ClusterArguments


def run(arguments: ClusterArguments) -> int:
    """Describes the machine, writes the description where one asked, and gives the exit code."""
    require_place(arguments.file)
    cluster = detect_cluster()
    if arguments.action == "measure":
        from ...mapper.calibration import calibrate

        tell("measuring streams, operations and dispatch")
        cluster, _ = calibrate(cluster)
        path = keep_cluster(cluster)
        tell(f"kept in {path}")
    text = msgspec.json.format(msgspec.json.encode(describe_cluster(cluster)), indent=2).decode()
    write(arguments.file, lambda: text + "\n")
    if arguments.json:
        give_json(describe_cluster(cluster))
    else:
        give(_cluster_table(cluster))
    return Exit.FINE


def _cluster_table(cluster: Cluster) -> str:
    rows = [("device", "cache group", "cores", "MHz", "op/cycle", "GB/s", "last level")]
    for node in cluster.nodes:
        for device in node.devices:
            rows += [
                (
                    device.identifier,
                    group.identifier,
                    str(group.cores),
                    f"{group.frequency:,.0f}",
                    f"{group.arithmetic_units:.1f}",
                    f"{device.max_bandwidth / 1e3:,.1f}",
                    f"{group.last_level.size:,.1f} MB",
                )
                for group in device.groups
            ]
    return table(rows, right=frozenset({2, 3, 4, 5, 6}))
