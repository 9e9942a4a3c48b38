"""`Composer`: searches the pieces of a program and composes the cheapest fused kernels.

Problem: the space of a program with dozens of operators is too large to be searched whole.
`partition` cuts it into pieces of at most `MOST_OPERATORS` operators; each piece is searched for
one kernel, and the cheapest choice of pieces that together are the program is put together again.

Worked example: `Composer(device("A100"), seconds=10).fused(program)` is the program with custom
kernels in place of the pieces that have one, or None where no piece has. What comes back is still
to be verified.

Invariant: a piece is searched once, however many partitions contain it; equal pieces share one
search. When the time is over, pieces that were not searched have no price, and the partition does
without them.

Cost: one derivation graph per distinct piece, which is what takes the time. The stages of the
partition are limited by the seconds (`STAGES_PER_SECOND`), so that they leave most of the time to
the pieces; a plan is made once for each program.

See docs/why/superoptimizer.md.
"""

from __future__ import annotations

import math
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
from .partition import MOST_STAGES, PartitionError, Plan, partition, reassembled

MOST_OPERATORS = 8
"""The most operators of a piece."""
STAGES_PER_SECOND = 4_000
"""Stages of a partition for each second that a composer has: some tenths of that second."""
ONE = Space(kernels=1, custom_kernels=1)
"""The space of a piece: one kernel, made for it."""


class Composer:
    """Searches the pieces of a program on a `device`, each for one kernel, for so many seconds."""

    def __init__(self, device: Device, seconds: float) -> None:
        self._device = device
        self._deadline = time.monotonic() + seconds
        self._most_stages = min(MOST_STAGES, math.ceil(seconds * STAGES_PER_SECOND))
        self._plans: dict[Program, Plan | None] = {}
        self._searched: dict[Program, _Piece | None] = {}

    def unfused(self, program: Program, most: int) -> list[Program]:
        """What the kernels compute with which the program should be fastest, as plain operators.

        Those are at most `most` programs of fewer or cheaper operations, which are yet to be
        verified. The list is empty where no piece of the program can be searched in time.
        """
        plan = self._plan(program)
        if plan is None:
            return []
        choices = [self._plain(piece.program, most) for piece in plan.pieces]
        programs = []
        # The first program takes the best of every piece, the second the second best, and so on:
        # trying all combinations would verify exponentially many.
        for rank in range(max(map(len, choices), default=0)):
            chosen = [ranked[min(rank, len(ranked) - 1)] for ranked in choices]
            programs.append(reassembled(plan, chosen))
        return [candidate for candidate in dict.fromkeys(programs) if candidate != program]

    def fused(self, program: Program) -> Program | None:
        """The program with which it should be fastest, of custom kernels; yet to be verified."""
        plan = self._plan(program)
        if plan is None:
            return None
        searched = [self._piece(piece.program) for piece in plan.pieces]
        fused = [None if kernel is None else kernel.fused for kernel in searched]
        if not any(fused):
            return None
        pairs = zip(fused, plan.pieces, strict=True)
        return reassembled(plan, [kernel or piece.program for kernel, piece in pairs])

    def _plan(self, program: Program) -> Plan | None:
        # None is remembered too: time only gets less.
        if program not in self._plans:
            self._plans[program] = self._partition(program)
        return self._plans[program]

    def _partition(self, program: Program) -> Plan | None:
        # Search has no operator for casts, so pieces are cut from the program without those of half
        # types.
        searched = uncast(program)
        try:
            return partition(
                searched,
                self._price,
                MOST_OPERATORS,
                least=self._least,
                searchable=_searchable,
                most_stages=self._most_stages,
                going=self._is_time_left,
            )
        # A program that cannot be searched, or not in time, is answered as it is by the caller.
        except (PartitionError, TensorError, _OutOfTimeError):
            return None

    def _plain(self, piece: Program, most: int) -> list[Program]:
        searched = self._piece(piece)
        programs = searched.plain(self._device, most, self._deadline) if searched else []
        return programs or [piece]

    def _least(self, piece: Program) -> float:
        return least_seconds(piece, self._device)

    def _price(self, piece: Program) -> float | None:
        searched = self._piece(piece)
        try:
            seconds = searched.seconds(self._device, self._may_continue) if searched else None
        except _OutOfTimeError:
            seconds = None
        # A piece of a single operator always has a price, that of the library's kernel: otherwise a
        # program with one operator that cannot be searched would have no partition.
        if seconds is None and sum(map(_is_counted, piece.terms())) == 1:
            return predict(piece, self._device).seconds
        return seconds

    def _piece(self, piece: Program) -> _Piece | None:
        # None is remembered too: a piece that ran out of time is not tried again, as time only gets
        # less.
        if piece not in self._searched:
            try:
                self._searched[piece] = _Piece(piece, self._may_continue)
            except (_OutOfTimeError, TensorError):
                self._searched[piece] = None
        return self._searched[piece]

    def _is_time_left(self, text: str) -> bool:
        """The `ShouldContinue` of the partition, which ends with the prices that it has."""
        return time.monotonic() <= self._deadline

    def _may_continue(self, text: str) -> bool:
        """The `ShouldContinue` of the searches: raises at the end of the time."""
        if not self._is_time_left(text):
            # Breaking off by an exception: what a piece has of its derivation graph so far would be
            # incomplete, and look as if it had no program.
            raise _OutOfTimeError
        return True


class _OutOfTimeError(Exception):
    """Raised where there is no more time."""


class _Piece:
    """A piece whose kernels were searched."""

    def __init__(self, program: Program, going: ShouldContinue) -> None:
        going("a piece")
        self._problem = Fusion(to_json(program), ONE)
        self._problem.prepare(going)
        children = self._problem.expand(self._problem.root())
        self._kernel_graphs = [
            graph for child in children for graph in self._problem.solutions(child)
        ]
        self._best: Filling | None = None

    @property
    def fused(self) -> Program | None:
        """The best kernel, as far as `seconds` has looked for it."""
        return None if self._best is None else self._best.program

    def seconds(self, device: Device, going: ShouldContinue) -> float | None:
        """What the best kernel should take; None where there is none."""
        # Ranking is put off until a price is asked for: partitioning asks for few of the pieces.
        if self._best is None and self._kernel_graphs:
            ranked = Ranking(self._problem.skeletons, device).best(self._kernel_graphs, 1, going)
            self._best = ranked[0].filling if ranked else None
        return None if self._best is None else self._best.prediction.seconds

    def plain(self, device: Device, most: int, until: float) -> list[Program]:
        """Different things that the kernels compute, as plain operators, best predicted first."""
        reference = self._problem.tables.reference
        costs: dict[Program, float] = {}
        # Different block graphs often compute one program without blocks, so more are looked at
        # than are given back.
        for built in islice(self._programs(), LOOKED_AT):
            if time.monotonic() > until:
                break
            operators = plain(self._problem.builder.build(built, {}), reference)
            if operators is not None and operators not in costs:
                costs[operators] = predict(operators, device).seconds
        return sorted(costs, key=lambda operators: costs[operators])[:most]

    def _programs(self) -> Iterator[BuiltKernels]:
        for graph in self._kernel_graphs:
            yield from self._built(graph)

    def _built(self, graph: Found) -> Iterator[BuiltKernels]:
        (kernel,) = graph.kernels
        if kernel.step >= 0:
            yield BuiltKernels(graph.kernels, (None,))
            return
        for block_graph in self._problem.skeletons.graphs(kernel):
            yield BuiltKernels(graph.kernels, (block_graph,))


def _searchable(term: Term) -> bool:
    """Whether all sizes of `term` are numbers."""
    return all(isinstance(size, int) for size in term.shape)


def _is_counted(term: Term) -> bool:
    """Whether `term` computes something, rather than move elements or stand for an input."""
    return bool(term.arguments) and not moves(term)
