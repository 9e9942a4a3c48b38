"""What this machine computes with, by its name."""

from __future__ import annotations

import platform as system
from contextlib import suppress
from pathlib import Path

from ..pool import usable_cores


def processor() -> str:
    """The CPU's model, where the system tells it; else its kind, such as `x86_64`."""
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith(("model name", "CPU part")):
                return line.partition(":")[2].strip()
    return system.processor() or system.machine()


def cpu_kind() -> str:
    """Names the CPU as a device, with the cores that this process may use."""
    return f"cpu: {processor()}, {usable_cores()} cores"
