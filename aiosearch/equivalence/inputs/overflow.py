"""Inputs so large that products of them overflow while the original is still finite.

They show which rewrites compute intermediate values larger than any of the original's: `(x·y)/z`
overflows where `x·(y/z)` does not. Inputs are scaled by powers of two, which loses no digit, as far
as the original stays accurate.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from ...tensor.analysis.abstract_interpretation import sizes
from ...tensor.analysis.generalise import generalise
from ...tensor.floats import Array
from ...tensor.terms import Program
from ...tensor.types import DType
from ..rounding.machine import UNIT, rounded
from ..rounding.noise import NoisyArray
from ..runnables import ExecutedProgram
from .distributions import draw_inputs

_BASES = ("normal", "positive")
"""Distributions that are scaled: the first on which the original is accurate."""

_END = {DType.F16: 15, DType.BF16: 127, DType.F32: 127}
"""The largest binary exponent of each type; float64 has no wider type to be checked against."""

_SMALL = 1 << 15
"""A program none of whose values has more elements is examined at its own shape."""

_ROOM = {DType.F16: 4, DType.BF16: 14, DType.F32: 14}
"""Binary exponents left free below overflow where a program is examined at a reduced shape.

Sums at the real shape are longer, and so larger.
"""

_LEAST = 4
"""Inputs are not scaled by lower powers of two: other distributions hold such values."""

_MOST = 1 << 20
"""Programs whose inputs have more elements even at a reduced shape are not examined."""


@dataclass(frozen=True)
class OverflowInputs:
    """How far each input can be raised before the original fails."""

    base: str
    """The distribution that is scaled."""
    powers: tuple[int, ...]
    """The power of two for each input."""

    def inputs(self, program: Program, seed: int) -> list[Array]:
        """Scaled inputs of `program`, whatever its sizes."""
        return _scaled(program, draw_inputs(program, self.base, seed), self.powers)


def overflow_inputs(program: Program, seed: int) -> list[OverflowInputs]:
    """Inputs raised in turn, first to last and last to first, and all alike.

    Empty where none can be raised, or where the original is inaccurate even on usual inputs.
    """
    if not program.inputs:
        return []
    (small,) = generalise([program]).reduced()
    if sum(math.prod(sizes(term)) for term in small.inputs) > _MOST:
        return []
    whole = max(math.prod(sizes(term)) for term in program.terms()) <= _SMALL
    small = program if whole else small
    for base in _BASES:
        inputs = draw_inputs(small, base, seed)
        if _is_accurate(small, inputs):
            places = range(len(inputs))
            raised = [_raised(small, inputs, order) for order in (places, places[::-1])]
            # Raising the first input to the end leaves no room for the next; alike, each has a
            # share.
            raised.append(_raised_alike(small, inputs))
            lowered = [_lowered(small, inputs, powers_of_two, whole) for powers_of_two in raised]
            return [
                OverflowInputs(base, powers)
                for powers in dict.fromkeys(lowered)
                if max(powers) >= _LEAST
            ]
    return []


def _raised(program: Program, inputs: Sequence[Array], order: Sequence[int]) -> list[int]:
    """Raises one input after the other, in `order`, as far as the original allows."""
    powers = [0] * len(inputs)
    types = [term.dtype for term in program.inputs]

    def holds(at: int, power: int) -> bool:
        """Whether the original is accurate with input `at` raised by `power`."""
        tried = [power if place == at else before for place, before in enumerate(powers)]
        return _is_accurate(program, _scaled(program, inputs, tried))

    for at in order:
        if types[at] in _END:
            powers[at] = _largest(_END[types[at]], partial(holds, at))
    return powers


def _raised_alike(program: Program, inputs: Sequence[Array]) -> list[int]:
    """Raises all inputs by one power.

    What multiplies all of them overflows earlier than each alone.
    """
    ends = [_END.get(term.dtype, 0) for term in program.inputs]

    def powers(power: int) -> list[int]:
        return [min(power, end) for end in ends]

    most = _largest(
        max(ends), lambda power: _is_accurate(program, _scaled(program, inputs, powers(power)))
    )
    return powers(most)


def _lowered(
    program: Program, inputs: Sequence[Array], powers: Sequence[int], whole: bool
) -> tuple[int, ...]:
    """Lowers `powers` a little, so that outputs, or at least inputs, have room below overflow."""
    room = max(1 if whole else _ROOM.get(term.dtype, 0) for term in program.inputs)
    side = ExecutedProgram(program)

    def sizes_at(less: int) -> list[float]:
        lower = [max(0, power - less) for power in powers]
        outputs = side.own(_scaled(program, inputs, lower))
        return [float(np.max(np.abs(power.astype(np.float64)), initial=0.0)) for power in outputs]

    largest = sizes_at(0)

    def has_room(less: int) -> bool:
        pairs = zip(sizes_at(less), largest, strict=True)
        return all(small <= large * 2.0**-room for small, large in pairs)

    # By the output where that helps: an input may be large as long as the result is not.
    less = next((power for power in range(1, room) if has_room(power)), room)
    return tuple(max(0, power - less) for power in powers)


def _largest(most: int, holds: Callable[[int], bool]) -> int:
    """The largest number up to `most` at which `holds`, by bisection; it holds at 0."""
    low, high = 0, most + 1
    # If accuracy is not monotone in the power, bisection still ends at a power where it holds.
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


def _scaled(program: Program, inputs: Sequence[Array], powers: Sequence[int]) -> list[Array]:
    """`inputs` times powers of two, in their element types."""
    with np.errstate(over="ignore"):
        return [
            rounded(np.ldexp(x, power), term.dtype) if power else x
            for term, x, power in zip(program.inputs, inputs, powers, strict=True)
        ]


def _is_accurate(program: Program, inputs: Sequence[Array]) -> bool:
    """Whether a program gives finite numbers, those that it should give, and says something.

    Finite alone is not enough: a number divided by an overflown one is 0.
    """
    if not all(np.isfinite(x).all() for x in inputs):
        return False
    side = ExecutedProgram(program)
    types = [type_.dtype for type_ in side.outputs]
    return all(map(_near, side.own(inputs), side.truth(inputs), types))


def _near(output: Array, truth: NoisyArray, dtype: DType) -> bool:
    """Whether `output` is near `truth`, and rounding decides no more than half of it."""
    with np.errstate(all="ignore"):
        off = np.abs(output.astype(np.float64) - truth.value)
        size = np.max(np.abs(truth.value), initial=0.0)
        most = math.sqrt(UNIT.get(dtype, 0.0)) * size
        clear = np.broadcast_to(truth.spread <= most, off.shape)
        return bool(np.all(off <= most) and 2 * np.count_nonzero(clear) >= off.size)
