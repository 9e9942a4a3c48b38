"""A thread block: the matrices in its memory, and the operators that may come next."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import TypeAlias

from msgspec import Struct

from . import residues
from .tasks import MirageTask, TaskInput, Tiling

PIECE = 3
"""Bytes of an operator in a program: its number, and two operands, the same one twice if it takes
one."""
MEMORY = 96 * 1024
"""Bytes that a block may use."""
ELEMENT = 2
"""Bytes of an element, which is a half float."""


class Tensor(Struct, frozen=True):
    """A matrix, its sizes as powers of two: `rows=4` are 16 rows."""

    rows: int
    columns: int
    after: bool
    """Whether it is there after the iterations, rather than in each."""
    term: str
    """The abstract term that the matrix computes."""
    residue: int
    """The term modulo a prime, see `residues`."""
    room: int = 0
    """Bytes; none for what is computed in place."""
    rows_of: str = ""
    columns_of: str = ""
    """The dimensions that rows and columns are of; empty where there is but one row, or column."""


def tiles_of(task: MirageTask, tiling: Tiling) -> tuple[tuple[Tensor, ...], int]:
    """What a block of `task` loads in each iteration, and how many iterations there are, as a power
    of two.
    """
    sizes = dict(tiling)
    loop = sizes.pop("loop")
    sizes[task.loop] -= loop
    return tuple(whole(task_input, sizes) for task_input in task.inputs), loop


def whole(task_input: TaskInput, sizes: Mapping[str, int]) -> Tensor:
    """An input as a `Tensor`, by the sizes of dimensions."""
    rows, columns = sizes[task_input.rows], sizes[task_input.columns]
    return Tensor(
        rows,
        columns,
        False,
        task_input.name,
        residues.of_input(task_input.name),
        ELEMENT << rows + columns,
        task_input.rows,
        task_input.columns,
    )


class BlockState:
    """What may be computed of tiles that a block has loaded."""

    def __init__(self, inputs: tuple[Tensor, ...], loop: int) -> None:
        self.inputs = inputs
        self._loop = loop

    @property
    def fits(self) -> bool:
        """Whether its inputs fit into `MEMORY`."""
        return _room(self.inputs) <= MEMORY

    def tensors(self, code: bytes) -> list[Tensor]:
        """The inputs, then the result of every operator in `code`, all computed anew as Mirage does
        it.
        """
        tensors = list(self.inputs)
        for piece in pieces_of(code):
            result = applied(self._loop, piece, tensors)
            assert result is not None
            tensors.append(result)
        return tensors

    def choices(self, code: bytes, ordered: bool) -> Iterator[bytes]:
        """The operators that may come after `code`: legal, and later than the last one or just
        new.
        """
        tensors = self.tensors(code)
        last = rank(code[-PIECE:]) if code else (b"", 0)
        done = set(pieces_of(code))
        for piece in pieces(len(tensors)):
            if rank(piece) > last if ordered else piece not in done:
                result = applied(self._loop, piece, tensors)
                if result is not None and _room(tensors) + result.room <= MEMORY:
                    yield piece


def written(code: bytes, names: Sequence[str], result: str = "t") -> str:
    """Writes `t1 = matmul X W; t2 = gather t1`, by the names of the inputs."""
    value_names, steps = list(names), []
    for number, piece in enumerate(pieces_of(code), 1):
        name, _, _ = OPERATORS[piece[0]]
        words = " ".join(value_names[operand] for operand in operands_of(piece))
        value_names.append(f"{result}{number}")
        steps.append(f"{value_names[-1]} = {name} {words}")
    return "; ".join(steps)


def pieces_of(code: bytes) -> list[bytes]:
    """The operators of a program, each `PIECE` bytes of its code."""
    return [code[at : at + PIECE] for at in range(0, len(code), PIECE)]


def operands_of(piece: bytes) -> bytes:
    """The numbers of what an operator takes."""
    return piece[1 : 1 + OPERATORS[piece[0]][2]]


def _room(tensors: Iterable[Tensor]) -> int:
    return sum(tensor.room for tensor in tensors)


def rank(piece: bytes) -> tuple[bytes, int]:
    """An operator's place in the order: its operands, then which it is."""
    return piece[1 : 1 + OPERATORS[piece[0]][2]], piece[0]


def applied(loop: int, piece: bytes, tensors: Sequence[Tensor]) -> Tensor | None:
    """The result of the operator `piece` of `tensors`; None where the shapes forbid it."""
    _, rule, arity = OPERATORS[piece[0]]
    return rule(loop, *(tensors[operand] for operand in piece[1 : 1 + arity]))


@lru_cache(maxsize=32)
def pieces(tensors: int) -> tuple[bytes, ...]:
    """Every operator over so many matrices, in the order of `rank`."""
    pieces = [
        bytes((number, first, second))
        for number, (_, _, arity) in enumerate(OPERATORS)
        for first in range(tensors)
        for second in (range(tensors) if arity == 2 else (first,))
    ]
    return tuple(sorted(pieces, key=rank))


def _matmul(loop: int, x: Tensor, y: Tensor) -> Tensor | None:
    if x.columns != y.rows or x.after != y.after:
        return None
    term = f"(sum {x.columns} (mul {x.term} {y.term}))"
    value = residues.of("sum", x.columns, residues.of("mul", 0, x.residue, y.residue))
    room = ELEMENT << x.rows + y.columns
    return Tensor(x.rows, y.columns, x.after, term, value, room, x.rows_of, y.columns_of)


def _alone(symbol: str) -> Rule:
    def rule(loop: int, x: Tensor) -> Tensor:
        value = residues.of(symbol, 0, x.residue)
        term = f"({symbol} {x.term})"
        return Tensor(x.rows, x.columns, x.after, term, value, 0, x.rows_of, x.columns_of)

    return rule


def _pair(symbol: str) -> Rule:
    def rule(loop: int, x: Tensor, y: Tensor) -> Tensor | None:
        # A size of 0 is a single row or column, which is repeated.
        alike = (x.rows == y.rows or not x.rows or not y.rows) and (
            x.columns == y.columns or not x.columns or not y.columns
        )
        if not alike or x.after != y.after:
            return None
        rows, columns = max(x.rows, y.rows), max(x.columns, y.columns)
        value = residues.of(symbol, 0, x.residue, y.residue)
        term = f"({symbol} {x.term} {y.term})"
        room = ELEMENT << rows + columns
        rows_of = x.rows_of if x.rows else y.rows_of or x.rows_of
        columns_of = x.columns_of if x.columns else y.columns_of or x.columns_of
        return Tensor(rows, columns, x.after, term, value, room, rows_of, columns_of)

    return rule


def _gathered(symbol: str, rows_of: bool) -> Rule:
    """The rule of an accumulator: over all iterations, and over the columns too where `rows_of`
    says that only rows stay.
    """

    def rule(loop: int, x: Tensor) -> Tensor | None:
        # What is gathered already is no tile of an iteration any more.
        if x.after:
            return None
        size = loop + (x.columns if rows_of else 0)
        columns = 0 if rows_of else x.columns
        value = residues.of(symbol, size, x.residue)
        room = ELEMENT << x.rows if rows_of else 0
        names = x.rows_of, "" if rows_of else x.columns_of
        term = f"({symbol} {size} {x.term})" if size or symbol != "sum" else x.term
        return Tensor(x.rows, columns, True, term, value, room, *names)

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
"""Name, rule and number of operands of each; their numbers are those of Mirage's kinds, in its
order."""
