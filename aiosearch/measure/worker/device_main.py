"""The process that owns a device: `device_main FD HOSTPID LOG SETTINGS`, run with `python -m`."""

from __future__ import annotations

from collections.abc import Callable

from ..protocol import ProcessSettings, Reply, Request
from .request_loop import serve


def make(settings: ProcessSettings) -> Callable[[Request], Reply]:
    from .device_bench import DeviceBench

    return DeviceBench(settings).handle


def prepare() -> None:
    """Imports what `main` will, before a fork server forks this process."""
    from . import device_bench  # noqa: F401


def main() -> None:
    serve(make)


if __name__ == "__main__":
    main()
