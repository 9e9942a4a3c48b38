"""Strategies decide who explores what. They are plugins behind the contract in this package."""

from __future__ import annotations

from .contract import (
    API,
    Ask,
    Assign,
    Command,
    Event,
    Idle,
    Lost,
    Opened,
    Plan,
    Reported,
    Strategy,
    Task,
)
from .registry import StrategyInfo, find_strategy, list_strategies

__all__ = [
    "API",
    "Ask",
    "Assign",
    "Command",
    "Event",
    "Idle",
    "Lost",
    "Opened",
    "Plan",
    "Reported",
    "Strategy",
    "StrategyInfo",
    "Task",
    "find_strategy",
    "list_strategies",
]
