"""How far ahead a folding kernel fetches, and where: down the rows of what it reads, or along."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from ..ir import Index
from ..parameters import Constraint
from .offered import NONE, SHALLOW, Registers, Serial
from .packed import Layout

_STREAMED = 4096
"""Bytes by which is fetched ahead what comes from memory, where nothing is said: what is laid out
beforehand, and large inputs as they lie. Others are not."""
_ACROSS = 512
"""The same along each of the rows, where a block goes along a few of them before it goes down; half
of that where these are of bf16."""


class Fetched(NamedTuple):
    """The values on which it depends, by their parameters."""

    packed: bool
    coded: bool
    laid: bool
    registers: Registers
    width: int
    panels: int
    serial: Serial
    down: bool
    """Whether it is from further down, where it would be from along the rows."""
    ahead: float | None
    """Times what is usual."""


@dataclass(frozen=True)
class Fetching:
    """Of one kernel on one machine."""

    far: frozenset[str]
    """The inputs down whose rows the main stage goes, and that no cache holds."""
    inner: Index | None
    """The index down their rows."""
    layouts: Collection[Layout]
    """Of what may lie in panels beforehand."""
    laid: Mapping[tuple[bool, bool], Mapping[str, Layout]]
    """What lies in panels at all, by whether some do beforehand, and some in each block."""
    widest: int
    """Bytes of the widest vectors."""
    cut: bool
    """Whether a block has so many panels along its lanes, and not all of them."""

    @property
    def constraints(self) -> Sequence[Constraint]:
        return (
            Constraint(("packed", "laid", "serial"), self._may_be_shallow),
            Constraint(Fetched._fields, lambda *chosen: self._is_said(Fetched(*chosen))),
            Constraint(Fetched._fields, lambda *chosen: self._may_go_down(Fetched(*chosen))),
            Constraint((*Fetched._fields, "nearest"), self._may_come_near),
        )

    def found(self, *chosen: Any) -> tuple[int, bool]:
        """How far, and whether that is along the rows."""
        of = Fetched(*chosen)
        distance = self.distance(of)
        return distance, distance > 0 and self.is_across(of)

    def distance(self, of: Fetched) -> int:
        """In pairs of rows; along these, in blocks of registers, where there are some."""
        if of.registers == NONE:
            return 0
        lies = self._lies(of.packed, of.laid)
        streams = of.packed or lies if of.ahead is None else of.ahead
        found = int(self._usual(of, lies) * streams)
        return min(found, of.panels) if self.cut and self.is_across(of) else found

    def is_across(self, of: Fetched) -> bool:
        """Whether it is from further along the rows."""
        _, _, matrix = of.registers
        lies = self._lies(of.packed, of.laid) and not of.packed
        return lies and self._goes_down(of.serial) and not matrix and not of.down

    def _usual(self, of: Fetched, lies: bool) -> int:
        """Of two rows that lie side by side in pairs.

        What is coded is read from two places, and of fewer bytes: twice as far, and further where
        little is computed in between. From further down as they lie, it is a block's next tile.
        """
        rows, vectors, _ = of.registers
        wide = vectors * (of.width or self.widest)
        if self.is_across(of):
            return max(1, _ACROSS // wide)
        if lies and self._goes_down(of.serial):
            return of.serial[1] // 2
        found = _STREAMED // wide // (1 if any(one.pairs for one in self.layouts) else 2)
        return found * (4 if rows == 1 else 2) if of.coded else found

    def _lies(self, packed: bool, laid: bool) -> bool:
        """Whether large inputs are read as they lie."""
        return bool(self.far - self.laid[packed, laid].keys())

    def _may_be_shallow(self, packed: bool, laid: bool, serial: Serial) -> bool:
        """Whether rows lie apart, where a block takes so few at a time."""
        return serial[1] != SHALLOW or self._lies(packed, laid)

    def _goes_down(self, serial: Serial) -> bool:
        """Whether a block goes tile by tile along what its main stage folds."""
        name, _ = serial
        return self.inner is not None and name == self.inner.name

    def _is_said(self, of: Fetched) -> bool:
        """A distance that is the usual one is not said, and none at all is said once."""
        if of.ahead is None:
            return True
        found, usual = self.distance(of), self.distance(of._replace(ahead=None))
        return found != usual and (found > 0 or of.ahead == 0)

    def _may_go_down(self, of: Fetched) -> bool:
        """Something is fetched, and would else be from along the rows."""
        other = of._replace(down=False)
        return not of.down or (self.is_across(other) and self.distance(of) > 0)

    def _may_come_near(self, *chosen: Any) -> bool:
        """Something is fetched, and from further down: what is along the rows comes near anyhow."""
        *fetched, nearest = chosen
        of = Fetched(*fetched)
        return not nearest or (self.distance(of) > 0 and not self.is_across(of))
