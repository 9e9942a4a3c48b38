"""A `Strategy` decides who explores what. It is a plugin behind the contract in this package."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._lazy import lazily

if TYPE_CHECKING:
    from .contract import (
        API,
        Ask,
        Assign,
        Command,
        Event,
        Idle,
        Joined,
        Lost,
        Opened,
        Plan,
        Reported,
        Strategy,
        Task,
    )
    from .exchange import Board, Exchange, Taken
    from .registry import StrategyInfo, find_strategy, list_strategies

__all__ = [
    "API",
    "Ask",
    "Assign",
    "Board",
    "Command",
    "Event",
    "Exchange",
    "Idle",
    "Joined",
    "Lost",
    "Opened",
    "Plan",
    "Reported",
    "Strategy",
    "StrategyInfo",
    "Taken",
    "Task",
    "find_strategy",
    "list_strategies",
]

__getattr__ = lazily(
    __name__,
    {
        "API": ".contract",
        "Ask": ".contract",
        "Assign": ".contract",
        "Command": ".contract",
        "Event": ".contract",
        "Idle": ".contract",
        "Joined": ".contract",
        "Lost": ".contract",
        "Opened": ".contract",
        "Plan": ".contract",
        "Reported": ".contract",
        "Strategy": ".contract",
        "Task": ".contract",
        "Board": ".exchange",
        "Exchange": ".exchange",
        "Taken": ".exchange",
        "StrategyInfo": ".registry",
        "find_strategy": ".registry",
        "list_strategies": ".registry",
    },
)
