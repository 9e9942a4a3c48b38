"""The benchmark of optimize itself: that it runs, and says what it has to say."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
from corpus import CORPUS
from lib.optimizer.agreement import alike, as_near, in_float64
from lib.optimizer.contest import Setting, in_fresh_process

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "optimize.py"


def run(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    command, around = [sys.executable, str(SCRIPT), *arguments], {**os.environ, **variables}
    return subprocess.run(command, capture_output=True, text=True, check=False, env=around)


def test_a_function_gets_a_figure_and_a_row_and_all_get_sums() -> None:
    """One JSON object a line on standard output, the table for people on standard error."""
    done = run("moe_gate", "--seconds", "0.05")
    assert done.returncode == 0, done.stderr
    figures: dict[str, dict[str, Any]] = {
        found["figure"]: found for found in map(json.loads, done.stdout.splitlines())
    }
    one = figures["optimize: moe_gate"]
    assert one["low"] <= one["value"] <= one["high"]
    assert one["right"]
    assert not one["left_alone"]
    assert len(one["claimed"]) == len(one["how"]) == 1
    sums = [name.partition(": ")[2] for name in figures if name.startswith("optimize, built-in")]
    assert sums[:5] == [
        "geomean over jax.jit",
        "over 1.3 times as fast",
        "slower than the original",
        "wrong",
        "noise, median",
    ]
    assert figures["optimize, built-in programs: wrong"]["value"] == 0
    head, row = done.stderr.splitlines()[-2:]
    assert head.split()[0] == "function"
    assert row.split()[0] == "moe_gate"


def test_a_target_that_is_absent_is_said_in_a_sentence() -> None:
    """No traceback, and nothing on standard output; jax sees no GPU here."""
    done = run("cubic", "--target", "cuda", JAX_PLATFORMS="cpu")
    assert done.returncode == 1
    assert not done.stdout
    assert done.stderr.startswith("jax has no GPU here")
    assert len(done.stderr.splitlines()) == 1


def test_what_seems_slower_is_timed_again_in_a_fresh_process(tmp_path: Path) -> None:
    """The same function at the same setting; what comes back can be judged."""
    setting = Setting("quick", "cpu", 0.05, tmp_path / "results.sqlite")
    found = in_fresh_process(CORPUS["power_iteration"], setting)
    assert found.ratio.low <= found.ratio.median <= found.ratio.high
    assert found.base > 0


def test_results_are_judged_on_the_scale_of_their_type() -> None:
    """Rounding passes; a hundredth, another shape, and a NaN that was not there do not."""
    ours = [np.linspace(-2, 2, 9, dtype=np.float32)]
    assert alike(ours, [ours[0] * (1 + 1e-6)])
    assert not alike(ours, [ours[0] * 1.01])
    assert not alike(ours, [ours[0][:8]])
    assert not alike(ours, [np.where(ours[0] == 2, np.nan, ours[0])])
    assert not alike(ours, [*ours, *ours])
    half = [ours[0].astype(np.float16)]
    assert alike(half, [half[0].astype(np.float64) * 1.002])
    assert not alike(half, [half[0].astype(np.float64) * 1.02])
    assert not alike([np.arange(3)], [np.arange(3) + 1])


def test_what_rounding_spoils_is_judged_by_the_truth() -> None:
    """As far from float64 as the original is, twice at most; an original far away judges none."""
    (truth,) = in_float64(lambda x: x / 3, [jnp.ones(4, jnp.bfloat16)])
    assert truth.dtype == np.float64
    assert truth[0] == 1 / 3
    truth = np.linspace(1, 2, 5)
    ours = (truth + 0.1).astype(np.float16)
    assert as_near([ours], [truth - 0.19], [truth])
    assert not as_near([ours], [truth - 0.3], [truth])
    assert not as_near([ours + np.float16(1)], [truth], [truth])
    assert not as_near([ours], [truth[:4]], [truth])
    assert not as_near([ours], [np.full(5, np.nan)], [truth])


def test_an_array_of_rounding_alone_may_be_other_rounding_beside_larger_arrays() -> None:
    large = np.full(4, 2.0, np.float32)
    zero, noise = np.full(4, 1e-21), np.float32([1e-9, -1e-9, 1e-9, 1e-9])
    truth = [large.astype(np.float64), zero]
    assert as_near([large, noise], [large, -noise], truth)
    assert not as_near([large, noise], [large, 100 * noise], truth)
    assert not as_near([noise], [-noise], [zero])
