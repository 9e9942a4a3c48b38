"""Inputs so large that products of them overflow while the original is still finite.

They tell which rewrites compute on the way what is larger than all that the original computes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from ..tensor.analysis.generalise import generalise
from ..tensor.floats import Array
from ..tensor.terms import Program
from ..tensor.types import DType
from .abstract_interpretation import sizes
from .distributions import draw_inputs
from .rounding.machine import UNIT, rounded
from .rounding.noise import NoisyArray
from .runnables import ExecutedProgram

_BASES = ("normal", "positive")
"""What is multiplied: the first of these on which the original is right."""

_END = {DType.F16: 15, DType.BF16: 127, DType.F32: 127}
"""The largest powers of two. What rounding does in f64 cannot be told so far out."""

_SMALL = 1 << 15
"""A program none of whose values has more elements is looked at as it is."""

_ROOM = {DType.F16: 4, DType.BF16: 14, DType.F32: 14}
"""How far below the largest that it can be an output, or an input, is kept where a program is
looked at in small, for sums that are longer yet."""

_LEAST = 4
"""By lower powers inputs are not raised: among those of other distributions are such, too."""

_MOST = 1 << 20
"""Programs that have larger inputs even at a reduced shape are not looked at."""


@dataclass(frozen=True)
class OverflowInputs:
    """How far each input can be raised."""

    base: str
    """The distribution that is multiplied."""
    powers: tuple[int, ...]
    """Of two, by which; that loses nothing."""

    def inputs(self, program: Program, seed: int) -> list[Array]:
        """Those of a program, whatever its sizes."""
        return _scaled(program, draw_inputs(program, self.base, seed), self.powers)


def overflow_inputs(program: Program, seed: int) -> list[OverflowInputs]:
    """The first input raised as far as can be, then the next; from the last on; and all alike.

    Nothing where none can be, or where the original is not even right on usual inputs.
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
        if _right(small, inputs):
            places = range(len(inputs))
            raised = [_raised(small, inputs, order) for order in (places, places[::-1])]
            raised.append(_raised_alike(small, inputs))
            found = [_let_down(small, inputs, one, whole) for one in raised]
            return [
                OverflowInputs(base, powers)
                for powers in dict.fromkeys(found)
                if max(powers) >= _LEAST
            ]
    return []


def _raised(program: Program, inputs: Sequence[Array], order: Sequence[int]) -> list[int]:
    """One input after the other is raised as far as the original allows."""
    powers = [0] * len(inputs)
    types = [term.dtype for term in program.inputs]

    def holds(at: int, power: int) -> bool:
        tried = [power if place == at else one for place, one in enumerate(powers)]
        return _right(program, _scaled(program, inputs, tried))

    for at in order:
        if types[at] in _END:
            powers[at] = _largest(_END[types[at]], partial(holds, at))
    return powers


def _raised_alike(program: Program, inputs: Sequence[Array]) -> list[int]:
    """All by one power, as what multiplies all of them overflows by more than one alone can be."""
    ends = [_END.get(term.dtype, 0) for term in program.inputs]

    def powers(power: int) -> list[int]:
        return [min(power, end) for end in ends]

    most = _largest(
        max(ends), lambda power: _right(program, _scaled(program, inputs, powers(power)))
    )
    return powers(most)


def _let_down(
    program: Program, inputs: Sequence[Array], powers: Sequence[int], whole: bool
) -> tuple[int, ...]:
    """A little, so that there is room in what the original gives, or in the inputs at most."""
    room = max(1 if whole else _ROOM.get(term.dtype, 0) for term in program.inputs)
    side = ExecutedProgram(program)

    def sizes_at(less: int) -> list[float]:
        lower = [max(0, one - less) for one in powers]
        found = side.own(_scaled(program, inputs, lower))
        return [float(np.max(np.abs(one.astype(np.float64)), initial=0.0)) for one in found]

    largest = sizes_at(0)

    def has_room(less: int) -> bool:
        pairs = zip(sizes_at(less), largest, strict=True)
        return all(small <= large * 2.0**-room for small, large in pairs)

    less = next((one for one in range(1, room) if has_room(one)), room)
    return tuple(max(0, one - less) for one in powers)


def _largest(most: int, holds: Callable[[int], bool]) -> int:
    """The largest number up to `most` at which something holds that does so at 0."""
    low, high = 0, most + 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


def _scaled(program: Program, inputs: Sequence[Array], powers: Sequence[int]) -> list[Array]:
    with np.errstate(over="ignore"):
        return [
            rounded(np.ldexp(x, power), term.dtype) if power else x
            for term, x, power in zip(program.inputs, inputs, powers, strict=True)
        ]


def _right(program: Program, inputs: Sequence[Array]) -> bool:
    """Whether a program gives finite numbers, those that it should give, and says something.

    What is divided by something that has overflown is finite.
    """
    if not all(np.isfinite(x).all() for x in inputs):
        return False
    side = ExecutedProgram(program)
    types = [type_.dtype for type_ in side.outputs]
    return all(map(_near, side.own(inputs), side.truth(inputs), types))


def _near(found: Array, wanted: NoisyArray, dtype: DType) -> bool:
    """Whether all is near what it should be, and rounding decides no more than half of it."""
    with np.errstate(all="ignore"):
        off = np.abs(found.astype(np.float64) - wanted.value)
        size = np.max(np.abs(wanted.value), initial=0.0)
        most = math.sqrt(UNIT.get(dtype, 0.0)) * size
        clear = np.broadcast_to(wanted.spread <= most, off.shape)
        return bool(np.all(off <= most) and 2 * np.count_nonzero(clear) >= off.size)
