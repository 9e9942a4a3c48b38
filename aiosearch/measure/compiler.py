"""A compile worker: `python -m aiosearch.measure.compiler FD HOSTPID LOG SETTINGS`."""

from __future__ import annotations

from collections.abc import Callable

from .child import alarm, serve
from .protocol import Build, Reply, Request, Settings


def make(settings: Settings) -> Callable[[Request], Reply]:
    from .building import build

    def handle(request: Request) -> Reply:
        assert isinstance(request, Build)
        with alarm(request.seconds):
            return build(request.text, settings.ways)

    return handle


def prepare() -> None:
    """Imports what `main` will, before a nursery forks this process."""
    from . import building  # noqa: F401


def main() -> None:
    serve(make)


if __name__ == "__main__":
    main()
