"""Names of the printed text: what the IR calls things, as far as Python takes it."""

from __future__ import annotations

import keyword
import re
from collections.abc import Sequence

from .dialect import ALIAS, HELPERS

STEP = "step"
"""What a loop counts in."""
TAKEN = frozenset({STEP, "jax", "jnp", "lax", "pl", ALIAS, "interpret", "float", *HELPERS})


class Names:
    """Hands out names, none of them twice."""

    def __init__(self, taken: frozenset[str] = TAKEN) -> None:
        self._taken = set(taken)

    def fresh(self, wanted: str) -> str:
        name = re.sub(r"\W", "_", wanted, flags=re.ASCII) or "_"
        if name[0].isdigit():
            name = f"_{name}"
        found, number = name, 1
        while found in self._taken or keyword.iskeyword(found):
            number += 1
            found = f"{name}_{number}"
        self._taken.add(found)
        return found


def tupled(texts: Sequence[str]) -> str:
    """A tuple of these, as text."""
    return f"({texts[0]},)" if len(texts) == 1 else f"({', '.join(texts)})"
