"""A verdict about two programs, as the console script tells it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..errors import AiosearchError
from ..tensor import Program

if TYPE_CHECKING:
    from ..equivalence import Runnable, Verdict

RANKS = ("proved", "tested", "cannot judge", "refuted")


@dataclass(frozen=True)
class Outcome:
    """A verdict and what it rests on, for people and for programs."""

    status: str
    lines: tuple[str, ...]
    """The verdict first."""
    evidence: dict[str, Any]

    @property
    def accepted(self) -> bool:
        return self.status in ("proved", "tested")

    @property
    def rank(self) -> int:
        """Smaller is better."""
        return RANKS.index(self.status)


@dataclass(frozen=True)
class Judge:
    """Compares two programs as the command line asks for it."""

    seed: int
    strict: bool
    floats: bool

    def __call__(self, one: Program, two: Program, floats: bool = True) -> Outcome:
        from ..equivalence import verify

        verdict = verify(
            one, two, seed=self.seed, strict=self.strict, floats=self.floats and floats
        )
        return _outcome(verdict)

    def running(
        self, one: Runnable | Program, two: Runnable | Program, because: str, **facts: Any
    ) -> Outcome:
        """What floats alone say of functions that cannot be compared otherwise."""
        from ..equivalence import verify_functions

        verdict = verify_functions(one, two, because, seed=self.seed, strict=self.strict)
        return _outcome(verdict, **facts)


def _outcome(verdict: Verdict, **facts: Any) -> Outcome:
    return Outcome(verdict.status, tuple(verdict.summary()), verdict.to_dict() | facts)


def not_judged(reason: AiosearchError | str, **facts: Any) -> Outcome:
    """The outcome where something stands in the way."""
    text = str(reason).removeprefix("cannot judge: ")
    lines = ("cannot judge", f"  because {text}")
    return Outcome("cannot judge", lines, {"verdict": "cannot judge", "reason": text, **facts})
