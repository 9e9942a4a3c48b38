"""How long a strategy really computes while everything else happens on a virtual clock."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ...strategies import Command, Event, Plan, Strategy


class ThinkingStopwatch:
    """A strategy, and the time that it takes for its decisions."""

    def __init__(self, strategy: Strategy) -> None:
        self.api = strategy.api
        self.events = 0
        self.spent = 0
        """Nanoseconds of this process."""
        self._strategy = strategy

    def __getattr__(self, name: str) -> Any:
        """Has what the strategy has beside its methods, such as an exchange."""
        return getattr(self._strategy, name)

    def start(self, plan: Plan) -> None:
        self._strategy.start(plan)

    def handle(self, event: Event) -> Iterable[Command]:
        began = time.perf_counter_ns()
        commands = tuple(self._strategy.handle(event))
        self.spent += time.perf_counter_ns() - began
        self.events += 1
        return commands

    @property
    def seconds(self) -> float:
        """An event, on average."""
        return self.spent / self.events / 1e9 if self.events else 0.0
