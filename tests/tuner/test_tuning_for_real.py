"""Tuning on this machine's own processor, in processes that may die, or be killed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import pytest
from tuned_kernels import chunked, shifted

from aiosearch.tuner import RecordTable, Sampler, Tunable, tunable, tune
from aiosearch.tuner.journals import MeasurementJournal, SearchName
from aiosearch.tuner.kernels import KernelCall

X = jax.ShapeDtypeStruct((64, 32), jnp.float32)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path


@pytest.mark.timeout(400)
async def test_wrong_and_crashing_points_cost_only_themselves(cache: Path) -> None:
    chunked.table = RecordTable(cache / "table.json")
    report = await tune(chunked, X, trials=8)
    gates = {entry.trace.decisions["form"]: entry.gate for entry in report.measurements}
    assert gates == {"right": "", "zeros": "numbers", "short": "numbers", "crash": "compile"}
    assert report.record.winner == "reference" or report.configuration["form"] == "right"
    assert jnp.allclose(jax.jit(chunked)(jnp.ones((64, 32))), jnp.tanh(1.0) * 2)


@pytest.mark.timeout(400)
async def test_a_function_inside_another_is_tuned_as_well(cache: Path) -> None:
    """No other process can import it, so it is traced here and travels as StableHLO."""
    scale = jnp.float32(3)

    def space(s: Sampler, x: object) -> None:
        s.categorical("twice", (False, True))

    @tunable(space, table=cache / "table.json")
    def closed(x: jax.Array, *, twice: bool = False) -> jax.Array:
        return jnp.tanh(x) * scale * (2 if twice else 1)

    assert isinstance(closed, Tunable)
    report = await tune(closed, X, trials=4)
    assert report.configuration == {"twice": False}
    assert report.rejected == {"numbers": 1}


@pytest.mark.timeout(400)
def test_kill_9_loses_at_most_the_measurement_that_was_under_way(cache: Path) -> None:
    script = (
        "import sys, jax, jax.numpy as jnp\n"
        "from aiosearch.tuner import RecordTable, tune_sync\n"
        "from tuned_kernels import shifted\n"
        f"shifted.table = RecordTable({str(cache / 'table.json')!r})\n"
        "def note(progress):\n"
        "    print(progress.trials, flush=True)\n"
        "x = jax.ShapeDtypeStruct((64, 32), jnp.float32)\n"
        "tune_sync(shifted, x, trials=41, on_progress=note)\n"
    )
    (cache / "victim.py").write_text(script)
    path = os.pathsep.join([*filter(None, sys.path)])
    victim = subprocess.Popen(
        [sys.executable, cache / "victim.py"],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": path},
        text=True,
    )
    assert victim.stdout is not None
    told = 0
    for line in victim.stdout:
        told = int(line)
        if told >= 6:
            break
    victim.kill()
    victim.wait()
    victim.stdout.close()
    shifted.table = RecordTable(cache / "table.json")
    with MeasurementJournal(SearchName.of(shifted, KernelCall((X,)))) as journal:
        lines = list(journal.lines())
    assert told <= len(lines) <= told + 2
    assert not shifted.table.records
