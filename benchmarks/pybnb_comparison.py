"""Runs `bnb.py` under MPI and shows how pybnb does."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from lib.engine.sized_searches import ladder
from lib.figures import figure

PATIENCE = 300.0
SCRIPT = Path(__file__).with_name("bnb.py")
MPIEXEC = Path(sys.executable).with_name("mpiexec")


def pybnb_figures(seconds: float, packages: dict[str, str]) -> None:
    """Shows the efficiency of two workers over one, beside the process that deals out nodes."""
    for number, rung in enumerate(ladder(seconds)):
        serial, one, two = (solve(seconds, number, processes) for processes in (1, 2, 3))
        finished = one and two
        figure(
            f"efficiency of two workers, pybnb on MPI: {rung.name}",
            one["seconds"] / (2 * two["seconds"]) if finished else None,
            "T1 / (2 T2)",
            seconds_serial=rounded(serial),
            seconds_one=rounded(one),
            seconds_two=rounded(two),
            nodes=[run and run["nodes"] for run in (serial, one, two)],
            nodes_per_second_serial=serial and round(serial["nodes"] / serial["seconds"]),
            patience=PATIENCE,
            compared=packages,
            **({} if finished else {"note": "it did not finish, or there is no MPI"}),
        )


def solve(seconds: float, number: int, processes: int) -> dict[str, Any]:
    """Gives nothing where pybnb or MPI is missing, or patience ends."""
    command = [sys.executable, str(SCRIPT), str(seconds), str(number)]
    command = [*command, "--serial"] if processes == 1 else mpi(command, processes)
    try:
        done = subprocess.run(command, capture_output=True, timeout=PATIENCE, check=True)
    except (OSError, subprocess.SubprocessError):
        return {}
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def mpi(command: list[str], processes: int) -> list[str]:
    return [str(MPIEXEC), "-n", str(processes), *command]


def rounded(run: dict[str, Any]) -> float | None:
    return round(run["seconds"], 3) if run else None
