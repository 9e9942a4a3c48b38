"""The machines that came and do not serve, each with a reason for people to read."""

from __future__ import annotations

from ..plain import plain

MOST = 100
"""How many reasons are remembered; later ones replace the earliest."""
EVERY = 0
"""Stands for a session: what a machine is refused for whatever is searched."""


class Refusals:
    """Reasons by machine and session."""

    def __init__(self) -> None:
        self._reasons: dict[tuple[str, int], str] = {}

    def add(self, machine: str, session: int, reason: str) -> bool:
        """Remembers a reason; says whether it is news."""
        news = self._reasons.get((machine, session)) != reason
        self._reasons[machine, session] = reason
        # Dictionaries keep their order of insertion: the oldest goes
        if len(self._reasons) > MOST:
            del self._reasons[next(iter(self._reasons))]
        return news

    def forget(self, machine: str) -> None:
        """Forgets a machine that is gone, or serves now."""
        for key in [key for key in self._reasons if key[0] == machine]:
            del self._reasons[key]

    def of(self, session: int) -> dict[str, str]:
        """Who does not serve a search, and why, as it may be shown."""
        return {
            plain(machine): plain(reason)
            for (machine, of), reason in self._reasons.items()
            if of in (session, EVERY)
        }
