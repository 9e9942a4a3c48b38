"""Loads of several turns of a loop at once, where lanes read rows of a matrix.

Such lanes read a column in each turn of a loop along the rows:

    for (k..n) sum += a[lane * n + k]        a0[k] a1[k] a2[k] a3[k] for k, k + 1, k + 2, k + 3

Processors gather that from memory number by number. So a *strip* of several turns is read at once,
of each lane's row as many neighbours as there are turns, and that square is transposed in
registers, by exchanging the quarters that are off its diagonal, then theirs, and so on: 24 shuffles
for 8 lanes and 8 turns. What is read that way is read by the loop in any case.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from ..ir.operations import (
    Address,
    Compute,
    ConstantOperand,
    For,
    IrValue,
    Load,
    Operand,
    Operation,
    ParallelFunction,
    results,
)
from ..ir.types import ScalarType
from . import backend
from .accesses import Accesses, Lanes
from .llvm_text import TYPES, vector
from .shapes import Grouping, Shape

_TRANSPOSED = (ScalarType.F32, ScalarType.F64)
_MOST_TURNS = 8


class Strips(Accesses):
    """Accesses of lanes, of which loads in a strip give several turns."""

    def __init__(self, function: ParallelFunction, grouping: Grouping, contract: bool) -> None:
        super().__init__(function, grouping, contract)
        self._strips: dict[IrValue, list[Lanes]] = {}
        """Of the loads that are done for several turns of a loop, what they give in each."""
        self._turns, self._turn = 1, 0
        """How many turns of a loop go at once, and which of them is being printed."""

    def _load(self, operation: Load) -> Lanes:
        if operation.result not in self._strips:
            return super()._load(operation)
        if not self._turn:
            self._strips[operation.result] = self._transposed(operation)
        return self._strips[operation.result][self._turn]

    def _strided(self, operation: For) -> list[Load]:
        """Each `Load` of a loop in which every lane reads neighbours, turn after turn."""
        body = operation.body.operations
        if self._mask is not None or not self._inside or operation.step != 1:
            return []
        # What is read early has to be what is there later, and is read in any case.
        if not all(isinstance(item, Compute | Load) for item in body):
            return []
        lines = {result: item for item in body for result in results(item)}
        collected = []
        for load in body:
            if not isinstance(load, Load) or load.result.type not in _TRANSPOSED:
                continue
            base, index = (self._shapes[item].stride for item in _places(load.address))
            first, second = (
                _slope(item, operation.counter, operation.carried, lines)
                for item in _places(load.address)
            )
            if base is None or index is None or first is None or second is None:
                continue
            scale, size = load.address.scale, load.result.type.size
            if base + index * scale not in (0, size) and first + second * scale == size:
                collected.append(load)
        widths = [strip_length(load.result.type) for load in collected]
        return [] if any(self._lanes % item for item in widths) else collected

    def _transposed(self, operation: Load) -> list[Lanes]:
        """What a `Load` gives in each turn of a strip."""
        text, type, turns = self._text, operation.result.type, self._turns
        pointer, stride = self._pointer(operation.address)
        assert stride is not None
        kind = vector(TYPES[type], turns)
        by_row: list[list[str]] = []
        for row in range(self._rows if pointer.shape.rows else 1):
            squares: list[list[str]] = []
            for begin in range(0, self._lanes, turns):
                lines = []
                for lane in range(begin, begin + turns):
                    first = self._first(pointer, row)
                    place = text.line(f"getelementptr i8, ptr {first}, i64 {lane * stride}")
                    lines.append(text.line(f"load {kind}, ptr {place}, align {type.size}"))
                squares.append(self._exchanged_squares(lines, kind))
            by_row.append([self._side_by_side(parts, type) for parts in zip(*squares, strict=True)])
        shape = Shape(None, pointer.shape.rows)
        return [Lanes(shape, parts, type) for parts in zip(*by_row, strict=True)]

    def _exchanged_squares(self, lines: list[str], kind: str) -> list[str]:
        """The columns of a square, as vectors, from its rows."""
        text, size = self._text, len(lines)
        apart = 1
        while apart < size:
            # Where the bit of `apart` is set in the column and not in the row, or the other way
            # round, two elements change places: those of rows and columns that differ in it.
            low = [item if not item & apart else size + item - apart for item in range(size)]
            high = [item + apart if not item & apart else size + item for item in range(size)]
            after = list(lines)
            for line in range(size):
                if line & apart:
                    continue
                pair = f"{kind} {lines[line]}, {kind} {lines[line + apart]}"
                for target, order in ((line, low), (line + apart, high)):
                    after[target] = text.line(f"shufflevector {pair}, {_order(order)}")
            lines, apart = after, 2 * apart
        return lines

    def _side_by_side(self, parts: Sequence[str], type: ScalarType) -> str:
        """Vectors as a longer one."""
        width = self._lanes // len(parts)
        while len(parts) > 1:
            kind, order = vector(TYPES[type], width), _order(range(2 * width))
            parts = [
                self._text.line(f"shufflevector {kind} {left}, {kind} {right}, {order}")
                for left, right in zip(parts[::2], parts[1::2], strict=True)
            ]
            width *= 2
        return parts[0]


def strip_length(type: ScalarType) -> int:
    """How many turns a strip has: neighbours in a vector register."""
    return min(_MOST_TURNS, backend.host().width // type.size)


def _places(address: Address) -> tuple[Operand, Operand]:
    return address.base, address.index


def _order(numbers: Sequence[int]) -> str:
    return f"<{len(numbers)} x i32> <{', '.join(f'i32 {item}' for item in numbers)}>"


def _slope(
    operand: Operand,
    counter: IrValue,
    carried: Collection[IrValue],
    lines: Mapping[IrValue, Operation],
) -> int | None:
    """How much an operand grows with a loop's `counter`, if it is a whole number or a pointer."""
    if operand == counter:
        return 1
    if operand in carried:
        return None
    line = lines.get(operand) if isinstance(operand, IrValue) else None
    if line is None:
        return 0
    if not isinstance(line, Compute):
        return None
    slopes = [_slope(item, counter, carried, lines) for item in line.operands]
    known = [item for item in slopes if item is not None]
    type = line.result.type
    if len(known) < len(slopes) or not any(known):
        return None if len(known) < len(slopes) else 0
    # Unsigned numbers may wrap on the way, which for signed ones C rules out.
    if not ((type.is_integer and (type.is_signed or type.size == 8)) or type is ScalarType.PTR):
        return None
    match line.name:
        case "add" | "ptradd":
            return known[0] + known[1]
        case "sub":
            return known[0] - known[1]
        case "mul":
            for left, right in ((0, 1), (1, 0)):
                factor = line.operands[right]
                if isinstance(factor, ConstantOperand):
                    return known[left] * int(factor.value)
        case "cast":
            source = line.operands[0].type
            if source.is_integer and (source.is_signed or source.size == 8):
                return known[0] if type.size >= source.size else None
    return None
