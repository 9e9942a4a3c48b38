"""Finds transports by name among the entry points of `aiosearch.transports`."""

from __future__ import annotations

from importlib.metadata import entry_points
from typing import cast

from ..errors import AiosearchError
from .links import API, Transport

GROUP = "aiosearch.transports"


def has_transport(name: str) -> bool:
    """Whether one of this name is installed."""
    return any(point.name == name for point in entry_points(group=GROUP))


def find_transport(name: str) -> Transport:
    """Loads a `Transport` by name; raises `AiosearchError` where it is not installed or cannot
    be used."""
    points = {point.name: point for point in entry_points(group=GROUP)}
    if name not in points:
        names = ", ".join(sorted(points)) or "none"
        raise AiosearchError(
            f"no transport {name!r} is installed; there are: {names}; `pip install"
            " aiosearch-sockets` brings one"
        )
    try:
        transport = points[name].load()
    except Exception as error:
        raise AiosearchError(
            f"transport {name!r} cannot be loaded: {type(error).__name__}: {error}"
        ) from error
    if getattr(transport, "api", None) != API:
        raise AiosearchError(
            f"transport {name!r} speaks api {getattr(transport, 'api', None)!r}, and this aiosearch"
            f" speaks api {API}; install matching versions"
        )
    return cast("Transport", transport)
