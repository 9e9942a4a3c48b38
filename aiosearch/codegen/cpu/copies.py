"""A stage that does nothing but copy an input's tile into panels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from ..ir import Index, Load, Stage, alone
from .access import Access
from .arithmetic import Arithmetic
from .packed import Packed
from .ranges import Range
from .values import Value


@dataclass(frozen=True)
class Copy:
    stage: Stage
    ranges: Mapping[Index, Range]
    lanes: int
    access: Access
    arithmetic: Arithmetic

    @cached_property
    def target(self) -> Packed:
        found = self.access.storages[self.stage.target]
        assert isinstance(found, Packed), "it is of panels"
        return found

    @cached_property
    def read(self) -> Load:
        assert isinstance(self.stage.value, Load), "it is a copy"
        return self.stage.value

    @property
    def widens(self) -> bool:
        """Whether what it reads are halves, and it writes f32."""
        return self.read.buffer.dtype is not self.stage.target.dtype

    def written(self, stored: Value) -> Value:
        """Of what was read, what is written."""
        return self.arithmetic.widened(stored, self.read.buffer.dtype) if self.widens else stored

    @cached_property
    def made(self) -> Load:
        """What was read, as readers find it in the panels."""
        return Load(self.stage.target, self.stage.at)

    @cached_property
    def row(self) -> Index:
        return self._index(self.target.layout.row)

    @cached_property
    def column(self) -> Index:
        return self._index(self.target.layout.column)

    def _index(self, axis: int) -> Index:
        found = alone(self.stage.at[axis])
        assert found is not None
        return found
