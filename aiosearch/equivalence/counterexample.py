"""Inputs on which two programs differ as functions of real numbers, or one leaves the numbers.

`find_counterexample(a, b)` returns the first place at which a difference is certain: larger than
rounding explains, with seed and distribution, so that `Counterexample.replay` shows it again on
every machine.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np

from ..documents import Document, JsonValue
from ..tensor.floats import Array
from ..tensor.terms import Program
from .float_differences import ExecutedPair
from .floats import OF_CANDIDATE, plain
from .inputs.distributions import EVERY
from .inputs.draws import draw_for
from .inputs.singular import SINGULAR
from .inputs.typical import TYPICAL
from .runnables import ExecutedProgram, not_finite, require_comparable

SMALL = 256
"""Inputs of no more elements than this are stored with a `Counterexample`."""


class CounterexampleKind(StrEnum):
    """In which manner the candidate differs; `find_counterexample` looks in this order."""

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
    """The inputs themselves, where they have at most `SMALL` elements."""

    def replay(self, a: Program, b: Program) -> bool:
        """Whether `a` and `b` differ at this place on inputs drawn again."""
        pair = ExecutedPair(a, b, _drawn(a, b, self.distribution, self.seed))
        return bool(_places(pair, self.kind)[self.output][self.index])

    def to_dict(self) -> Document:
        """The counterexample for JSON, with nested lists for `inputs`."""
        document: Document = {
            "kind": self.kind.value,
            "seed": self.seed,
            "distribution": self.distribution,
            "output": self.output,
            "index": list(self.index),
            "expected": plain(self.expected),
            "found": plain(self.found),
        }
        if self.inputs is not None:
            document["inputs"] = [_listed(value) for value in self.inputs]
        return document

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
    distributions: Sequence[str] = (*EVERY, *TYPICAL),
    until: float | None = None,
) -> Counterexample | None:
    """Inputs that tell candidate `b` from original `a`; None if no distribution has any.

    None is begun any more once the monotonic clock has passed `until`, but for the first.
    """
    require_comparable(a, b)
    kinds = [kind for kind in CounterexampleKind if strict or kind is not CounterexampleKind.STRICT]
    ours, theirs = ExecutedProgram(a), ExecutedProgram(b)
    singular = [
        name for side, name in ((ours, SINGULAR), (theirs, OF_CANDIDATE)) if SINGULAR in side.points
    ]
    names = (*distributions, *singular, *not_finite(ours, strict))
    for at, distribution in enumerate(names):
        if at and until is not None and time.monotonic() > until:
            return None
        pair = ExecutedPair(a, b, _drawn(a, b, distribution, seed))
        for kind in kinds:
            for output, places in enumerate(_places(pair, kind)):
                if places.any():
                    return _worst_place(pair, kind, seed, distribution, output, places)
    return None


def _drawn(a: Program, b: Program, distribution: str, seed: int) -> list[Array]:
    """Inputs of both programs; those `OF_CANDIDATE` are made of the literals of `b`."""
    if distribution == OF_CANDIDATE:
        return draw_for(b, SINGULAR, seed)
    return draw_for(a, distribution, seed)


def _places(pair: ExecutedPair, kind: CounterexampleKind) -> list[Array]:
    """Where the programs differ in the manner of `kind`, for each output."""
    return {
        CounterexampleKind.VALUE: pair.values_differ,
        CounterexampleKind.DOMAIN: pair.leaves_domain,
        CounterexampleKind.OVERFLOW: pair.overflows,
        CounterexampleKind.STRICT: pair.redefines,
    }[kind]()


def _worst_place(
    pair: ExecutedPair,
    kind: CounterexampleKind,
    seed: int,
    distribution: str,
    output: int,
    places: Array,
) -> Counterexample:
    """The counterexample at the place of `output` where the difference is largest."""
    values = pair.typed if kind is CounterexampleKind.OVERFLOW else pair.real
    ours, theirs = (side[output].astype(np.float64) for side in values)
    with np.errstate(all="ignore"):
        gap = np.where(places, np.abs(ours - theirs), -1.0)
    # NaN against a number counts as the largest difference there is.
    gap = np.where(places & np.isnan(gap), np.inf, gap)
    index = tuple(int(coordinate) for coordinate in np.unravel_index(np.argmax(gap), gap.shape))
    # Larger inputs are drawn again from seed and distribution.
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


def _listed(value: Array) -> JsonValue:
    """Nested lists of numbers that JSON can hold."""
    if value.ndim:
        return [_listed(row) for row in value]
    return bool(value) if value.dtype == np.bool_ else plain(float(value))
