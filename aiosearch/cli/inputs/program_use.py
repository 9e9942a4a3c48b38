"""What a user says of the inputs of a program: their limits, and arrays to try first."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ...arguments import nearest
from ..output.streams import UsageError
from .fields import split

if TYPE_CHECKING:
    from ...equivalence import Limits
    from ...tensor.floats import Array


@dataclass(frozen=True)
class ProgramUse:
    """Limits and arrays by the names of inputs, or by their places from 0."""

    ranges: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    arrays: Mapping[str, Array] = field(default_factory=dict)

    def limits(self, names: Sequence[str]) -> Limits:
        """The limits of inputs that are called so, by position."""
        from ...equivalence import InputLimits

        return {
            _place("--input", name, names): InputLimits(low, high)
            for name, (low, high) in self.ranges.items()
        }

    def given(self, names: Sequence[str]) -> list[Array] | None:
        """An array for each input, where there are any."""
        if not self.arrays:
            return None
        arrays = {_place("--inputs", name, names): array for name, array in self.arrays.items()}
        lacking = [name for place, name in enumerate(names) if place not in arrays]
        if lacking:
            raise UsageError(f"--inputs lacks {', '.join(lacking)}")
        return [arrays[place] for place in range(len(names))]


UNKNOWN_USE = ProgramUse()


def program_use(ranges: Sequence[str], file: str | None) -> ProgramUse:
    """What `--input labels=0..15` and `--inputs FILE` say."""
    texts = split(ranges, "--input")
    limits = {name: _range(f"{name}={text}", text) for name, text in texts.items()}
    return ProgramUse(limits, {} if file is None else _arrays(file))


def _range(flag: str, text: str) -> tuple[float, float]:
    low, dots, high = text.partition("..")
    try:
        ends = float(low or -math.inf), float(high or math.inf)
    except ValueError:
        ends = math.inf, -math.inf
    if not dots or not ends[0] <= ends[1]:
        raise UsageError(f"--input {flag}: write it as NAME=0..15, NAME=0.. or NAME=..1")
    return ends


def _arrays(file: str) -> dict[str, Array]:
    import numpy as np

    try:
        # Objects would be unpickled, and those of a stranger run
        with np.load(file, allow_pickle=False) as arrays:
            if not hasattr(arrays, "files"):
                raise UsageError(f"{file} holds one array; --inputs takes an .npz, by np.savez")
            return {name: arrays[name] for name in arrays.files}
    except OSError as error:
        raise UsageError(f"cannot read {file}: {error.strerror or error}") from None
    except ValueError as error:
        raise UsageError(f"{file} is no .npz of plain arrays: {error}") from None


def _place(flag: str, name: str, names: Sequence[str]) -> int:
    places = {str(place): place for place in range(len(names))}
    places |= {known: place for place, known in enumerate(names)}
    if name not in places:
        listing = ", ".join(names)
        raise UsageError(f"{flag} {name}: no such input{nearest(name, names)}; there are {listing}")
    return places[name]
