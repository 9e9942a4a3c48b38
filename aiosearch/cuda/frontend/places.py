"""Where a C object is while a function is translated: in values, or in memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from ..ir.operations import Address, Operand
from .cursors import ClangType

Leaves: TypeAlias = tuple[Operand, ...]
"""The scalars of a C value in the order of their addresses: three for a `float3`."""


@dataclass(frozen=True, slots=True)
class Held:
    """A part of a variable whose address nobody takes; its value is in the environment."""

    key: int
    start: int
    type: ClangType
    """Of clang's."""


@dataclass(frozen=True, slots=True)
class Stored:
    """An object in memory."""

    address: Address
    type: ClangType


Place: TypeAlias = Held | Stored
