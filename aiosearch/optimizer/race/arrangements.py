"""Arrangements: which of the parts that are faster alone stand in the function, and which set of
them is worth a trial next.

Problem: five parts gain four times alone, and the function with all of them gains nothing. What a
part gains alone says little of its place: XLA fused it with its neighbours there, so that a kernel
adds a launch and the traffic of its borders; and some of it ran beside other work. With n parts
there are 2^n arrangements, each a compilation and a race, so that some ten can be tried.

Method: the seconds that an arrangement saves are the sum of what its parts save, each an unknown
with a normal prior: what it saved alone in all its occurrences, less launches and borders, with a
deviation as large as that. Every arrangement that is timed is an observation of such a sum, and
`learn` is the update of a Kalman filter. `proposed` gives the sets next to the best one, with a
part more or less, and the one that the means name, as far as they may still beat it: by two
deviations.

Example: priors of 40 and 30 us for a and b, each with a deviation as large. Both together save
nothing: the means fall to -5 and 5 us, with deviations of 24 us, so that either alone may still
save something. b is tried first and saves 10 us, by which a is known to cost 10 us: b alone stays.

Invariants: no set is proposed twice; the empty set, which is the function as written, never. Cost:
n^2 for each observation.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from ...capture.jax_types import aval
from ..outcomes.answer import Answer
from ..trace.pieces import Body, Piece, Subject
from ..trace.traced import CutFunction

Parts: TypeAlias = frozenset[int]
"""Parts by their numbers."""

LAUNCH_SECONDS = 2e-6
"""Seconds to begin a kernel, and to hand it its arrays: what a fused region does not pay."""
BORDER_SECONDS_PER_BYTE = 1e-10
"""Seconds to write a byte that one piece gives another and to read it again, where XLA would have
kept it in a register: that of `algebra.cost`."""
DEVIATIONS = 2.0
"""How many deviations above its mean a saving is thinkable."""


@dataclass(frozen=True)
class Occurrences:
    """How often a program runs in a call of a function, and what it takes from other pieces."""

    runs: float = 0.0
    """Runs of all its regions; one in a `scan` counts for each turn."""
    border_bytes: float = 0.0
    """Bytes that other pieces give to it in a call, and it gives to them."""


def occurrences(cut: CutFunction) -> dict[Subject, Occurrences]:
    """The `Occurrences` of each program in a function."""
    counts: dict[Subject, Occurrences] = {}
    _count(cut.body, 1.0, counts)
    return counts


def _count(body: Body, runs: float, counts: dict[Subject, Occurrences]) -> None:
    produced = {var for piece in body.pieces for var in piece.outputs}
    consumed = {var for piece in body.pieces for var in piece.inputs}
    for piece in body.pieces:
        if piece.subject is not None:
            shared = [*produced.intersection(piece.inputs), *consumed.intersection(piece.outputs)]
            size = sum(aval(var).size * aval(var).dtype.itemsize for var in shared)
            before = counts.get(piece.subject, Occurrences())
            counts[piece.subject] = Occurrences(
                before.runs + runs, before.border_bytes + runs * size
            )
        for inner in piece.bodies:
            _count(inner, runs * _turns(piece), counts)


def _turns(piece: Piece) -> int:
    """How often a loop runs; once where only its arguments tell."""
    return int(piece.jaxpr.eqns[0].params.get("length", 1))


@dataclass(frozen=True)
class PredictedSaving:
    """The seconds that an answer should save of a call of the function, before any trial."""

    mean: float
    deviation: float


def predicted_saving(answer: Answer, occurs: Occurrences) -> PredictedSaving:
    """What an answer saves by what it saved alone, less what its place costs it."""
    alone = occurs.runs * (answer.timings.original - answer.timings.answer)
    # XLA fuses plain JAX with its neighbours as it does the original.
    fused = not answer.has_kernels
    place = 0.0 if fused else occurs.runs * LAUNCH_SECONDS
    place += 0.0 if fused else occurs.border_bytes * BORDER_SECONDS_PER_BYTE
    return PredictedSaving(alone - place, abs(alone) + place)


class ArrangementModel:
    """What is known of the saving of each part, and what was tried."""

    def __init__(self, priors: Sequence[PredictedSaving]) -> None:
        self._mean = np.array([prior.mean for prior in priors])
        self._covariance = np.diag([prior.deviation**2 for prior in priors])
        self._tried: set[Parts] = {frozenset()}

    @property
    def all_parts(self) -> Parts:
        return frozenset(range(len(self._mean)))

    @property
    def order(self) -> list[int]:
        """The parts, those that should save most first."""
        return sorted(self.all_parts, key=lambda part: -float(self._mean[part]))

    def saving(self, parts: Parts) -> float:
        """The seconds that an arrangement should save."""
        return float(self._chosen(parts) @ self._mean)

    def thinkable_saving(self, parts: Parts) -> float:
        """The seconds that it may save at most, by `DEVIATIONS`."""
        chosen = self._chosen(parts)
        variance = max(float(chosen @ self._covariance @ chosen), 0.0)
        return self.saving(parts) + DEVIATIONS * math.sqrt(variance)

    def learn(self, parts: Parts, saved: float, deviation: float) -> None:
        """Takes in that an arrangement was timed, and saved so many seconds."""
        self._tried.add(parts)
        chosen = self._chosen(parts)
        reach = self._covariance @ chosen
        # Never exact: a second race of the same would differ.
        variance = float(chosen @ reach) + max(deviation, 1e-9) ** 2
        gain = reach / variance
        self._mean = self._mean + gain * (saved - self.saving(parts))
        self._covariance = self._covariance - np.outer(gain, reach)

    def proposed(self, best: Parts, saved: float, most: int) -> list[Parts]:
        """The sets to try next, where `best` saved so many seconds: the most promising first."""
        likely = frozenset(part for part in self.all_parts if self._mean[part] > 0)
        near = [best ^ {part} for part in self.order]
        new = [parts for parts in dict.fromkeys([likely, *near]) if parts not in self._tried]
        worth = [parts for parts in new if self.thinkable_saving(parts) > saved]
        return sorted(worth, key=lambda parts: -self.saving(parts))[:most]

    def begun(self, parts: Parts) -> None:
        """Takes in that an arrangement is tried, whatever comes of it."""
        self._tried.add(parts)

    def _chosen(self, parts: Parts) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        chosen = np.zeros(len(self._mean))
        chosen[[*parts]] = 1.0
        return chosen


def arrangement_name(parts: Parts, names: Sequence[str]) -> str:
    """What an arrangement is called: `only f, 0`, `all but g, 1` or `f, 0 and h, 2`."""
    left = [name for part, name in enumerate(names) if part not in parts]
    chosen = [name for part, name in enumerate(names) if part in parts]
    if not left:
        return "all that are faster"
    if len(chosen) == 1:
        return f"only {chosen[0]}"
    if len(left) < len(chosen):
        return f"all but {_listed(left)}"
    return _listed(chosen)


def _listed(names: Collection[str]) -> str:
    *leading, last = names
    return f"{', '.join(leading)} and {last}" if leading else last


def by_share(cut: CutFunction, costs: Mapping[Subject, float]) -> list[Subject]:
    """The programs of a function by what they should take of its time, the most first: what is
    faster there counts most in the whole. `costs` has what each takes alone."""
    counts = occurrences(cut)
    return sorted(cut.subjects, key=lambda subject: -counts[subject].runs * costs[subject])
