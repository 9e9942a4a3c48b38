"""`aiosearch doctor`: what works on this machine, and how to get what lacks."""

from __future__ import annotations

import argparse
import asyncio

from ..output.streams import Exit, give, give_json
from ..output.table import table_rows
from ..runs import doctor_ceilings, doctor_probes
from ..runs.doctor_probes import Finding, FindingState


def run(arguments: argparse.Namespace) -> int:
    """Looks at everything; the exit code is 1 if the engine cannot run here."""
    findings = asyncio.run(examine(measuring=arguments.measure))
    if arguments.json:
        give_json(findings)
    else:
        give(report(findings))
    works = all(finding.state is FindingState.FINE for finding in findings if finding.essential)
    return Exit.FINE if works else Exit.FAILED


async def examine(*, measuring: bool = False) -> list[Finding]:
    """Asks every probe; those that start processes, all at the same time, and before timing."""
    at_work = await asyncio.gather(doctor_probes.worker(), doctor_probes.z3(), doctor_probes.jax())
    return [
        *doctor_probes.machine(),
        *doctor_probes.distributions(),
        *doctor_probes.kernel(),
        *doctor_probes.strategies(),
        doctor_probes.cache(),
        doctor_probes.settings(),
        *at_work,
        *(await doctor_ceilings.measure() if measuring else ()),
        *doctor_ceilings.stored(),
    ]


def report(findings: list[Finding]) -> str:
    """Lists the findings, each remedy below its own."""
    rows = table_rows([(str(f.state), f.name, f.detail) for f in findings])
    shown = []
    for finding, row in zip(findings, rows, strict=True):
        shown.append(row)
        if finding.remedy:
            shown.append(f"    -> {finding.remedy}")
    return "\n".join(shown)
