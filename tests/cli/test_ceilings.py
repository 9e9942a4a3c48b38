"""What doctor says of the machine's ceilings."""

from __future__ import annotations

import pytest
from console import Cli

from aiosearch.cli import ceilings
from aiosearch.cli.findings import State
from aiosearch.measure import ceilings as protocol
from aiosearch.measure import stored_ceilings


def test_doctor_shows_what_is_stored(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """Doctor says how to measure; what was measured, it shows from then on."""
    monkeypatch.setattr(protocol, "ROUNDS", 2)
    monkeypatch.setattr(protocol, "_ROWS", 256)
    monkeypatch.setattr(protocol, "_ELEMENTS", 1 << 12)
    monkeypatch.setattr(protocol, "last_cache", lambda _: 1 << 20)
    (before,) = ceilings.stored()
    assert (before.state, before.remedy) == (State.FINE, "aiosearch doctor --measure")
    outcome = cli("doctor", "--measure")
    assert outcome.code == 0
    assert "triad: a = b + s * c" in outcome.err
    assert "ok  ceilings cpu " in outcome.out
    (stored,) = [each for each in stored_ceilings() if each.platform == "cpu"]
    assert f"{stored.bytes_per_second / 1e9:,.1f} GB/s" in ceilings.stored()[0].detail
