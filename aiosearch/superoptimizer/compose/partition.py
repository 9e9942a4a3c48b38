"""`partition`: the cheapest choice of pieces that together are the program, and an order in which
they run.

Problem: given the convex pieces of a program and what each costs, choose pieces that contain every
operator once and can run one after the other, with the least total. Asking for a price means
searching the piece, so as few prices as possible are asked.

Method: a *stage* is a set of operators that are done; a piece leads from the stages in which its
needs are done to larger ones. The cheapest way from nothing to everything is a shortest path.
Prices begin as lower bounds: find the shortest path, ask for one price on it that is not known, and
repeat until all of its prices are known.

Worked example: for three operators in a chain and pieces {0}, {1}, {2}, {0, 1}, {1, 2} the stages
are 0b000, 0b001, 0b011 and 0b111. With prices 5, 5, 5, 6 and 9 the cheapest way is {0, 1}, {2} at
11.

Invariants: a bound never exceeds its price (`Prices` refuses one that does), so a path of known
prices that is shortest by bounds is the cheapest. A stage is reached in one way for each choice of
pieces (`_Scheduling._next`).

Cost: at most `MOST_STAGES` stages, and `MOST_EACH` pieces for each first operator and size;
`Plan.exact` says whether that left anything out. Each price that is asked for takes a pass over all
steps, of some milliseconds (`_ShortestPath`); `going` is asked in every loop, and may end it. What
moves elements from piece to piece costs nothing, as in `tensor.analysis.cost`.

See docs/why/superoptimizer.md.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ...tensor import Program, Term
from ...tensor.analysis.substitution import replaced
from ...tensor.errors import TensorError
from ..progress import ShouldContinue, always_continue
from .dependency_graph import Bits, Dependencies, dependencies, lowest, numbers
from .subprograms import MOST_INPUTS, MOST_OUTPUTS, Subprogram, Subprograms, convex_sets, within


class OperatorGroup(NamedTuple):
    """A set of operators that may run as one."""

    members: Bits
    needs: Bits
    """The operators that have to be done right before."""
    before: Bits
    """The operators that have to be done at any time before."""
    weight: float
    """The cost that is assumed as long as the price of the group is unknown."""


def operator_group(graph: Dependencies, members: Bits, weight: float) -> OperatorGroup:
    """The group of `members`, with what they need of other operators."""
    needs = before = 0
    for number in numbers(members):
        needs |= graph.needs[number]
        before |= graph.before[number]
    return OperatorGroup(members, needs & ~members, before & ~members, weight)


class ScheduleStep(NamedTuple):
    """A part that is run next."""

    start: int
    """The number of the stage that it starts from."""
    part: int


@dataclass
class Schedules:
    """Stages, which are sets of operators that are done, and the steps that lead to each.

    The first stage is nothing, the last is everything; a step leads from an earlier to a later
    one.
    """

    steps: list[list[ScheduleStep]] = field(default_factory=list)
    complete: bool = True
    """Whether every choice of parts that can run in some order is a way through."""


def schedules(
    parts: Sequence[OperatorGroup],
    count: int,
    most_stages: int,
    going: ShouldContinue = always_continue,
) -> Schedules:
    """The ways through all `count` operators, over at most `most_stages` stages.

    Each count of operators done has an equal share of these; where there are more, those are kept
    that have wasted the least on their way. The last stage can be reached if each operator is a
    part.
    """
    return _Scheduling(parts, count, most_stages).scheduled(going)


class _Scheduling:
    def __init__(self, parts: Sequence[OperatorGroup], count: int, most_stages: int) -> None:
        self._parts = parts
        self._all = (1 << count) - 1
        # There are `count` + 1 levels, from nothing done to everything done.
        self._most = max(1, most_stages // (count + 1))
        self._with: list[list[int]] = [[] for _ in range(count)]
        for number, part in enumerate(parts):
            for member in numbers(part.members):
                self._with[member].append(number)
        self._excess = _excesses(parts, count)
        self._levels: list[dict[Bits, float]] = [{} for _ in range(count + 1)]
        """The stages by how many operators they have done, each with what the best way there has
        wasted."""
        self._steps: dict[Bits, list[ScheduleStep]] = {}

    def scheduled(self, going: ShouldContinue) -> Schedules:
        """All stages in the order of how many operators they have done, with the steps between
        them.
        """
        result = Schedules()
        self._levels[0][0] = 0.0
        for level in self._levels:
            stages = sorted(level, key=lambda done: (level[done], done))
            result.complete = result.complete and len(stages) <= self._most
            # A beam: stages of one level compete by what they have cost beyond the least
            # conceivable, which is comparable between stages that have done different operators.
            for done in stages[: self._most]:
                going("stages of a partition")
                self._extend(done, level[done], len(result.steps))
                result.steps.append(self._steps.pop(done, []))
        return result

    def _extend(self, done: Bits, wasted: float, stage: int) -> None:
        for number in self._next(done):
            after = done | self._parts[number].members
            level = self._levels[after.bit_count()]
            # A stage is reached by many steps; what counts is the way that has wasted least.
            level[after] = min(level.get(after, float("inf")), wasted + self._excess[number])
            self._steps.setdefault(after, []).append(ScheduleStep(stage, number))

    def _next(self, done: Bits) -> Iterator[int]:
        """The parts that may run next: at least one of each choice of parts that has led here.

        Some part has the first operator that is left. Where that has to wait, it is for the part
        that has the first operator that it needs; that one may have to wait in its turn.
        """
        if done == self._all:
            return
        # Some part must contain the first open operator, whatever the choice, so steps may be
        # restricted to those that it needs: every order of the same parts would otherwise be a way
        # of its own.
        awaited, past = [lowest(~done)], done
        for operator in awaited:
            for number in self._with[operator]:
                members, needs, before, _ = self._parts[number]
                # A part that overlaps what is done, or an operator that was handled above, was
                # offered already.
                if members & past:
                    continue
                if not needs & ~done:
                    yield number
                # The list grows while it is gone through; each operator is in it once, so it ends.
                elif (waits := lowest(before & ~done)) not in awaited:
                    awaited.append(waits)
            past |= 1 << operator


def _excesses(parts: Sequence[OperatorGroup], count: int) -> list[float]:
    """What each part costs over the least that its operators cost in any part.

    The cost of a part is shared by its operators in proportion to what they cost alone.
    """
    alone = [0.0] * count
    for part in parts:
        if part.members.bit_count() == 1:
            alone[lowest(part.members)] = part.weight
    # An operator's share is the least it costs in any part. What a part costs beyond the shares of
    # its operators is wasted, by any partition.
    shares = list(alone)
    for part in parts:
        total = sum(alone[number] for number in numbers(part.members))
        for number in numbers(part.members) if total else ():
            shares[number] = min(shares[number], part.weight * alone[number] / total)
    return [part.weight - sum(shares[number] for number in numbers(part.members)) for part in parts]


_ROUNDING = 1e-9
"""The relative error by which a price may be below its bound because of rounding."""


class PartitionError(TensorError):
    """A program that no pieces with a price make up, or a piece whose price is below its bound."""


class Prices:
    """What each piece costs, as far as anyone asked, and what it costs at least."""

    def __init__(
        self,
        programs: Sequence[Program],
        price: Callable[[Program], float | None],
        least: Callable[[Program], float],
    ) -> None:
        self._programs = programs
        self._price = price
        # Equal pieces are one program, so a price is known for all of them at once.
        self._known = {program: least(program) for program in dict.fromkeys(programs)}
        self._asked: set[Program] = set()

    def costs(self) -> list[float]:
        """The price of each piece, or its lower bound."""
        return [self._known[program] for program in self._programs]

    def ask_all(self) -> None:
        """Asks for every price that is not known."""
        for program in self._known:
            if program not in self._asked:
                self._ask(program)

    def ask(self, chosen: Sequence[int]) -> bool:
        """Asks for one unknown price, that of the piece most often in `chosen`; returns whether
        there was one.
        """
        counts = Counter(self._programs[number] for number in chosen)
        # The piece that occurs most often on the path decides most about it.
        for program, _ in counts.most_common():
            if program not in self._asked:
                self._ask(program)
                return True
        return False

    def _ask(self, program: Program) -> None:
        price = self._price(program)
        cost = math.inf if price is None else price
        bound = self._known[program]
        # A price below its bound would make the search end with a path that is not the cheapest:
        # better to fail.
        if cost < bound * (1 - _ROUNDING):
            raise PartitionError(
                f"a piece costs {cost}, and was to cost {bound} at least: {program}"
            )
        self._known[program] = cost
        self._asked.add(program)


def cheapest(
    stages: Schedules, prices: Prices, going: ShouldContinue = always_continue
) -> tuple[float, list[int]]:
    """The cheapest way through, as parts in order, and its price; raises PartitionError.

    Only what lies on a way that may be the cheapest is priced, one piece at a time; where `going`
    says stop, all that is left is priced at once, as prices are then had without a search.
    """
    path = _ShortestPath(stages)
    while True:
        total, chosen = path.under(prices.costs())
        if total == math.inf:
            raise PartitionError("no pieces with a price make up the program")
        if not prices.ask(chosen):
            return total, chosen
        # After the last second a price is that of a single operator or none. Each one alone would
        # still take a pass over all steps, of which a long program has hundreds of thousands.
        if not going("prices of a partition"):
            prices.ask_all()


class _ShortestPath:
    """Shortest ways through the stages, for one table of costs after another.

    Stages are in order, so that one pass is enough. It goes through them in blocks of neighbours of
    which none leads to another: within a block all totals are computed at once, as arrays.
    """

    def __init__(self, stages: Schedules) -> None:
        self._stages = stages
        steps = [step for steps in stages.steps for step in steps]
        self._starts = np.array([start for start, _ in steps], np.intp)
        self._parts = np.array([part for _, part in steps], np.intp)
        counts = np.array([len(steps) for steps in stages.steps], np.intp)
        self._bounds = np.concatenate([[0], np.cumsum(counts)])
        """Where the steps to each stage begin, and where the last one ends."""
        self._blocks = list(self._independent())

    def _independent(self) -> Iterator[tuple[int, int]]:
        """The first stage of each block, and the one after its last."""
        first, last = 1, len(self._stages.steps)
        for stage in range(1, last):
            # The latest stage that leads here: once that is in the block, the block is at its end.
            if max(start for start, _ in self._stages.steps[stage]) >= first:
                yield first, stage
                first = stage
        yield first, last

    def under(self, costs: Sequence[float]) -> tuple[float, list[int]]:
        """The length of the shortest path and its parts, where part `n` costs `costs[n]`."""
        costs_of_steps = np.asarray(costs, float)[self._parts]
        totals = np.zeros(len(self._stages.steps))
        for first, last in self._blocks:
            steps = slice(self._bounds[first], self._bounds[last])
            ends = totals[self._starts[steps]] + costs_of_steps[steps]
            totals[first:last] = np.minimum.reduceat(ends, self._bounds[first:last] - steps.start)
        return float(totals[-1]), self._parts_of(totals, costs_of_steps)

    def _parts_of(
        self, totals: npt.NDArray[np.float64], costs: npt.NDArray[np.float64]
    ) -> list[int]:
        """The parts of a shortest path, from the `totals` of all stages."""
        chosen = []
        stage = len(totals) - 1
        while stage:
            steps = slice(self._bounds[stage], self._bounds[stage + 1])
            # The least of what was added above leads to the total; the first such step is taken.
            step = steps.start + int(np.argmin(totals[self._starts[steps]] + costs[steps]))
            chosen.append(int(self._parts[step]))
            stage = int(self._starts[step])
        return chosen[::-1]


MOST_EACH = 50
"""Pieces of one size that begin with one operator."""
MOST_STAGES = 20_000
"""Sets of operators that may be done at some time, shared evenly by the counts of operators
done."""


@dataclass(frozen=True)
class Plan:
    """A program as pieces, in an order in which they can run."""

    program: Program
    pieces: tuple[Subprogram, ...]
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
    most_stages: int | None = None,
    going: ShouldContinue = always_continue,
) -> Plan:
    """The cheapest of `convex` pieces that together are the program; raises PartitionError.

    `price` gives what a piece costs, or None where it cannot be had. It is asked once of each
    distinct piece, and only of those that may be part of the cheapest choice: `least` says what a
    piece costs at least.

    The answer is exact while at most `MOST_EACH` pieces of one size begin with one operator, and
    there are no more sets of as many operators that may be done at some time than there is room for
    in `most_stages` (`MOST_STAGES`). Of more than that, those stay that move the fewest bytes.
    Where `going` says stop, no further piece is searched for its price; before the first price,
    that is an error.
    """

    def listing(text: str) -> bool:
        if not going(text):
            raise PartitionError(f"it was stopped at the {text}")
        return True

    graph = dependencies(program, searchable)
    pieces = Subprograms(graph)
    sets, whole = convex_sets(graph, most_operators, MOST_EACH, listing)
    cuts = list(within(pieces, sets, most_inputs, most_outputs, listing))
    # Before anything is priced, a part is taken to cost its traffic: that chooses which stages stay
    # in the beam.
    parts = [operator_group(graph, members, float(cut.traffic)) for members, cut in cuts]
    room = MOST_STAGES if most_stages is None else most_stages
    stages = schedules(parts, len(graph.results), room, listing)
    candidates = [pieces.piece(cut) for _, cut in cuts]
    prices = Prices([piece.program for piece in candidates], price, least)
    total, chosen = cheapest(stages, prices, going)
    return Plan(
        program, tuple(candidates[number] for number in chosen), total, whole and stages.complete
    )


def reassembled(plan: Plan, replacements: Sequence[Program]) -> Program:
    """The program with `replacements` in the place of its pieces, each of the same inputs and
    outputs.

    Raises PartitionError where a replacement takes or gives something else.
    """
    built: dict[Term, Term] = {}
    for piece, replacement in zip(plan.pieces, replacements, strict=True):
        _check(piece.program, replacement)
        # Pieces come in the order in which they run, so what a piece takes was built by those
        # before.
        inputs = replaced(piece.inputs, built)
        outputs = replaced(replacement.outputs, dict(zip(replacement.inputs, inputs, strict=True)))
        built.update(zip(piece.outputs, outputs, strict=True))
    return Program(plan.program.name, plan.program.inputs, replaced(plan.program.outputs, built))


def _check(piece: Program, replacement: Program) -> None:
    """Raises PartitionError where `replacement` takes or gives other types than `piece`."""
    for what, expected, actual in (
        ("takes", piece.inputs, replacement.inputs),
        ("gives", piece.outputs, replacement.outputs),
    ):
        if [term.type for term in expected] != [term.type for term in actual]:
            raise PartitionError(
                f"{replacement.name} {what} {_listed(actual)}, and its piece {_listed(expected)}"
            )


def _listed(terms: Sequence[Term]) -> str:
    return ", ".join(str(term.type) for term in terms)
