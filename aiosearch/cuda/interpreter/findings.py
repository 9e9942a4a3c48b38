"""What is wrong with a kernel, as the interpreter saw it happen."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from ..ir.operations import NOWHERE, SourceLocation


class FindingKind(StrEnum):
    RACE = "race"
    """Two threads access the same bytes, one of them writes, and nothing orders them."""
    DIVERGENT_BARRIER = "divergent-barrier"
    OUT_OF_BOUNDS = "out-of-bounds"
    UNINITIALIZED = "uninitialized-read"
    MISALIGNED = "misaligned"
    WARP = "warp"
    """A thread takes a value from another one that does not take part."""
    ASSERTION = "assertion"
    ENDLESS = "endless-loop"


@dataclass(frozen=True, slots=True)
class KernelFault:
    """One fault at one line, however often it happened there."""

    kind: FindingKind
    kernel: str
    at: SourceLocation
    message: str
    related: SourceLocation = NOWHERE
    """The other access of a race."""
    count: int = 1

    def __str__(self) -> str:
        times = f" ({self.count} times)" if self.count > 1 else ""
        return f"{self.at}: {self.kind}: {self.message}{times}"


class KernelFaults:
    """Collects faults; those of one kind at one line, or between the same two lines, are one."""

    def __init__(self, kernel: str) -> None:
        self._kernel = kernel
        self._found: dict[tuple[FindingKind, SourceLocation, SourceLocation], KernelFault] = {}

    def add(
        self,
        kind: FindingKind,
        at: SourceLocation,
        message: str,
        second: SourceLocation = NOWHERE,
        count: int = 1,
    ) -> None:
        low, high = sorted((at, second), key=lambda item: (item.file, item.line))
        key = (kind, low, high)
        before = self._found.get(key)
        if before is None:
            self._found[key] = KernelFault(kind, self._kernel, at, message, second, count)
        else:
            total = before.count + count
            self._found[key] = KernelFault(
                kind, self._kernel, before.at, before.message, before.related, total
            )

    def listed(self) -> tuple[KernelFault, ...]:
        """All of them, by file and line."""
        return tuple(
            sorted(self._found.values(), key=lambda item: (item.at.file, item.at.line, item.kind))
        )
