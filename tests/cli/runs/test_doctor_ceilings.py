"""What doctor says of the machine's ceilings."""

from __future__ import annotations

import math
from typing import Any

import msgspec
import pytest
from testkit.hosts.console import Cli

from aiosearch.cli.runs.doctor import ceilings
from aiosearch.cli.runs.doctor.probes import FindingState
from aiosearch.measure import Ceilings, machine_id, stored_ceilings
from aiosearch.measure import ceilings as protocol


def test_doctor_shows_what_is_stored(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """Doctor says how to measure; what was measured, it shows from then on."""
    monkeypatch.setattr(protocol, "ROUNDS", 2)
    monkeypatch.setattr(protocol, "_ROWS", 256)
    monkeypatch.setattr(protocol, "_ELEMENTS", 1 << 12)
    monkeypatch.setattr(protocol, "last_cache", lambda _: 1 << 20)
    for module in (protocol, ceilings):
        monkeypatch.setattr(module, "NOISIEST", math.inf)
    (before,) = ceilings.stored()
    assert (before.state, before.remedy) == (FindingState.FINE, "aiosearch doctor --measure")
    outcome = cli("doctor", "--measure")
    assert outcome.code == 0
    assert "read: the largest of each column" in outcome.err
    assert "triad: a = b + s * c" in outcome.err
    assert "ok  ceilings cpu " in outcome.out
    (stored,) = [each for each in stored_ceilings() if each.platform == "cpu"]
    read, triad = (stored.sweeps[name] / 1e9 for name in ("read", "triad"))
    told = f"{max(read, triad):,.1f} GB/s (read {read:,.1f}, triad {triad:,.1f})"
    assert told in ceilings.stored()[0].detail


async def test_figures_of_a_busy_machine_are_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """What to do is said, and figures that were kept before stay."""
    now = protocol.PROTOCOL
    quiet = Ceilings(machine_id(), "cpu", "cpu", 2, "jax", now, "now", 2e10, {}, noise=0.1)
    figures = [quiet, msgspec.structs.replace(quiet, bytes_per_second=1e9, noise=1.44)]

    async def measured(executor: Any) -> Ceilings:
        return figures.pop(0)

    monkeypatch.setattr(ceilings, "measured", measured)
    monkeypatch.setattr(ceilings, "PLATFORMS", ("cpu",))
    assert await ceilings.measure() == []
    (trouble,) = await ceilings.measure()
    assert trouble.state is FindingState.BROKEN
    assert trouble.detail == "not kept: two runs of the same seemed 144% apart"
    assert trouble.remedy == "end what else runs, then aiosearch doctor --measure"
    assert stored_ceilings() == (quiet,)
