"""All arms in turns: each round runs every arm once, in an order that is drawn."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from random import Random

from ..engine.run.search_settings import OnUnknown
from ..errors import AiosearchError, ProblemError
from ..problem import AnyProblem
from .arms import Arm
from .trial import TrialOutcome, run_once


class ArmContest:
    """Runs arms with `run_once`, and keeps what they came to; what is there is whole at any
    time."""

    def __init__(
        self,
        problem: AnyProblem,
        arms: Sequence[Arm],
        repeat: int,
        seconds: float | None = None,
        seed: int = 0,
        begins: Callable[[Arm], None] = lambda arm: None,
        ended: Callable[[TrialOutcome], None] = lambda outcome: None,
        on_unknown: OnUnknown = "defer",
    ) -> None:
        self.arms = tuple(arms)
        self.outcomes: list[TrialOutcome] = []
        self.failures: dict[Arm, str] = {}
        """Arms that could not be run, and why; an `Arm` of these is not tried again."""
        self._problem = problem
        self._repeat = repeat
        self._seconds = seconds
        self._seed = seed
        self._on_unknown = on_unknown
        self._begins, self._ended = begins, ended
        self._done = 0
        self._started = time.monotonic()

    async def run(self) -> None:
        """Runs all rounds; raises `ProblemError` where it is the problem that fails."""
        for round in range(self._repeat):
            arms = list(self.arms)
            # Drawn anew in every round, as in `run_race`: no arm always runs after the same
            # neighbour
            Random(f"{self._seed} {round}").shuffle(arms)
            for arm in arms:
                if arm not in self.failures:
                    self._begins(arm)
                    await self._run(arm, round)
                self._done += 1

    async def _run(self, arm: Arm, round: int) -> None:
        try:
            outcome = await run_once(self._problem, arm, round, self._seconds, self._on_unknown)
        except ProblemError:
            raise
        # A strategy that cannot run here is a row that says so, not the end of the contest
        except AiosearchError as error:
            self.failures[arm] = str(error)
        else:
            self.outcomes.append(outcome)
            self._ended(outcome)

    @property
    def progress(self) -> tuple[int, int]:
        """Runs that are done, and runs in all."""
        return self._done, len(self.arms) * self._repeat

    @property
    def remaining(self) -> float | None:
        """Seconds to go, if what is left takes as long as what is done; None before that."""
        done, all = self.progress
        if not done:
            return None
        return (time.monotonic() - self._started) * (all - done) / done
