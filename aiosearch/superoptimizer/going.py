"""How work that may take long tells what it is at, and hears whether to go on."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

Going: TypeAlias = Callable[[str], bool]
"""Is told what is being done, from any thread; says False where what there is will do. What it
raises breaks the work off."""


def always(text: str) -> bool:
    return True
