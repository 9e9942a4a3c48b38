"""`Composer`: searches the pieces of a program and composes the cheapest fused kernels."""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import islice

from ...devices import Device
from ...tensor import Program, Term
from ...tensor.analysis.cost import moves
from ...tensor.errors import TensorError
from ...tensor.files import to_json
from ..algebra.program_reader import uncast
from ..build.mugraph import BuiltKernels
from ..build.plain_operators import plain
from ..cost.prediction import predict
from ..cost.ranking import LOOKED_AT, Ranking
from ..cost.sizes import Filling
from ..derive.lower_bounds import least_seconds
from ..enumeration.problem import Found, Fusion
from ..progress import ShouldContinue
from ..space import Space
from .partition import PartitionError, Plan, partition, reassembled

MOST_OPERATORS = 8
"""Of a piece."""
ONE = Space(kernels=1, custom_kernels=1)


class Composer:
    """Searches the pieces of a program, each for one kernel, as long as there is time."""

    def __init__(self, device: Device, seconds: float) -> None:
        self._device = device
        self._until = time.monotonic() + seconds
        self._searched: dict[Program, _Piece | None] = {}

    def unfused(self, program: Program, most: int) -> list[Program]:
        """What the kernels compute with which the program should be fastest, as plain operators.

        That is a program of fewer or cheaper operations where there is one; it is yet to be
        verified. There is nothing where no piece of the program can be searched in time.
        """
        plan = self._plan(program)
        if plan is None:
            return []
        ways = [self._plain(piece.program, most) for piece in plan.pieces]
        found = []
        for turn in range(max(map(len, ways), default=0)):
            chosen = [way[min(turn, len(way) - 1)] for way in ways]
            found.append(reassembled(plan, chosen))
        return [one for one in dict.fromkeys(found) if one != program]

    def fused(self, program: Program) -> Program | None:
        """The program with which it should be fastest, of custom kernels; yet to be verified."""
        plan = self._plan(program)
        if plan is None:
            return None
        searched = [self._piece(piece.program) for piece in plan.pieces]
        fused = [None if one is None else one.fused for one in searched]
        if not any(fused):
            return None
        pairs = zip(fused, plan.pieces, strict=True)
        return reassembled(plan, [one or piece.program for one, piece in pairs])

    def _plan(self, program: Program) -> Plan | None:
        searched = uncast(program)
        try:
            return partition(
                searched, self._price, MOST_OPERATORS, least=self._least, searchable=_searchable
            )
        except (PartitionError, TensorError):
            return None

    def _plain(self, piece: Program, most: int) -> list[Program]:
        searched = self._piece(piece)
        found = searched.plain(self._device, most, self._until) if searched else []
        return found or [piece]

    def _least(self, piece: Program) -> float:
        return least_seconds(piece, self._device)

    def _price(self, piece: Program) -> float | None:
        searched = self._piece(piece)
        try:
            seconds = searched.seconds(self._device, self._going) if searched else None
        except _LateError:
            seconds = None
        if seconds is None and sum(map(_counts, piece.terms())) == 1:
            return predict(piece, self._device).seconds
        return seconds

    def _piece(self, piece: Program) -> _Piece | None:
        if piece not in self._searched:
            try:
                self._searched[piece] = _Piece(piece, self._going)
            except (_LateError, TensorError):
                self._searched[piece] = None
        return self._searched[piece]

    def _going(self, told: str) -> bool:
        if time.monotonic() > self._until:
            raise _LateError
        return True


class _LateError(Exception):
    """There is no more time."""


class _Piece:
    """A piece whose kernels were searched."""

    def __init__(self, program: Program, going: ShouldContinue) -> None:
        going("a piece")
        self._problem = Fusion(to_json(program), ONE)
        self._problem.prepare(going)
        children = self._problem.expand(self._problem.root())
        self._found = [one for child in children for one in self._problem.solutions(child)]
        self._best: Filling | None = None

    @property
    def fused(self) -> Program | None:
        """The best kernel as far as one was looked for."""
        return None if self._best is None else self._best.program

    def seconds(self, device: Device, going: ShouldContinue) -> float | None:
        """What the best kernel should take; None where there is none."""
        if self._best is None and self._found:
            ranked = Ranking(self._problem.skeletons, device).best(self._found, 1, going)
            self._best = ranked[0].filling if ranked else None
        return None if self._best is None else self._best.prediction.seconds

    def plain(self, device: Device, most: int, until: float) -> list[Program]:
        """Different things that kernels compute, as plain operators, best predicted first."""
        reference = self._problem.tables.reference
        found: dict[Program, float] = {}
        for built in islice(self._programs(), LOOKED_AT):
            if time.monotonic() > until:
                break
            one = plain(self._problem.builder.build(built, {}), reference)
            if one is not None and one not in found:
                found[one] = predict(one, device).seconds
        return sorted(found, key=lambda one: found[one])[:most]

    def _programs(self) -> Iterator[BuiltKernels]:
        for one in self._found:
            yield from self._of(one)

    def _of(self, found: Found) -> Iterator[BuiltKernels]:
        (kernel,) = found.kernels
        if kernel.step >= 0:
            yield BuiltKernels(found.kernels, (None,))
            return
        for graph in self._problem.skeletons.graphs(kernel):
            yield BuiltKernels(found.kernels, (graph,))


def _searchable(term: Term) -> bool:
    return all(isinstance(size, int) for size in term.shape)


def _counts(term: Term) -> bool:
    return bool(term.arguments) and not moves(term)
