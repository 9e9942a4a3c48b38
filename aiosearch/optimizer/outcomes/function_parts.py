"""`FunctionPart`: a part of a function, its place in the user's code and its share of the time.

Example: a network of twelve equal blocks and a head is cut into two programs. The first has its
lines in `model.py`, occurs 12 times, and took 81 % of the function's time before and 72 % after.

A share is how long a program takes alone, as often as it occurs, over the time of the function as a
whole. XLA fuses across parts, so shares need not add up to all of it; what is outside of every
program has the rest. Where the function as a whole was not timed, shares are of all programs
together.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import TYPE_CHECKING

from msgspec import Struct

from ...tensor.text import write

if TYPE_CHECKING:
    from ..trace.pieces import Body, Piece
    from ..trace.traced import CutFunction

OUTSIDE = "outside"
"""What the part is called that stays with JAX."""


class SourcePlace(Struct, frozen=True, order=True):
    """Lines of one function in one file."""

    file: str
    function: str
    first: int
    last: int

    @property
    def lines(self) -> str:
        """`12` or `12-31`."""
        return str(self.first) if self.first == self.last else f"{self.first}-{self.last}"

    def __str__(self) -> str:
        name = self.file.replace("\\", "/").rpartition("/")[2]
        return f"{name}:{self.lines} ({self.function})"


class FunctionPart(Struct, frozen=True):
    """A program of a function, or all that is outside of every program."""

    name: str
    """The program's name, which is its answer's too; `OUTSIDE` for what stays with JAX."""
    occurrences: int
    """How often a call runs it, as far as that is known: of a loop, as often as it is long."""
    places: tuple[SourcePlace, ...]
    """Where it stands in the user's code; empty where jax does not know."""
    operations: tuple[str, ...] = ()
    """Of what is outside, the primitives of JAX, each once."""
    program: str = ""
    """What it computes, as `aiosearch.tensor.text.write` writes it; empty for what is outside."""


class PartTimes(Struct, frozen=True):
    """How much of a function's time a part takes, each from 0; `None` where it is unknown."""

    before: float | None
    after: float | None


def function_parts(cut: CutFunction) -> tuple[FunctionPart, ...]:
    """The parts of a function that was cut: its programs in order, then what is outside."""
    from ..trace.source_places import source_places  # loads jax, which a reader of reports need not

    pieces = [*_with_runs(cut.body, 1)]
    parts = []
    for subject in dict.fromkeys(piece.subject for piece, _ in pieces):
        if subject is None:
            continue
        same = [(piece, runs) for piece, runs in pieces if piece.subject == subject]
        places = source_places(chain.from_iterable(piece.jaxpr.eqns for piece, _ in same))
        runs, program = sum(runs for _, runs in same), subject.program
        name = program.name
        parts.append(FunctionPart(name, runs, places, program=write(program)))
    # A piece without inputs only makes constants, which XLA does once.
    outside = [
        piece for piece, _ in pieces if piece.program is None and piece.inputs and not piece.bodies
    ]
    equations = [equation for piece in outside for equation in piece.jaxpr.eqns]
    if equations:
        names = _worth_naming(equation.primitive.name for equation in equations)
        parts.append(FunctionPart(OUTSIDE, len(outside), source_places(equations), names))
    return tuple(parts)


def _with_runs(body: Body, runs: int) -> Iterator[tuple[Piece, int]]:
    """Each piece, those in loops and branches among them, and how often a call runs it: of a loop
    whose count nothing tells, and of a branch, once."""
    for piece in body.pieces:
        yield piece, runs
        if piece.bodies:
            length = piece.jaxpr.eqns[0].params.get("length", 1)
            for inner in piece.bodies:
                yield from _with_runs(inner, runs * length)


_MOVES = frozenset(
    {"broadcast_in_dim", "convert_element_type", "copy", "reshape", "slice", "squeeze", "transpose"}
)
"""Primitives that compute nothing: they are named where there is nothing else."""


def _worth_naming(names: Iterable[str]) -> tuple[str, ...]:
    distinct = list(dict.fromkeys(names))
    return tuple(name for name in distinct if name not in _MOVES) or tuple(distinct)
