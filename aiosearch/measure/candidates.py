"""What is compiled and timed: a `Candidate` in JAX source text, and what became of it."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from msgspec import Struct

from .random_inputs import Draw

Array: TypeAlias = Any
"""An array of NumPy or of JAX. This module is loaded without either."""
PyTree: TypeAlias = Any
"""What a function of JAX gives: an array, or containers of arrays."""


class ArrayType(Struct, frozen=True):
    """An element type, by its NumPy name, and a shape."""

    dtype: str
    shape: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.dtype}[{','.join(map(str, self.shape))}]"


@dataclass(frozen=True)
class Candidate:
    """The text of a module and the name of the `function` in it that is meant.

    Nothing but the text travels to the processes that compile and time it.

        Candidate("double", "def f(x):\\n    return 2 * x", "f", (ArrayType("float32", (8,)),))
    """

    name: str
    source: str
    function: str
    inputs: tuple[ArrayType, ...]
    """The types of all arguments, in order."""
    constants: Mapping[int, Array] = field(default_factory=dict, compare=False)
    """Arguments, by position, whose values are known beforehand, such as weights; the others
    are drawn."""
    x64: bool = False
    """Whether jax's 64-bit types are on, `jax_enable_x64`."""
    precision: str | None = None
    """The precision of products that ask for none: jax's `default_matmul_precision`."""
    promotion: str = "standard"
    """How types meet: jax's `numpy_dtype_promotion`."""
    draws: Mapping[int, Draw] = field(default_factory=dict, compare=False)
    """From what some of the other arguments are drawn, by position; the rest is `NORMAL`, or
    small numbers."""


class Stage(enum.StrEnum):
    """What a candidate was at when it failed."""

    COMPILE = "compile"
    RUN = "run"
    RACE = "race"


class Cause(enum.StrEnum):
    """How a candidate failed."""

    RAISED = "raised"
    HUNG = "hung"
    CRASHED = "crashed"
    MEMORY = "memory"


class Failure(Struct, frozen=True):
    """Why a candidate has no result. Only the candidate itself is out."""

    name: str
    stage: Stage
    cause: Cause
    message: str

    def __str__(self) -> str:
        return f"{self.name} {_FAILED[self.cause]} ({self.stage}): {self.message}"


_FAILED = {
    Cause.RAISED: "raised an error",
    Cause.HUNG: "did not end in time",
    Cause.CRASHED: "crashed its process",
    Cause.MEMORY: "ran out of memory",
}


@dataclass(frozen=True, eq=False)
class Compiled:
    """A `Candidate` that can be run by the executor that compiled it."""

    candidate: Candidate
    seconds: float
    """Seconds that compiling took."""
    executable: bytes = field(default=b"", repr=False)
    """The serialized executable; empty where it could not be sent: the device's process
    compiles it again."""
    looped: bytes = field(default=b"", repr=False)
    """The executable of many runs in one call, where the executor times those (`Way.LOOPED`)."""

    @property
    def name(self) -> str:
        return self.candidate.name
