"""`aiosearch doctor`: what works on this machine, and how to get what lacks."""

from __future__ import annotations

import argparse
import asyncio
from typing import TYPE_CHECKING

from ...display.tables import table_rows
from ..inputs.flags import add_json
from ..output.streams import Exit, give, give_json
from ..parser import Parser

if TYPE_CHECKING:
    from ..runs.doctor.probes import DoctorFinding


DESCRIPTION = ""
EPILOG = ""


class DoctorArguments(argparse.Namespace):
    """What `aiosearch doctor` was given."""

    measure: bool
    json: bool


def add_arguments(parser: Parser) -> None:
    """Adds the flags of the command."""
    parser.add_argument(
        "--measure",
        action="store_true",
        help="first measure the most that its devices can do, and keep the figures",
    )
    add_json(parser)


def run(arguments: DoctorArguments) -> int:
    """Looks at everything; the exit code is 1 if the engine cannot run here."""
    from ..runs.doctor.probes import FindingState

    findings = asyncio.run(examine(measuring=arguments.measure))
    if arguments.json:
        give_json(findings)
    else:
        give(report(findings))
    works = all(finding.state is FindingState.FINE for finding in findings if finding.essential)
    return Exit.FINE if works else Exit.FAILED


async def examine(*, measuring: bool = False) -> list[DoctorFinding]:
    """Asks every probe; those that start processes, all at the same time, and before timing."""
    from ..runs.doctor import ceilings, probes

    at_work = await asyncio.gather(probes.worker(), probes.z3(), probes.jax())
    return [
        *probes.machine(),
        *probes.distributions(),
        *probes.kernel(),
        *probes.strategies(),
        probes.cache(),
        probes.settings(),
        *at_work,
        *(await ceilings.measure() if measuring else ()),
        *ceilings.stored(),
    ]


def report(findings: list[DoctorFinding]) -> str:
    """Lists the findings, each remedy below its own."""
    rows = table_rows([(str(f.state), f.name, f.detail) for f in findings])
    shown = []
    for finding, row in zip(findings, rows, strict=True):
        shown.append(row)
        if finding.remedy:
            shown.append(f"    -> {finding.remedy}")
    return "\n".join(shown)
