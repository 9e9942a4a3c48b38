from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

import pytest
from testkit.hosts.console import Cli

from aiosearch import Obligation
from aiosearch.checks import Verifier, default_cache_path
from aiosearch.cli.output.units import clock
from aiosearch.cli.runs.doctor import probes
from aiosearch.cli.runs.doctor.probes import DoctorFinding, FindingState


def fill(path: Path) -> None:
    async def ask() -> None:
        async with Verifier(cache=path) as verifier:
            await verifier.check(Obligation("(declare-const x Int) (assert (< x x))"))
            await verifier.check(Obligation("(declare-const x Int) (assert (< x 3))"))

    asyncio.run(ask())


def test_strategies(cli: Cli) -> None:
    """The installed strategies are listed with where they come from and what they do."""
    outcome = cli("strategies")
    assert outcome.code == 0
    lines = [line for line in outcome.out.splitlines() if line.startswith("queue ")]
    assert "aiosearch.strategies.queue:Queue" in lines[0]
    listed = json.loads(cli("strategies", "--json").out)
    assert {"queue", "interleaved"} <= {each["name"] for each in listed}


def test_strategy_that_cannot_be_loaded(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """A strategy that cannot be loaded is listed with the reason, and doctor knows it too."""
    metadata = Path("broken_one-1.0.dist-info")
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: broken-one\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text("[aiosearch.strategies]\nbroken = nowhere:Nobody\n")
    monkeypatch.syspath_prepend(Path.cwd())
    listed = {each["name"]: each for each in json.loads(cli("strategies", "--json").out)}
    assert "nowhere" in listed["broken"]["error"]
    assert "cannot be used: " in cli("strategies").out
    found = {finding.name: finding for finding in probes.strategies()}
    assert found["strategy broken"].state is FindingState.BROKEN


def test_cache(cli: Cli) -> None:
    """The cache is counted and cleared, by default the one that searches use."""
    path = default_cache_path()
    assert json.loads(cli("cache", "stats", "--json").out)["path"] == str(path)
    fill(path)
    told = cli("cache", "stats").out
    assert [line.split()[1] for line in told.splitlines()[2:]] == ["2", "1", "1", "0", clock()[:10]]
    assert cli("cache", "clear").out == f"removed 2 verdicts from {path}\n"
    assert json.loads(cli("cache", "clear", "--json").out)["removed"] == 0


def test_cache_elsewhere(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """The cache is that of the flag, or of the settings."""
    assert json.loads(cli("cache", "stats", "--cache", "here", "--json").out)["path"] == "here"
    monkeypatch.setenv("AIOSEARCH_CACHE", "there")
    assert json.loads(cli("cache", "stats", "--json").out)["path"] == "there"
    monkeypatch.setenv("AIOSEARCH_CACHE", "off")
    assert cli("cache", "stats").code == 2


@pytest.mark.parametrize("action", ["stats", "clear"])
def test_cache_that_is_none(cli: Cli, action: str) -> None:
    """A file that is no cache is left alone, in a sentence."""
    Path("text").write_text("hello " * 1000)
    outcome = cli("cache", action, "--cache", "text")
    assert (outcome.code, outcome.err.count("\n")) == (2, 1)
    assert Path("text").read_text().startswith("hello")


def test_doctor(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """Doctor says what works; jax is asked on the platform that the user chose."""
    monkeypatch.setenv("JAX_PLATFORMS", "cpu")
    outcome = cli("doctor", "--json")
    assert outcome.code == 0
    findings = {each["name"]: each for each in json.loads(outcome.out)}
    assert {each["state"] for each in findings.values() if each["essential"]} == {"ok"}
    assert findings["python"]["detail"].endswith(sys.executable)
    assert "cpu" in findings["jax devices"]["detail"].lower()
    for name in ("cores", "memory", "z3-solver", "msgspec", "cloudpickle", "cache", "worker", "z3"):
        assert findings[name]["state"] == "ok"


def test_doctor_of_a_broken_machine(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """Doctor fails when no worker can start, and says so beside what still works."""

    async def jax() -> DoctorFinding:
        return DoctorFinding("jax devices", "none")

    Path("no-python").write_text("#!/bin/false\n")
    Path("no-python").chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(Path("no-python").resolve()))
    monkeypatch.setattr(probes, "jax", jax)
    outcome = cli("doctor")
    assert outcome.code == 1
    assert "broken  worker " in outcome.out
    assert "broken  z3 " in outcome.out
    assert "    -> " in outcome.out


def test_a_cache_that_is_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What remembers nothing is broken, and says what is in the way."""
    (tmp_path / "taken").write_text("a file")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "taken"))
    found = probes.cache()
    assert found.state is FindingState.BROKEN
    assert f"{tmp_path / 'taken'} is no folder" in found.detail
    assert "XDG_CACHE_HOME" in found.remedy


def test_missing_distribution() -> None:
    """What is not installed is named with the command that installs it."""
    found = probes.distribution("aiosearch-nowhere")
    assert (found.state, found.remedy) == (FindingState.MISSING, "pip install aiosearch-nowhere")


async def test_jax_that_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """A jax that finds no device is broken, but nothing that a search needs."""
    monkeypatch.setattr(probes, "_ASK_JAX", "raise RuntimeError('no such backend')")
    found = await probes.jax()
    assert (found.state, found.essential) == (FindingState.BROKEN, False)
    assert found.detail == "RuntimeError: no such backend"


async def test_jax_that_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    """A jax that does not answer is not waited for."""
    monkeypatch.setattr(probes, "_ASK_JAX", "import time; time.sleep(60)")
    monkeypatch.setattr(probes, "SECONDS", 0.05)
    found = await probes.jax()
    assert found.detail == "no answer in 0.05s"


def test_wrong_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Doctor finds settings that would be refused."""
    monkeypatch.setenv("AIOSEARCH_WORKERS", "many")
    assert probes.settings().state is FindingState.BROKEN
    assert probes.cache().state is FindingState.BROKEN
