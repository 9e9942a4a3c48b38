"""What a host runs for a search: installed problems by name, under equal versions.

The problem: a host must not run code that comes over a network. So `admit` lets a `Begin` pass only
if its problem, its order and its board are entry points that are installed here, and `difference`
names the versions that would make the same problem mean something else.
"""

from __future__ import annotations

import functools
import operator
import platform
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, entry_points, version
from typing import Any, get_args

import msgspec
from msgspec import Struct

from ..engine.wire.messages import Begin, End, ToWorker

GROUP = "aiosearch.problems"
EXCHANGES = "aiosearch.exchanges"
ORDERS = "aiosearch.orders"

_UNDER = f", with an entry point in the group {GROUP}"


class RefusalError(Exception):
    """What was asked for is not run here; the message says why and what to install."""


def meaning(frame: bytes) -> Struct:
    """What a frame asks of a worker, read as the worker reads it; of most messages, the kind
    only.

    Raises `ValueError` where no worker would understand it.
    """
    message: Struct = _decode(frame)
    return message


def _read(kind: type[Struct]) -> type[Struct]:
    """A type that reads a message's tag and skips its fields, but for `Begin` and `End`."""
    if kind in (Begin, End):
        return kind
    tag = kind.__struct_config__.tag
    return msgspec.defstruct(kind.__name__, (), frozen=True, array_like=True, tag=tag)


_KINDS: Any = functools.reduce(operator.or_, map(_read, get_args(ToWorker)))
_decode = msgspec.msgpack.Decoder(_KINDS).decode


def admit(begin: Begin) -> None:
    """Raises `RefusalError` unless problem and order are installed here under these names."""
    problem, order = begin.problem, begin.order
    for reference in (problem, order):
        # A pickle or a script is code from the network, whoever sent it
        if reference.pickled or reference.script:
            raise RefusalError(
                f"{reference.name} is no installed class, and code is not accepted; put it in a "
                f"package and install that everywhere{_UNDER}"
            )
    if order.module != ORDERS or "." in order.qualname:
        raise RefusalError(f"the order {order.name} is not one of {ORDERS}")
    if not installed(problem.name):
        raise RefusalError(
            f"{problem.name} is not installed; install the package that has it{_UNDER}"
        )
    if begin.exchange and not _among(begin.exchange, EXCHANGES):
        raise RefusalError(
            f"{begin.exchange} is not installed, so that workers could not pass work on to each "
            "other as those of the search do"
        )


def installed(problem: str) -> bool:
    """Whether hosts run a problem for others; `problem` is `module:Class`."""
    return _among(problem, GROUP)


def _among(name: str, group: str) -> bool:
    return any(point.value == name for point in entry_points(group=group))


_ALIKE = ("aiosearch", "z3-solver")


def versions() -> dict[str, str]:
    """Versions of this host: Python, what searches run on, and each installed problem by its
    class."""
    installed_versions = {"python": ".".join(platform.python_version_tuple()[:2])}
    installed_versions |= {name: _version(name) for name in _ALIKE}
    for point in entry_points(group=GROUP):
        installed_versions[point.value] = point.dist.version if point.dist else ""
    return installed_versions


def difference(ours: Mapping[str, str], theirs: Mapping[str, str]) -> str:
    """What differs of what has to be alike everywhere, in words; empty where nothing does:
    `"z3-solver 4.13.0 on the worker's machine, 4.15.1 on the search's"`.

    Both ends show the sentence, so that it names the machines and says neither here nor there.
    """
    names = ("python", *_ALIKE)
    differences = [
        f"{name} {theirs.get(name) or 'is missing'} on the worker's machine,"
        f" {ours[name]} on the search's"
        for name in names
        if theirs.get(name) != ours[name]
    ]
    return "; ".join(differences)


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return ""
