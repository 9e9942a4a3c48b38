"""`ProofWork`: how many steps a proof may take, and until when.

Steps are counted, so that what is proved does not depend on how busy the machine is; the time is an
outer limit. `with limited(ProofWork(1000)):` ends with `TooLarge` at the thousandth `spend` within.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from .indices import Unprovable

STEPS = 2_000_000
"""The steps of a proof where nothing else is said: some ten seconds."""
_LOOKS = 512
"""Steps between two looks at the clock."""


class TooLarge(Unprovable):
    """The steps or the time of a proof are over."""


@dataclass
class ProofWork:
    """Steps that are left, of which an attempt may have a `part`."""

    steps: int = STEPS
    until: float = float("inf")
    """When the time is over, by `time.monotonic`."""
    spent: int = 0
    _looked: int = 0

    def spend(self, steps: int) -> None:
        """Counts steps; raises `TooLarge` where there are no more."""
        self.spent += steps
        if self.spent > self.steps:
            raise TooLarge(f"it takes more than {self.steps:,} steps")
        if self.spent - self._looked >= _LOOKS:
            self._looked = self.spent
            if time.monotonic() > self.until:
                raise TooLarge("the time for proofs is over")

    @property
    def left(self) -> int:
        """The steps that are left."""
        return max(0, self.steps - self.spent)

    @contextmanager
    def part(self, steps: int) -> Iterator[ProofWork]:
        """Within, `spend` counts here, up to so many of the steps that are left."""
        part = ProofWork(min(steps, self.left), self.until)
        try:
            with limited(part):
                yield part
        finally:
            self.spent += part.spent


# Per context, as `rules.recorded` is: proofs in threads or tasks do not spend one another's work.
_current: ContextVar[ProofWork | None] = ContextVar("current", default=None)


def spend(steps: int = 1) -> None:
    """Counts steps of the `limited` block that this is in, if it is in one."""
    work = _current.get()
    if work is not None:
        work.spend(steps)


@contextmanager
def limited(work: ProofWork) -> Iterator[ProofWork]:
    """Within, `spend` counts for `work` alone."""
    token = _current.set(work)
    try:
        yield work
    finally:
        _current.reset(token)
