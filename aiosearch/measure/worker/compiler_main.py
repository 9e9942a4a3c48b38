"""A compile worker: `compiler_main FD HOSTPID LOG SETTINGS`, run with `python -m`."""

from __future__ import annotations

from collections.abc import Callable

from ..protocol import Build, ProcessSettings, Reply, Request
from .request_loop import alarm, serve


def make(settings: ProcessSettings) -> Callable[[Request], Reply]:
    from .executables import build

    def handle(request: Request) -> Reply:
        assert isinstance(request, Build)
        with alarm(request.seconds):
            return build(request.text, settings.ways)

    return handle


def prepare() -> None:
    """Imports what `main` will, before a fork server forks this process."""
    from . import executables  # noqa: F401


def main() -> None:
    serve(make)


if __name__ == "__main__":
    main()
