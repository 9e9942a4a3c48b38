"""The script for a borrowed GPU: a dry run of its steps, and the exit status that tells of them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

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


def ran(folder: Path, steps: str, **variables: str) -> subprocess.CompletedProcess[str]:
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
        cwd=ROOT, env=environment, capture_output=True, text=True, timeout=MUCH,
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
