"""`aiosearch tune` of kernels, and of whole functions."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from testkit.hosts.console import Cli

from aiosearch.tuner import RecordTable, TuningRecord
from aiosearch.tuner.tunables import device_name

SOURCE = """\
import jax.numpy as jnp

import aiosearch


def space(s, x):
    s.categorical("chunk", (1, 2, 4))
    s.require(lambda chunk: x.shape[0] % chunk == 0, "chunks divide the rows")


@aiosearch.tunable(space, table="table.json")
def kernel(x, *, chunk=1):
    return x * 2


def plain(x):
    return jnp.sort(x)
"""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    # Each test has a file of this name, and a module is imported once.
    monkeypatch.delitem(sys.modules, "kernels", raising=False)
    path = tmp_path / "kernels.py"
    path.write_text(SOURCE)
    return str(path)


def record(**decisions: object) -> TuningRecord:
    return TuningRecord(
        kernel="kernels:kernel",
        arguments=("f32[8,4]",),
        device=device_name(),
        configuration=dict(decisions),
        decisions=dict(decisions),
        checked="tested",
        evidence="against its untuned form",
        measured=3,
        versions="jax 0",
    )


def test_a_record_is_explained_site_by_site(cli: Cli, file: str) -> None:
    RecordTable("table.json").put(record(chunk=4))
    outcome = cli("tune", f"{file}:kernel", "--arg", "f32[8,4]", "--explain")
    assert outcome.code == 0
    assert "chunk  4  (one of 3, untuned 1)" in outcome.out
    assert "requires: chunks divide the rows" in outcome.out
    assert "tested: against its untuned form" in outcome.out
    assert "s.categorical('chunk', (1, 2, 4), decision=4)" in outcome.out


def test_a_record_is_explained_as_json(cli: Cli, file: str) -> None:
    RecordTable("table.json").put(record(chunk=4))
    outcome = cli("tune", f"{file}:kernel", "--arg", "f32[8,4]", "--explain", "--json")
    facts = json.loads(outcome.out)
    assert facts["record"]["decisions"] == {"chunk": 4}
    assert "  requires: chunks divide the rows" in facts["explanation"]


def test_a_record_that_no_longer_fits_is_explained_as_that(cli: Cli, file: str) -> None:
    RecordTable("table.json").put(record(chunk=3))
    outcome = cli("tune", f"{file}:kernel", "--arg", "f32[8,4]", "--explain")
    assert "no point of the space any more: site 'chunk' cannot be 3" in outcome.out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((":kernel", "--explain"), "has no record of kernels:kernel"),
        ((":plain",), "give --whole to tune the kernels of a plain JAX function"),
        ((":kernel", "--whole"), "is no plain function"),
        ((":plain", "--whole", "--trials", "3"), "--whole has no --trials"),
        ((":plain", "--whole"), "can be tuned"),
    ],
)
def test_what_cannot_be_done_is_said(
    cli: Cli, file: str, arguments: tuple[str, ...], message: str
) -> None:
    target, *flags = arguments
    outcome = cli("tune", f"{file}{target}", "--arg", "f32[8,4]", "--quiet", *flags)
    assert outcome.code == 2
    assert message in outcome.err
