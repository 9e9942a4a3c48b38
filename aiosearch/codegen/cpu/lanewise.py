"""How many sums a folding kernel has at once where lanes lie along what its main stage folds.

Whether they do depends on what lies in panels. The rows and vectors of other sums, and how far
these are unrolled, say nothing then, unless another stage has some.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

from ..ir import Index, Kernel
from ..native.machine import Machine
from ..parameters import Constraint, Parameter
from .offered import NONE, UNROLLED, Lanes, Registers, Rows, Serial, registers_of
from .packed import Layout
from .roles import Roles, natural
from .shape import Shape, usual_chains

_LANES = ((4, 4), (8, 1), (8, 2), (4, 2), (2, 4), (2, 2), (4, 1), (1, 4), (2, 1), (1, 2), (1, 1))
"""Rows and columns of sums, the usual ones first."""
_CHAINS = (1, 2, 4, 8)
"""Of each of these."""


class Lanewise:
    """Of one kernel on one machine."""

    def __init__(
        self,
        kernel: Kernel,
        own: Roles,
        machine: Machine,
        laid: Mapping[tuple[bool, bool], Mapping[str, Layout]],
    ) -> None:
        """By whether inputs lie in panels beforehand, and in each block, which do and how."""
        self._own, self._machine = own, machine
        self._shapes = {
            which: natural(kernel, own.stage, machine, layouts) for which, layouts in laid.items()
        }
        others = [one for one in kernel.stages if one.folded and one != own.stage]
        self._beside = [
            own.shapes[one] for one in others if own.shapes[one].along not in one.folded
        ]

    @cached_property
    def registers(self) -> tuple[Registers, ...]:
        """That the sums may be in, and none where there may be none."""
        counts = {self._counts(*which) for which in self._shapes}
        some = registers_of(self._own, self._machine) if True in counts else ()
        return (*some, *((NONE,) if False in counts else ()))

    @property
    def parameters(self) -> Sequence[Parameter]:
        shapes = [one for which in self._shapes if (one := self._shape(*which))]
        offered = dict.fromkeys(lanes for one in shapes for lanes in self._offered(one)[1:])
        chains = _CHAINS if shapes else ()
        return (
            Parameter("lanes", (None, *offered), fine=True),
            Parameter("chains", (0, *chains), fine=True),
        )

    @cached_property
    def constraints(self) -> Sequence[Constraint]:
        return (
            Constraint(("packed", "laid", "registers"), self._has_registers),
            Constraint(("packed", "laid", "unrolled"), self._is_unrolled),
            Constraint(("packed", "laid", "ahead"), self._may_fetch),
            Constraint(("packed", "laid", "shared"), self._may_share),
            Constraint(("packed", "laid", "lanes"), self._has_lanes),
            Constraint(("packed", "laid", "serial", "width", "lanes", "chains"), self._has_chains),
        )

    def found(self, packed: bool, laid: bool, lanes: Lanes | None) -> Lanes | None:
        """The rows and columns; nothing where lanes lie elsewhere."""
        shape = self._shape(packed, laid)
        return None if shape is None else lanes or self._offered(shape)[0]

    def _shape(self, packed: bool, laid: bool) -> Shape | None:
        """Of the main stage, where its lanes lie along what it folds."""
        found = self._shapes[packed, laid]
        return found if found.along in self._own.stage.folded else None

    def _offered(self, shape: Shape) -> list[Lanes]:
        """As many as there are, and as registers hold."""
        rows, columns = _size(shape.row), _size(shape.column)
        cut = dict.fromkeys((min(high, rows), min(wide, columns)) for high, wide in _LANES)
        return [one for one in cut if self._fit(one, 1)]

    def _fit(self, lanes: Lanes, chains: int) -> bool:
        """Whether registers hold so many sums, and what these are made of."""
        rows, columns = lanes
        return rows * columns * chains + columns + 1 <= self._machine.registers

    def _has_registers(self, packed: bool, laid: bool, registers: Registers) -> bool:
        """No more than there are, and none where none of them counts."""
        if not self._counts(packed, laid) or registers == NONE:
            return self._counts(packed, laid) == (registers != NONE)
        rows, vectors, matrix = registers
        if self._shape(packed, laid) is None:
            main = self._shapes[packed, laid]
            return matrix or rows <= max(_size(one.row) for one in (main, *self._beside))
        wide = max(_size(one.along) for one in self._beside)
        return vectors <= -(-wide // (self._machine.width // 4))

    def _is_unrolled(self, packed: bool, laid: bool, unrolled: int) -> bool:
        return self._counts(packed, laid) or unrolled == UNROLLED[0]

    def _may_fetch(self, packed: bool, laid: bool, ahead: float | None) -> bool:
        """Along the lanes a processor fetches by itself."""
        return ahead is None or self._counts(packed, laid)

    def _may_share(self, packed: bool, laid: bool, shared: Rows) -> bool:
        """Rows lie as these lanes take them."""
        return shared is Rows.AS_THEY_ARE or self._shape(packed, laid) is None

    def _counts(self, packed: bool, laid: bool) -> bool:
        """Whether there are sums whose lanes lie elsewhere."""
        return bool(self._beside) or self._shape(packed, laid) is None

    def _has_lanes(self, packed: bool, laid: bool, lanes: Lanes | None) -> bool:
        """The usual ones are not said."""
        shape = self._shape(packed, laid)
        return lanes is None or (shape is not None and lanes in self._offered(shape)[1:])

    def _has_chains(
        self,
        packed: bool,
        laid: bool,
        serial: Serial,
        width: int,
        lanes: Lanes | None,
        chains: int,
    ) -> bool:
        """Nor is the usual number; others have to fit, and to have something to fold."""
        own, along = self.found(packed, laid, lanes), self._shapes[packed, laid].along
        if not chains:
            return True
        if own is None or along is None or chains == usual_chains(own[0] * own[1]):
            return False
        name, length = serial
        folded = length if name == along.name else along.size
        return self._fit(own, chains) and chains * (width or self._machine.width) // 4 <= folded


def _size(one: Index | None) -> int:
    return 1 if one is None else one.size
