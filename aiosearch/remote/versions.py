"""What has to be the same on all hosts of a search."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, entry_points, version

from .admission import GROUP

_ALIKE = ("aiosearch", "z3-solver")


def versions() -> dict[str, str]:
    """Of this host: Python, what searches run on, and each installed problem by its class."""
    found = {"python": ".".join(platform.python_version_tuple()[:2])}
    found |= {name: _version(name) for name in _ALIKE}
    for point in entry_points(group=GROUP):
        found[point.value] = point.dist.version if point.dist else ""
    return found


def difference(ours: Mapping[str, str], theirs: Mapping[str, str]) -> str:
    """What differs of what has to be alike everywhere, in words; empty where nothing does."""
    names = ("python", *_ALIKE)
    told = [
        f"{name} {theirs.get(name) or 'is missing'} there, {ours[name]} here"
        for name in names
        if theirs.get(name) != ours[name]
    ]
    return "; ".join(told)


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return ""
