"""What kind of device this is, as answers remember it."""

from __future__ import annotations

import os
import platform
from functools import cache
from pathlib import Path

import jax


@cache
def device_kind(wanted: str) -> str:
    """Names the kind of device of a platform: answers of one kind hold for all of it."""
    if wanted == "cpu":
        return f"cpu: {_processor()}, {len(os.sched_getaffinity(0))} cores"
    device = jax.devices(wanted)[0]
    return f"{wanted}: {device.device_kind}"


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()
