"""A thread block: the matrices in its memory, and the operators that may come next."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import TypeAlias

from msgspec import Struct

from . import residues
from .tiles import Input, Task, Tiling

PIECE = 3
"""Bytes of an operator in a program: its number, and two operands, the same one twice if it takes
one."""
MEMORY = 96 * 1024
"""Bytes that a block may use."""
ELEMENT = 2


class Tensor(Struct, frozen=True):
    """A matrix, its sizes as powers of two."""

    rows: int
    columns: int
    after: bool
    """Whether it is there after the iterations, rather than in each."""
    term: str
    """What it is, as an abstract term."""
    residue: int
    room: int = 0
    """Bytes; none for what is computed in place."""


class Block:
    """One tiling of a task."""

    def __init__(self, task: Task, tiling: Tiling) -> None:
        self.tiling = tiling
        sizes = dict(tiling)
        self.loop = sizes.pop("loop")
        sizes[task.loop] -= self.loop
        self._inputs = tuple(_loaded(one, sizes) for one in task.inputs)
        self._goal = residues.of_term(task.target)
        self._names = task.names

    @property
    def fits(self) -> bool:
        """Whether its inputs fit the memory."""
        return _room(self._inputs) <= MEMORY

    def tensors(self, code: bytes) -> list[Tensor]:
        """The inputs, then every operator's result, all anew as Mirage does it."""
        tensors = list(self._inputs)
        for at in range(0, len(code), PIECE):
            made = self._applied(code[at : at + PIECE], tensors)
            assert made is not None
            tensors.append(made)
        return tensors

    def _applied(self, piece: bytes, tensors: Sequence[Tensor]) -> Tensor | None:
        """The result of an operator; None where the shapes forbid it."""
        _, rule, arity = OPERATORS[piece[0]]
        return rule(self.loop, *(tensors[operand] for operand in piece[1 : 1 + arity]))

    def choices(self, code: bytes, ordered: bool) -> Iterator[bytes]:
        """The operators that may come next: legal, and later than the last one or just new."""
        tensors = self.tensors(code)
        last = _rank(code[-PIECE:]) if code else (b"", 0)
        done = {code[at : at + PIECE] for at in range(0, len(code), PIECE)}
        for piece in _pieces(len(tensors)):
            if _rank(piece) > last if ordered else piece not in done:
                made = self._applied(piece, tensors)
                if made is not None and _room(tensors) + made.room <= MEMORY:
                    yield piece

    def solves(self, code: bytes) -> bool:
        """Whether the newest result is the target, but for a chance of one in 2**60."""
        newest = self.tensors(code)[-1]
        return newest.after and newest.residue == self._goal

    def text(self, code: bytes) -> str:
        """Writes `t1 = matmul X W; t2 = sum t1`."""
        names = [*self._names, *(f"t{number + 1}" for number in range(len(code) // PIECE))]
        steps = []
        for at in range(0, len(code), PIECE):
            name, _, arity = OPERATORS[code[at]]
            operands = " ".join(names[one] for one in code[at + 1 : at + 1 + arity])
            steps.append(f"{names[len(self._names) + at // PIECE]} = {name} {operands}")
        return "; ".join(steps)


def _loaded(one: Input, sizes: dict[str, int]) -> Tensor:
    rows, columns = sizes[one.rows], sizes[one.columns]
    residue = residues.of_input(one.name)
    return Tensor(rows, columns, False, one.name, residue, ELEMENT << rows + columns)


def _room(tensors: Iterable[Tensor]) -> int:
    return sum(tensor.room for tensor in tensors)


def _rank(piece: bytes) -> tuple[bytes, int]:
    """An operator's place in the order: its operands, then which it is."""
    return piece[1 : 1 + OPERATORS[piece[0]][2]], piece[0]


@lru_cache(maxsize=32)
def _pieces(tensors: int) -> tuple[bytes, ...]:
    """Every operator over so many matrices, in the order."""
    pieces = [
        bytes((number, first, second))
        for number, (_, _, arity) in enumerate(OPERATORS)
        for first in range(tensors)
        for second in (range(tensors) if arity == 2 else (first,))
    ]
    return tuple(sorted(pieces, key=_rank))


def _matmul(loop: int, x: Tensor, y: Tensor) -> Tensor | None:
    if x.columns != y.rows or x.after != y.after:
        return None
    term = f"(sum {x.columns} (mul {x.term} {y.term}))"
    value = residues.of("sum", x.columns, residues.of("mul", 0, x.residue, y.residue))
    room = ELEMENT << x.rows + y.columns
    return Tensor(x.rows, y.columns, x.after, term, value, room)


def _alone(symbol: str) -> Rule:
    def rule(loop: int, x: Tensor) -> Tensor:
        value = residues.of(symbol, 0, x.residue)
        return Tensor(x.rows, x.columns, x.after, f"({symbol} {x.term})", value)

    return rule


def _pair(symbol: str) -> Rule:
    def rule(loop: int, x: Tensor, y: Tensor) -> Tensor | None:
        alike = (x.rows == y.rows or not x.rows or not y.rows) and (
            x.columns == y.columns or not x.columns or not y.columns
        )
        if not alike or x.after != y.after:
            return None
        rows, columns = max(x.rows, y.rows), max(x.columns, y.columns)
        value = residues.of(symbol, 0, x.residue, y.residue)
        term = f"({symbol} {x.term} {y.term})"
        return Tensor(rows, columns, x.after, term, value, ELEMENT << rows + columns)

    return rule


def _gathered(symbol: str, rows_of: bool) -> Rule:
    """Over all iterations, and over the columns too where only rows stay."""

    def rule(loop: int, x: Tensor) -> Tensor | None:
        if x.after:
            return None
        size = loop + (x.columns if rows_of else 0)
        columns = 0 if rows_of else x.columns
        value = residues.of(symbol, size, x.residue)
        room = ELEMENT << x.rows if rows_of else 0
        return Tensor(x.rows, columns, True, f"({symbol} {size} {x.term})", value, room)

    return rule


Rule: TypeAlias = Callable[..., Tensor | None]
"""Takes the iterations and the operands."""

OPERATORS: tuple[tuple[str, Rule, int], ...] = (
    ("matmul", _matmul, 2),
    ("exp", _alone("exp"), 1),
    ("silu", _alone("silu"), 1),
    ("add", _pair("add"), 2),
    ("mul", _pair("mul"), 2),
    ("div", _pair("div"), 2),
    ("gather", _gathered("sum", rows_of=False), 1),
    ("gather-sum", _gathered("sum", rows_of=True), 1),
    ("gather-rms", _gathered("rms", rows_of=True), 1),
)
"""Name, rule and operands of each; their numbers are those of Mirage's kinds, in its order."""
