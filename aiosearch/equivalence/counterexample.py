"""Inputs on which two programs differ as functions of real numbers, or one leaves the numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import numpy as np

from ..tensor.floats import Array
from ..tensor.terms import Program
from .distributions import EVERY, draw_inputs
from .float_differences import ExecutedPair
from .floats import plain
from .runnables import ExecutedProgram, not_finite, require_comparable

SMALL = 256
"""Inputs of no more elements than this are kept with a counterexample."""


class CounterexampleKind(StrEnum):
    VALUE = "value"
    """Both are finite and differ by more than rounding explains."""
    DOMAIN = "domain"
    """The candidate is not finite in float64 where the original is."""
    OVERFLOW = "overflow"
    """The candidate is not finite in its own element types where the original is."""
    STRICT = "strict"
    """The original is not finite, and the candidate is something else."""


@dataclass(frozen=True)
class Counterexample:
    """Where two programs differ, and how to draw the inputs that show it again."""

    kind: CounterexampleKind
    seed: int
    distribution: str
    output: int
    index: tuple[int, ...]
    expected: float
    found: float
    inputs: tuple[Array, ...] | None = field(default=None, compare=False, repr=False)
    """The inputs themselves, where they are small."""

    def replay(self, a: Program, b: Program) -> bool:
        """Whether the programs differ at this place once more."""
        pair = ExecutedPair(a, b, draw_inputs(a, self.distribution, self.seed))
        return bool(_places(pair, self.kind)[self.output][self.index])

    def to_dict(self) -> dict[str, Any]:
        found: dict[str, Any] = {
            "kind": self.kind.value,
            "seed": self.seed,
            "distribution": self.distribution,
            "output": self.output,
            "index": list(self.index),
            "expected": plain(self.expected),
            "found": plain(self.found),
        }
        if self.inputs is not None:
            found["inputs"] = [_listed(value) for value in self.inputs]
        return found

    def __str__(self) -> str:
        place = ", ".join(map(str, self.index))
        return (
            f"output {self.output} at [{place}] is {self.expected:.9g} in the original and "
            f"{self.found:.9g} in the candidate, on {self.distribution} inputs of seed {self.seed}"
        )


def find_counterexample(
    a: Program,
    b: Program,
    *,
    seed: int = 0,
    strict: bool = False,
    distributions: Sequence[str] = EVERY,
) -> Counterexample | None:
    """Inputs that tell the candidate `b` from the original `a`, if any distribution has some."""
    require_comparable(a, b)
    kinds = [kind for kind in CounterexampleKind if strict or kind is not CounterexampleKind.STRICT]
    for distribution in (*distributions, *not_finite(ExecutedProgram(a), strict)):
        pair = ExecutedPair(a, b, draw_inputs(a, distribution, seed))
        for kind in kinds:
            for output, places in enumerate(_places(pair, kind)):
                if places.any():
                    return _shown(pair, kind, seed, distribution, output, places)
    return None


def _places(pair: ExecutedPair, kind: CounterexampleKind) -> list[Array]:
    """Where the programs differ in this way, for each output."""
    return {
        CounterexampleKind.VALUE: pair.values_differ,
        CounterexampleKind.DOMAIN: pair.leaves_domain,
        CounterexampleKind.OVERFLOW: pair.overflows,
        CounterexampleKind.STRICT: pair.redefines,
    }[kind]()


def _shown(
    pair: ExecutedPair,
    kind: CounterexampleKind,
    seed: int,
    distribution: str,
    output: int,
    places: Array,
) -> Counterexample:
    values = pair.typed if kind is CounterexampleKind.OVERFLOW else pair.real
    ours, theirs = (side[output].astype(np.float64) for side in values)
    with np.errstate(all="ignore"):
        gap = np.where(places, np.abs(ours - theirs), -1.0)
    gap = np.where(places & np.isnan(gap), np.inf, gap)
    index = tuple(int(one) for one in np.unravel_index(np.argmax(gap), gap.shape))
    small = sum(x.size for x in pair.inputs) <= SMALL
    return Counterexample(
        kind,
        seed,
        distribution,
        output,
        index,
        float(ours[index]),
        float(theirs[index]),
        tuple(pair.inputs) if small else None,
    )


def _listed(value: Array) -> Any:
    """Nested lists that JSON can hold."""
    if value.ndim:
        return [_listed(row) for row in value]
    return bool(value) if value.dtype == np.bool_ else plain(float(value))
