"""`aiosearch cluster`: this machine as a cluster, detected or measured."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

import msgspec

from ...display.tables import table
from ..inputs.flags import add_json
from ..output.files import require_place, write
from ..output.streams import Exit, give, give_json, tell
from ..parser import Parser

if TYPE_CHECKING:
    from ...mapper import Cluster


DESCRIPTION = """\
Describes this machine as a cluster: its cores by the caches that they share, its memory and GPUs.
`detect` reads what the system says and assumes speeds; `measure` measures those of the processor,
in some seconds, and keeps them for `aiosearch place`. Measure on an idle machine."""
EPILOG = """\
examples:
  aiosearch cluster detect
  aiosearch cluster measure --file here.json

exit codes: 0 done, 2 wrong usage or a file that cannot be written"""


class ClusterArguments(argparse.Namespace):
    """What `aiosearch cluster` was given."""

    action: str
    file: str | None
    json: bool


def add_arguments(parser: Parser) -> None:
    """Adds the flags of the command."""
    add_action = parser.add_actions(required=True)
    for name, help in (
        ("detect", "describe it by what the system says"),
        ("measure", "measure its processor too, and keep that"),
    ):
        action = add_action(name, help=help)
        action.add_argument("--file", metavar="PATH", help="write the description as JSON")
        add_json(action)


def run(arguments: ClusterArguments) -> int:
    """Describes the machine, writes the description where one asked, and gives the exit code."""
    from ...mapper import detect_cluster
    from ...mapper.clusterfiles import describe_cluster

    require_place(arguments.file)
    cluster = detect_cluster()
    if arguments.action == "measure":
        from ...mapper.calibration import calibrate, keep_cluster

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
