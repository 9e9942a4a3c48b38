"""`aiosearch doctor`: what works on this machine, and how to get what lacks."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ...output.streams import Exit, give, give_json
from ...output.table import table_rows
from . import ceilings, probes
from .probes import DoctorFinding, FindingState

if TYPE_CHECKING:
    from ...commands.doctor import DoctorArguments


def run(arguments: DoctorArguments) -> int:
    """Looks at everything; the exit code is 1 if the engine cannot run here."""
    findings = asyncio.run(examine(measuring=arguments.measure))
    if arguments.json:
        give_json(findings)
    else:
        give(report(findings))
    works = all(finding.state is FindingState.FINE for finding in findings if finding.essential)
    return Exit.FINE if works else Exit.FAILED


async def examine(*, measuring: bool = False) -> list[DoctorFinding]:
    """Asks every probe; those that start processes, all at the same time, and before timing."""
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
