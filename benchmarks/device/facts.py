"""What is installed here, whether pyproject asks for more, and what jax says of the GPU.

    python benchmarks/device/facts.py [--dry]

The exit code is 3 where jax has no GPU that `aiosearch/devices.json` describes; a dry run, which
expects none, has 0 there.
"""

from __future__ import annotations

import platform
import sys
import time
import tomllib
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

OPTIONAL = (
    "jaxlib", "jax-cuda13-plugin", "torch", "triton", "nvidia-cuda-nvcc", "nvidia-cuda-cupti",
    "nvidia-cudnn-cu13", "nvidia-cublas",
)  # fmt: skip


def numbers(text: str) -> tuple[int, ...]:
    digits = ("".join(filter(str.isdigit, part)) or "0" for part in text.split(".")[:3])
    return tuple(map(int, digits))


def print_packages() -> None:
    print("python", platform.python_version(), sys.executable)
    project = tomllib.loads(Path("pyproject.toml").read_text())["project"]
    for requirement in project["dependencies"]:
        name, _, bounds = requirement.partition(">=")
        least = bounds.partition(",")[0].partition(";")[0].strip()
        try:
            installed = version(name)
        except PackageNotFoundError:
            print(f"LACK {name}, asked {least}")
            continue
        verdict = "ok" if numbers(installed) >= numbers(least) else "OLD"
        print(f"{verdict:4s}{name} {installed}, asked {least}")
    for name in OPTIONAL:
        try:
            print(f"    {name} {version(name)}")
        except PackageNotFoundError:
            print(f"    {name} is not installed")


def main() -> int:
    absent = 0 if "--dry" in sys.argv else 3
    print_packages()
    began = time.monotonic()
    import jax

    from aiosearch.devices import DeviceError, device
    from aiosearch.optimizer.device_kind import described_gpu

    first = jax.devices()[0]
    print(f"jax {jax.__version__}: {first.platform}, {first.device_kind},"
          f" {getattr(first, 'core_count', '?')} multiprocessors"
          f" ({time.monotonic() - began:.1f} s)")  # fmt: skip
    stats = first.memory_stats() or {}
    print(f"memory {stats.get('bytes_limit')} bytes, {stats.get('bytes_in_use')} in use")
    try:
        name = described_gpu()
        if not name:
            print("described as nothing: it is not in aiosearch/devices.json")
            return absent
        described = device(name)
    except (RuntimeError, DeviceError) as error:
        print("no GPU:", error)
        return absent
    print(f"described as {described.name}, {described.units} multiprocessors,"
          f" {described.bytes_per_second / 1e12:.2f} TB/s by its data sheet")  # fmt: skip
    return 0 if first.platform == "gpu" else absent


if __name__ == "__main__":
    sys.exit(main())
