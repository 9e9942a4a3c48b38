"""What kind of device this is, as answers remember it."""

from __future__ import annotations

import os
import platform as system
from functools import cache
from pathlib import Path

import jax

from .errors import OptimizeError

TARGETS = ("auto", "cpu", "cuda")


def platform(target: str) -> str:
    """The platform that a target means here; raises OptimizeError where it is absent. Blocks."""
    if target not in TARGETS:
        raise OptimizeError(f"no target {target!r}: there are {', '.join(TARGETS)}")
    if target == "auto":
        return "cuda" if jax.default_backend() == "gpu" else "cpu"
    if target == "cuda" and not any(device.platform == "gpu" for device in jax.devices()):
        raise OptimizeError("jax has no GPU here that it can use; the target cpu works everywhere")
    return target


@cache
def device_kind(wanted: str) -> str:
    """Names the kind of device of a platform, and of a GPU also what drives it.

    Answers of one kind hold for all of it.
    """
    if wanted == "cpu":
        return f"cpu: {_processor()}, {len(os.sched_getaffinity(0))} cores"
    device = jax.devices(wanted)[0]
    driver = " ".join(str(device.client.platform_version).split())
    return f"{wanted}: {device.device_kind}, {driver}"


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return system.processor() or system.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else system.machine()
