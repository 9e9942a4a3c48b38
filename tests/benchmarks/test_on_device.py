"""The script for a borrowed GPU: a dry run of its steps, and the exit status that tells of them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from aiosearch.devices import device

ROOT = Path(__file__).parents[2]
SCRIPTS = ROOT / "benchmarks" / "device"
MUCH = 300
"""Seconds, on a machine that has much to do."""

NO_CONTACT = "first contact fails: the rest of the time is kept (FORCE=1 goes on)"
WRONG = f"""
exec(open({str(SCRIPTS / "dry.py")!r}).read())
_interpreted = PATCHES["aiosearch.codegen.pallas.printer.module"]

def _wrong(module):
    _interpreted(module)
    write = module.write
    module.write = lambda *plan, **more: write(*plan, **more).replace("jnp.sqrt(", "jnp.abs(")

PATCHES["aiosearch.codegen.pallas.printer.module"] = _wrong
"""
"""What Python runs first in a dry run whose kernels have no roots."""


def ran(
    folder: Path, steps: str, root: Path = ROOT, **variables: str
) -> subprocess.CompletedProcess[str]:
    environment = {
        **os.environ,
        "STEPS": steps,
        "TOTAL": str(MUCH),
        "TMPDIR": str(folder),
        "OUT": str(folder / "out"),
        "PYTHON": sys.executable,
        **variables,
    }
    return subprocess.run(
        ["bash", str(SCRIPTS / "on_device.sh")],
        cwd=root, env=environment, capture_output=True, text=True, timeout=MUCH,
    )  # fmt: skip


def executable(path: Path, *lines: str) -> str:
    path.write_text("\n".join(["#!/usr/bin/env bash", *lines, ""]))
    path.chmod(0o755)
    return str(path)


@pytest.mark.timeout(MUCH)
def test_a_dry_run_tries_all_that_stands_between_a_checkout_and_its_kernels(tmp_path: Path) -> None:
    run = ran(tmp_path, "facts contact correctness", DRY="1", ONLY="ntrans")
    assert run.returncode == 0, run.stdout
    for line in (
        "described as H100, 132 multiprocessors",
        "contact: 6 of 6 steps",
        "2 of 2 kernels of 1 rows right",
    ):
        assert line in run.stdout, run.stdout
    assert run.stdout.endswith("the end\n")


@pytest.mark.timeout(MUCH)
def test_a_wrong_kernel_is_named_and_turns_the_exit_status(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(WRONG)
    first = f'export PYTHONPATH="{tmp_path}:$PYTHONPATH"'
    python = executable(tmp_path / "python", first, f'exec "{sys.executable}" "$@"')
    run = ran(tmp_path, "correctness", DRY="1", PYTHON=python, ONLY="ntrans")
    assert run.returncode == 1, run.stdout
    assert "WRONG ntrans" in run.stdout
    assert "0 of 2 kernels of 1 rows right" in run.stdout
    assert run.stdout.endswith("the end; what failed: correctness\n")


@pytest.mark.parametrize(
    ("codes", "status", "end"),
    [
        ({}, 0, "the end"),
        ({"distributions.py": 1}, 1, "the plugins cannot be declared"),
        ({"facts.py": 3}, 3, "there is no GPU that is described"),
        (
            {"contact.py": 1},
            1,
            "first contact fails: the rest of the time is kept (FORCE=1 goes on)",
        ),
        ({"correctness.py": 1}, 1, "the end; what failed: correctness"),
        ({"correctness.py": 124}, 2, "the end; what ran out of time: correctness"),
        ({"correctness.py": 137, "ceilings.py": 124}, 1, "the end; what failed: correctness"),
        ({"closing.py": 1}, 1, "the end; what failed: closing"),
    ],
)
def test_the_exit_status_tells_how_steps_ended(
    codes: Mapping[str, int], status: int, end: str, tmp_path: Path
) -> None:
    """With a Python that runs nothing, and ends as each script is meant to."""
    cases = [f"*{script}) exit {code};;" for script, code in codes.items()]
    python = executable(tmp_path / "python", 'case "$1" in', *cases, "esac", "exit 0")
    run = ran(tmp_path, "facts contact ceilings correctness", PYTHON=python)
    assert run.returncode == status, run.stdout
    assert run.stdout.endswith(f"  {end}\n"), run.stdout


@pytest.mark.parametrize(
    ("steps", "variables", "sentence"),
    [
        (
            "facts contcat",
            {},
            "STEPS has no step contcat: the steps are"
            " facts contact ceilings correctness table command corpus",
        ),
        (
            "facts",
            {"OUT": "/dev/null/out"},
            "/dev/null/out cannot be written: OUT names another folder for the logs",
        ),
        (
            "facts",
            {"TMPDIR": "/dev/null"},
            "/dev/null cannot be written: TMPDIR names another folder for what is temporary",
        ),
        ("facts", {"PYTHON": "nowhere"}, "nowhere has no jax: PYTHON names one that has"),
    ],
)
def test_what_is_called_wrongly_is_a_sentence_and_runs_nothing(
    steps: str, variables: Mapping[str, str], sentence: str, tmp_path: Path
) -> None:
    run = ran(tmp_path, steps, **variables)
    assert (run.returncode, run.stdout, run.stderr) == (64, "", f"{sentence}\n")


def test_elsewhere_than_in_a_checkout_it_says_where_it_runs(tmp_path: Path) -> None:
    run = ran(tmp_path, "facts", root=tmp_path)
    assert (run.returncode, run.stdout) == (64, "")
    assert run.stderr == f"run it in the root of a checkout of aiosearch, not in {tmp_path}\n"


def test_a_dry_run_leaves_nothing_that_a_run_on_a_gpu_would_take_for_its_own(
    tmp_path: Path,
) -> None:
    """Neither figures among its logs, nor a folder of wheels that says it is ready."""
    python = executable(tmp_path / "python", "exit 0")
    for dry, folders in (("1", ["aiosearch-site-dry", "on_device-dry"]),
                         ("", ["aiosearch-site", "on_device"])):  # fmt: skip
        temporary = tmp_path / f"temporary{dry}"
        assert ran(temporary, "facts", PYTHON=python, DRY=dry, OUT="").returncode == 0
        found = {path.name for path in temporary.iterdir()}
        assert found - {"aiosearch-caches", "aiosearch-dry"} == {*folders}


def test_the_floor_of_a_row_is_that_of_the_gpu_that_ran_it(tmp_path: Path) -> None:
    row = {"table": "lora, bf16, 8 rows", "side": "ours", "kernel_us": 4.0}
    floors = []
    for gpu in ("H100", "H200"):
        lines = [{"step": "ready", "gpu": gpu}, row]
        (tmp_path / "table.log").write_text("\n".join(map(json.dumps, lines)))
        table = subprocess.run(
            [sys.executable, str(SCRIPTS / "closing.py"), str(tmp_path)],
            capture_output=True, text=True, check=True,
        ).stdout  # fmt: skip
        floors.append(float(table.split("floor by bytes ")[1].split()[0]))
    speeds = [device(gpu).bytes_per_second for gpu in ("H100", "H200")]
    assert floors[0] / floors[1] == pytest.approx(speeds[1] / speeds[0], rel=0.1)
