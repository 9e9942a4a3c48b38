"""The process that owns a device: `python -m aiosearch.measure.device FD HOSTPID LOG SETTINGS`."""

from __future__ import annotations

from collections.abc import Callable

from .child import serve
from .protocol import Reply, Request, Settings


def make(settings: Settings) -> Callable[[Request], Reply]:
    from .bench import Bench

    return Bench(settings).handle


def prepare() -> None:
    """Imports what `main` will, before a nursery forks this process."""
    from . import bench  # noqa: F401


def main() -> None:
    serve(make)


if __name__ == "__main__":
    main()
