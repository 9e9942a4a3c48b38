"""What all benchmarks share: one JSON line per figure, and the machine it was measured on."""

from __future__ import annotations

import json
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any


@cache
def machine() -> dict[str, Any]:
    return {
        "cpu": _cpu(),
        "cores": len(os.sched_getaffinity(0)),
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
    }


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def versions(*packages: str) -> dict[str, str]:
    found = {}
    for package in packages:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "not installed"
    return found


def figure(name: str, value: float | None, unit: str, **more: Any) -> None:
    """Prints one figure. `more` may hold the target, what it is compared with, and noise."""
    line = {
        "figure": name,
        "value": None if value is None else round(value, 4),
        "unit": unit,
        **more,
        "load": round(os.getloadavg()[0], 2),
        "machine": machine(),
        "versions": versions("aiosearch", "anyio", "msgspec"),
    }
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


def cpu_seconds(work: Callable[[], Any]) -> float:
    """CPU time of this process for one call."""
    start = time.process_time()
    work()
    return time.process_time() - start


def spread(values: list[float]) -> dict[str, float]:
    """Median and range of repeats, for the noise to be seen."""
    return {
        "median": round(statistics.median(values), 4),
        "least": round(min(values), 4),
        "most": round(max(values), 4),
        "repeats": len(values),
    }
