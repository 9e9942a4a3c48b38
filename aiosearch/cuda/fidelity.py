"""Of each operation of a kernel: is it exact on this machine, approximate, or unsupported.

*Exact* means the bits that a GPU gives, or, where a GPU's own bits depend on how it was compiled (a
product and a sum may be rounded once or twice), one of those it may give. *Approximate* names the
error of our function in units of the last place; a GPU's own functions differ by as much.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from enum import StrEnum

from .compiled import backend
from .errors import UnsupportedConstruct
from .frontend.sources import CudaSource
from .ir.operations import (
    NOWHERE,
    Atomic,
    CallOperation,
    Compute,
    ParallelFunction,
    SourceLocation,
    Warp,
    walk,
)
from .ir.types import ScalarType

_LIBRARY_ERRORS = {
    "exp2": 1.0, "exp10": 2.0, "log2": 1.0, "log10": 2.0, "cbrt": 1.0, "tan": 1.0, "asin": 1.0,
    "acos": 1.0, "atan": 1.0, "atan2": 1.0, "sinh": 2.0, "cosh": 2.0, "asinh": 2.0, "acosh": 2.0,
    "atanh": 2.0, "hypot": 1.0, "lgamma": 5.0, "tgamma": 5.0,
}  # fmt: skip
"""Of the C library's functions, as its manual states them for doubles, rounded up."""
_ROUNDED_TWICE = {"rsqrt": 1.5}


class Fidelity(StrEnum):
    EXACT = "exact"
    APPROXIMATE = "approximate"
    UNSUPPORTED = "unsupported"


@dataclass(frozen=True, slots=True)
class Entry:
    """One kind of operation in a kernel."""

    operation: str
    fidelity: Fidelity
    count: int
    first: SourceLocation
    note: str = ""

    def __str__(self) -> str:
        note = f": {self.note}" if self.note else ""
        return f"{self.first}: {self.operation} ({self.count}) {self.fidelity}{note}"


def report(source: CudaSource, kernel: str) -> tuple[Entry, ...]:
    """What is known of a kernel's operations; one entry where it cannot be translated."""
    try:
        return of_function(source.function(kernel))
    except UnsupportedConstruct as error:
        return (Entry(error.construct, Fidelity.UNSUPPORTED, 1, error.location),)


def of_function(function: ParallelFunction) -> tuple[Entry, ...]:
    """What is known of a translated kernel's operations, by their names."""
    counts: Counter[str] = Counter()
    first: dict[str, SourceLocation] = {}
    meanings: dict[str, tuple[Fidelity, str]] = {}
    for operation in walk(function.body):
        name = _name(operation)
        if not name:
            continue
        counts[name] += 1
        at: SourceLocation = getattr(operation, "at", NOWHERE)
        if at.line and name not in first:
            first[name] = at
        meanings[name] = _meaning(operation)
    return tuple(
        Entry(name, *meanings[name][:1], counts[name], first.get(name, NOWHERE), meanings[name][1])
        for name in sorted(counts)
    )


def _name(operation: object) -> str:
    match operation:
        case Compute(name=name, result=result) if "." not in name:
            return f"{name}.{result.type}"
        case Atomic(name=name, result=result):
            return f"atomic.{name}.{result.type}"
        case Warp(name=name) | CallOperation(name=name):
            return "" if name == "exit" else name
        case _:
            return ""


def _meaning(operation: object) -> tuple[Fidelity, str]:
    match operation:
        case Compute(name=name, result=result):
            return _arithmetic(name, result.type)
        case Atomic(name="add" | "sub", result=result) if result.type.is_float:
            return Fidelity.APPROXIMATE, "sums depend on the order of the threads, as on a GPU"
        case CallOperation(name="clock"):
            return Fidelity.APPROXIMATE, "counts cycles of the processor's clock"
        case CallOperation(name="printf"):
            return Fidelity.EXACT, "in the order in which threads come to it"
        case _:
            return Fidelity.EXACT, ""


def _arithmetic(name: str, type: ScalarType) -> tuple[Fidelity, str]:
    error = backend.function_error(name, type)
    if error is None:
        error = _LIBRARY_ERRORS.get(name, _ROUNDED_TWICE.get(name))
    if error is None:
        return Fidelity.EXACT, ""
    return Fidelity.APPROXIMATE, f"at most {error:g} units in the last place"
