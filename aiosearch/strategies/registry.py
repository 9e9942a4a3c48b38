"""Finds strategies by name among entry points of `aiosearch.strategies`, and loads only what is
used."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from ..errors import StrategyError
from .contract import API, Strategy

GROUP = "aiosearch.strategies"


class StrategyInfo(Struct, frozen=True):
    """A strategy that is installed, and whether it can be loaded: one line of `aiosearch
    strategies`."""

    name: str
    origin: str
    """The distribution that brings it, with its version, and the class."""
    summary: str = ""
    error: str = ""


def find_strategy(
    strategy: str | Strategy | type[Strategy], options: Mapping[str, Any] | None = None
) -> Strategy:
    """Takes a strategy by name, as a class or as an object; raises `StrategyError` for what cannot
    be loaded.

    Options are for a name or a class, of which an object is made.
    """
    if not isinstance(strategy, str | type):
        if options:
            raise StrategyError("options are for strategies given by name or as a class")
        return _checked(type(strategy).__qualname__, strategy)
    factory = _load(strategy) if isinstance(strategy, str) else strategy
    try:
        return _checked(strategy_name(strategy), factory(**(options or {})))
    except (TypeError, ValueError) as error:
        raise StrategyError(
            f"strategy {strategy_name(strategy)!r} refuses its options: {error}"
        ) from None


def strategy_name(strategy: str | Strategy | type[Strategy]) -> str:
    """What a strategy is called: its name, or that of its class."""
    if isinstance(strategy, str):
        return strategy
    return (strategy if isinstance(strategy, type) else type(strategy)).__qualname__


def list_strategies() -> list[StrategyInfo]:
    """Loads every installed strategy in turn and says how that went, sorted by `name`."""
    infos = []
    for point in sorted(_points(), key=lambda point: point.name):
        dist = point.dist
        origin = f"{dist.name} {dist.version}, {point.value}" if dist else str(point.value)
        try:
            factory = _load(point.name)
            summary = (factory.__doc__ or "").strip().partition("\n")[0]
            _checked(point.name, factory)
            infos.append(StrategyInfo(point.name, origin, summary))
        except StrategyError as error:
            infos.append(StrategyInfo(point.name, origin, error=str(error)))
    return infos


def _points() -> Any:
    from importlib.metadata import entry_points  # slow to import, and often not needed

    return entry_points(group=GROUP)


def _load(name: str) -> Any:
    if name == "queue":  # the default is worth a start without a look at the installed packages
        from .queue import Queue

        return Queue
    points = _points()
    for point in points:
        if point.name == name:
            try:
                return point.load()
            except Exception as error:
                raise StrategyError(
                    f"strategy {name!r} ({point.value}) cannot be loaded: "
                    f"{type(error).__name__}: {error}"
                ) from error
    names = ", ".join(sorted({point.name for point in points} | {"queue"}))
    hint = ""
    if name == "interleaved":
        hint = "; it is a distribution of its own: pip install aiosearch-interleaved"
    raise StrategyError(f"unknown strategy {name!r}; installed are {names}{hint}")


def _checked(name: str, strategy: Any) -> Strategy:
    missing = [part for part in ("api", "start", "handle") if not hasattr(strategy, part)]
    if missing:
        raise StrategyError(
            f"{name!r} is no strategy: it has no {' and no '.join(missing)}; give the name of an "
            "installed strategy, or a class or an object with `api`, `start` and `handle`"
        )
    if strategy.api != API:
        raise StrategyError(
            f"strategy {name!r} speaks api {strategy.api!r}, and this aiosearch speaks api {API}; "
            "install matching versions"
        )
    return strategy  # type: ignore[no-any-return]  # its methods are called, and fail by name
