"""How work that may take long tells what it is at, and hears whether to go on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

Going: TypeAlias = Callable[[str], bool]
"""Is told what is being done, from any thread; says False where what there is will do. What it
raises breaks the work off."""


def always(text: str) -> bool:
    return True


@dataclass
class Noting:
    """Says what `going` says, and notes what was not done because of it."""

    going: Going
    undone: list[str] = field(default_factory=list)
    """What was about to be done; what is of its kind and comes after it was not done either."""

    def __call__(self, text: str) -> bool:
        if self.going(text):
            return True
        self.undone.append(text)
        return False
