"""Larger programs as pieces that can each be searched, chosen so that all together cost least.

A piece is what one kernel could do: operators that are connected, and that no way leaves and enters
again. What moves elements from piece to piece costs nothing, as in `tensor.cost`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..tensor import Program, Term
from ..tensor.rebuild import replaced
from .cheapest import PartitionError, Prices, cheapest
from .convex import MOST_INPUTS, MOST_OUTPUTS, convex_sets, within
from .dependencies import dependencies
from .pieces import Piece, Pieces
from .schedules import part, schedules

MOST_EACH = 50
"""Pieces of one size that begin with one operator."""
MOST_STAGES = 20_000
"""Sets of operators that may be done at some time; as many for each count of operators."""


@dataclass(frozen=True)
class Plan:
    """A program as pieces, in an order in which they can run."""

    program: Program
    pieces: tuple[Piece, ...]
    total: float
    exact: bool
    """Whether nothing was left out that may be cheaper."""


def partition(
    program: Program,
    price: Callable[[Program], float | None],
    most_operators: int,
    *,
    least: Callable[[Program], float] = lambda piece: 0.0,
    searchable: Callable[[Term], bool] = lambda term: True,
    most_inputs: int = MOST_INPUTS,
    most_outputs: int = MOST_OUTPUTS,
) -> Plan:
    """The cheapest of `convex` pieces that together are the program; raises PartitionError.

    `price` gives what a piece costs, or None where it cannot be had. It is asked once of each
    distinct piece, and only of those that may be part of the cheapest choice: `least` says what a
    piece costs at least.

    The answer is exact while at most MOST_EACH pieces of one size begin with one operator, and
    there are no more sets of as many operators that may be done at some time than there is room
    for in MOST_STAGES. Of more than that, those stay that move the fewest bytes.
    """
    graph = dependencies(program, searchable)
    pieces = Pieces(graph)
    sets, whole = convex_sets(graph, most_operators, MOST_EACH)
    cuts = list(within(pieces, sets, most_inputs, most_outputs))
    parts = [part(graph, members, float(cut.traffic)) for members, cut in cuts]
    ways = schedules(parts, len(graph.results), MOST_STAGES)
    found = [pieces.piece(cut) for _, cut in cuts]
    prices = Prices([piece.program for piece in found], price, least)
    total, chosen = cheapest(ways, prices)
    return Plan(program, tuple(found[number] for number in chosen), total, whole and ways.complete)


def reassembled(plan: Plan, replacements: Sequence[Program]) -> Program:
    """The program, with one in the place of each piece that takes and gives the same.

    Raises PartitionError where one takes or gives something else.
    """
    built: dict[Term, Term] = {}
    for piece, own in zip(plan.pieces, replacements, strict=True):
        _check(piece.program, own)
        inputs = replaced(piece.inputs, built)
        outputs = replaced(own.outputs, dict(zip(own.inputs, inputs, strict=True)))
        built.update(zip(piece.outputs, outputs, strict=True))
    return Program(plan.program.name, plan.program.inputs, replaced(plan.program.outputs, built))


def _check(piece: Program, own: Program) -> None:
    for what, wanted, given in (
        ("takes", piece.inputs, own.inputs),
        ("gives", piece.outputs, own.outputs),
    ):
        if [term.type for term in wanted] != [term.type for term in given]:
            raise PartitionError(
                f"{own.name} {what} {_listed(given)}, and its piece {_listed(wanted)}"
            )


def _listed(terms: Sequence[Term]) -> str:
    return ", ".join(str(term.type) for term in terms)
