"""Bottom-up enumeration: other ways to compute a value of a program from its other values.

A node is a value to compute and the steps taken towards it. Each step makes a new value: one equal
to what is there already is dropped. Where the wanted value comes about, the program with it in the
place of the old is an answer, if it is estimated to be cheaper. Steps that do not depend on each
other are taken in one order only, and every step has to be used: so the least cost of what is
computed is a bound on what can be reached.

The values of a program that may be computed in another way, and what there is for it.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import itemgetter
from typing import Any

from msgspec import Struct

from ...equivalence.finite_field.array_algebra import Array
from ...tensor import Program, ShapeError, Term
from ...tensor.analysis.generalise import Generalised, generalise
from ...tensor.analysis.substitution import substituted
from ...tensor.evaluation.evaluate import step
from ...tensor.files import from_json, to_json
from ...tensor.terms import INPUT, walk
from .cost import estimate, least, worth
from .fingerprints import Amounts, Fingerprints, Ingredients
from .operator_steps import (
    LONGEST,
    KnownValue,
    Meanings,
    OperatorCall,
    OperatorStep,
    StepChoices,
    Terms,
    apply_step,
    made_of,
    spelled,
    step_shape,
    unused,
    vocabulary,
)
from .terms import named, reshaped, settled, sizes, transposed

MOST_LEAVES = 12
"""Values that a target is computed from."""
_NEAREST = 8
"""Terms that come before the inputs."""


@dataclass(frozen=True, slots=True, eq=False)
class ProgramValue(KnownValue):
    """Something computed: at the real sizes, at small ones, and by what it is made of.

    It has no axes of size one, and knows its axes by the names of their sizes.
    """

    term: Term
    array: Array
    name: bytes
    work: Mapping[Term, float]
    """The terms that it is computed by, with the least that each takes."""


@dataclass(frozen=True, slots=True, eq=False)
class RecomputationTarget:
    """A value to compute in another way."""

    term: Term
    value: ProgramValue
    same: ProgramValue | None
    """What is equal to it already."""
    leaves: tuple[ProgramValue, ...]
    choices: StepChoices
    stays: frozenset[Term]
    """What the program needs besides."""
    floor: float
    """The least that this costs."""
    spare: float
    """What at most can be saved."""


class ProgramValues:
    """The values of a program, and which of them may be computed from which."""

    def __init__(self, program: Program, constant: tuple[int, ...], prints: Fingerprints) -> None:
        self.program = program
        self.constant = constant
        self.cost = estimate(program, constant)
        self.terms = tuple(program.terms())
        self.general = _general(program)
        self.values = self._values(prints)
        self._work = self.work(*program.outputs)
        self._sized = dict(zip(self.terms, self.general.programs[0].outputs, strict=True))

    def _values(self, prints: Fingerprints) -> dict[Term, ProgramValue]:
        """What the terms are, where that can be told."""
        (named_sizes,), (small,) = self.general.programs, self.general.reduced()
        arrays = prints.evaluated(small.inputs, small.outputs)
        found = dict[Term, ProgramValue]()
        every = zip(self.terms, named_sizes.outputs, arrays, _amounts(small), strict=True)
        for term, sized, array, amounts in every:
            if array is not None:
                axes = [axis for axis, size in enumerate(sized.shape) if size != 1]
                shape = tuple(sized.shape[axis] for axis in axes)
                flat = array.reshape([array.shape[axis] for axis in axes])
                name = prints.name(flat, shape, term.dtype, term.digest)
                plain = reshaped(term, [term.shape[axis] for axis in axes])
                work = self.work(plain)
                found[term] = ProgramValue(shape, amounts.at(()), plain, flat, name, work)
        return found

    def floor(self, target: RecomputationTarget, added: Iterable[ProgramValue]) -> float:
        """The least that a program takes which has these values in the place of the target."""
        work = {term: cost for value in added for term, cost in value.work.items()}
        return target.floor + sum(cost for term, cost in work.items() if term not in target.stays)

    def work(self, *roots: Term) -> dict[Term, float]:
        """The terms below these, with the least that each takes."""
        ready = frozenset[Term]()
        if self.constant:
            ready = settled(Program(self.program.name, self.program.inputs, roots), self.constant)
        return {term: least(term, ready) for term in walk(roots)}

    def targets(self) -> list[RecomputationTarget]:
        """Those that may save time, the most first."""
        found = [target for term in self.terms if (target := self._target(term)) is not None]
        return sorted(found, key=lambda target: -target.spare)

    def _target(self, term: Term) -> RecomputationTarget | None:
        value = self.values.get(term)
        if value is None or not self._work[term] or named(term, "reshape", "transpose"):
            return None
        stays = frozenset(_needed(self.program, term))
        floor = sum(self._work[one] for one in self.terms if one in stays)
        if floor > worth(self.cost, self.constant):
            return None
        cone, near = list(walk([term])), list(self._near(term, stays))
        same = next((one for one in near if one.name == value.name), None)
        shapes = frozenset(spelled(self.values[one].shape) for one in cone if one in self.values)
        calls = vocabulary((one, self._sized[one]) for one in cone)
        choices, leaves = StepChoices(calls, value.amounts, shapes), _leaves(value, near)
        return RecomputationTarget(
            term, value, same, leaves, choices, stays, floor, self.cost - floor
        )

    def _near(self, term: Term, stays: Collection[Term]) -> Iterator[ProgramValue]:
        """The values below it, the nearest first but the inputs soon, and what stays anyhow."""
        above, below = _above(self.terms, term), list(_nearest(term))
        inputs = (one for one in below if one.operator is INPUT)
        besides = (one for one in self.terms if one in stays and one not in above)
        for one in dict.fromkeys([*below[:_NEAREST], *inputs, *below, *besides]):
            if one in self.values:
                yield self.values[one]


def _leaves(value: ProgramValue, near: Iterable[ProgramValue]) -> tuple[ProgramValue, ...]:
    found: dict[bytes, ProgramValue] = {}
    for one in near:
        if one.name != value.name and one.amounts.within(value.amounts):
            found.setdefault(one.name, one)
    return tuple(found.values())[:MOST_LEAVES]


def _general(program: Program) -> Generalised:
    """All terms as outputs, in named sizes; a mask names the two sides of what it is of."""
    terms = tuple(program.terms())
    everything = Program(program.name, program.inputs, terms)
    return generalise([everything], tied=any(named(term, "iota") for term in terms))


def _amounts(program: Program) -> list[Amounts]:
    algebra: Any = Ingredients()
    found: dict[Term, Amounts] = {
        one: Amounts(sizes(one), Counter([one.parameter("name")])) for one in program.inputs
    }
    for term in program.outputs:
        if term not in found:
            found[term] = step(term, algebra, [found[one] for one in term.arguments])
    return [found[term] for term in program.outputs]


def _needed(program: Program, without: Term) -> Iterator[Term]:
    """The terms that the outputs need, were one of them given; itself not."""
    seen, waiting = {without}, list(program.outputs)
    while waiting:
        term = waiting.pop()
        if term not in seen:
            seen.add(term)
            yield term
            waiting.extend(term.arguments)


def _above(terms: Iterable[Term], below: Term) -> set[Term]:
    found = {below}
    for term in terms:
        if not found.isdisjoint(term.arguments):
            found.add(term)
    return found


def _nearest(term: Term) -> Iterator[Term]:
    """What it is computed from, level by level."""
    seen, waiting = {term}, deque(term.arguments)
    while waiting:
        one = waiting.popleft()
        if one not in seen:
            seen.add(one)
            yield one
            waiting.extend(one.arguments)


pass

_STEP = 0.2
"""What a step counts for beside what it costs: so cheap ones do not come before all others."""
_KEPT = 20_000
"""Values that are remembered."""


class StepSequence(Struct, frozen=True):
    """Steps towards a value of the program."""

    target: int
    """Which value; -1 before it is chosen."""
    steps: tuple[OperatorStep, ...]
    bound: float
    """The least that a program takes in which all of this is computed."""
    arrived: bool = False
    """Whether the last step gave the value, and every other was of use."""


class Recomputation(Struct, frozen=True):
    """A program in which one value is computed in another way."""

    program: bytes
    """As JSON."""
    cost: float
    """Estimated microseconds; not below the bound of the way."""
    trail: tuple[str, ...]
    """The operators of the steps."""


@dataclass(frozen=True)
class EnumerationSearch:
    """Programs equal to one, in which one value is computed in another way, for less."""

    original: bytes
    """As JSON."""
    constant: tuple[int, ...] = ()
    """The inputs that stay the same: what they alone have a say in costs nothing."""
    seed: int = 0
    """Of the random point at which values are compared."""

    def root(self) -> StepSequence:
        """Gives the choice of a value."""
        return StepSequence(-1, (), 0.0)

    def expand(self, node: StepSequence) -> Iterator[StepSequence]:
        """Gives every value to compute, or every step that makes something new."""
        if node.target < 0:
            for number, target in enumerate(self._targets):
                yield StepSequence(number, (), target.floor, target.same is not None)
        elif not node.arrived:
            yield from self._further(node)

    def solutions(self, node: StepSequence) -> Iterator[Recomputation]:
        """Gives the program, where the value has come about and it is cheaper."""
        if node.arrived:
            target = self._targets[node.target]
            *_, value = target.same, *self._added(node)
            program = self._replaced(target, value)
            cost = estimate(program, self.constant)
            if cost <= self._worth:
                calls = (target.choices.calls[step.call] for step in node.steps)
                trail = tuple(call.operator for call in calls)
                yield Recomputation(to_json(program), max(node.bound, cost), trail)

    def cost(self, solution: Recomputation) -> float:
        """Gives its estimated time."""
        return solution.cost

    def bound(self, node: StepSequence) -> float:
        """Gives the least that a program takes in which all of this is computed."""
        return node.bound

    def priority(self, node: StepSequence) -> float:
        """Gives the share of what can be saved that is spent, so that values take turns."""
        if node.target < 0 or node.arrived:
            return -1.0
        target = self._targets[node.target]
        return _STEP * len(node.steps) + (node.bound - target.floor) / target.spare

    def key(self, node: StepSequence) -> tuple[Any, ...]:
        """Names what is computed and what of it is still to be used."""
        if node.target < 0:
            return (-1,)
        waiting = unused(node.steps, len(self._targets[node.target].leaves))
        added = enumerate(self._added(node))
        names = sorted((value.name, number in waiting) for number, value in added)
        return (node.target, *names)

    def _further(self, node: StepSequence) -> Iterator[StepSequence]:
        """One step more, to values that are not there yet; the cheapest step to each."""
        target = self._targets[node.target]
        values = [*target.leaves, *self._added(node)]
        there = {value.name for value in values}
        best: dict[bytes, tuple[tuple[float, int], StepSequence]] = {}
        for operator_step in target.choices.after(node.steps, values):
            value = self._value(target, values, operator_step)
            if value is None or value.name in there:
                self.tally["undefined" if value is None else "known"] += 1
                continue
            way = self._way(node, operator_step, [*values[len(target.leaves) :], value])
            if way.bound > self._worth:
                self.tally["dear"] += 1
            elif way.arrived or len(way.steps) < LONGEST:
                self.tally["known" if value.name in best else "new"] += 1
                found = (way.bound, len(value.work)), way
                best[value.name] = min(best.get(value.name, found), found, key=itemgetter(0))
        yield from (way for _, way in best.values())

    def _way(
        self, node: StepSequence, step: OperatorStep, added: Sequence[ProgramValue]
    ) -> StepSequence:
        target, steps = self._targets[node.target], (*node.steps, step)
        arrived = added[-1].name == target.value.name
        used = arrived and len(unused(steps, len(target.leaves))) == 1
        return StepSequence(node.target, steps, self._parts.floor(target, added), used)

    def _added(self, node: StepSequence) -> list[ProgramValue]:
        target = self._targets[node.target]
        values = list(target.leaves)
        for operator_step in node.steps:
            value = self._value(target, values, operator_step)
            assert value is not None
            values.append(value)
        return values[len(target.leaves) :]

    def _value(
        self, target: RecomputationTarget, values: Sequence[ProgramValue], step: OperatorStep
    ) -> ProgramValue | None:
        call = target.choices.calls[step.call]
        operands = tuple(values[number] for number in step.operands)
        name = (call, operands, step.pairs, step.axes)
        if name not in self._made:
            if len(self._made) >= _KEPT:
                self._made.clear()
            self._made[name] = self._computed(call, operands, step)
        return self._made[name]

    def _computed(
        self, call: OperatorCall, operands: tuple[ProgramValue, ...], step: OperatorStep
    ) -> ProgramValue | None:
        arrays = [one.array for one in operands]
        array = self._prints.computed(lambda: apply_step(self._arrays, call, step, arrays))
        if array is None:
            return None
        try:
            term = apply_step(self._terms, call, step, [one.term for one in operands])
        except ShapeError:
            return None
        shape = step_shape(call, step, [one.shape for one in operands])
        amounts = made_of(call, [one.amounts for one in operands])
        name = self._prints.name(array, shape, term.dtype, term.digest)
        return ProgramValue(shape, amounts, term, array, name, self._parts.work(term))

    def _replaced(self, target: RecomputationTarget, value: ProgramValue) -> Program:
        """The program with the value computed as it was found, and put into its shape."""
        order = self._prints.order(value.array, value.shape, target.value.array, target.value.shape)
        found = reshaped(transposed(value.term, order), sizes(target.term))
        return substituted(self._parts.program, {target.term: found})

    @cached_property
    def tally(self) -> Counter[str]:
        """How many steps, in this process, gave a new value, a known one, a dear one or none."""
        return Counter()

    @cached_property
    def _prints(self) -> Fingerprints:
        return Fingerprints(self.seed)

    @cached_property
    def _arrays(self) -> Meanings:
        return Meanings(self._parts.general.small, self._prints.algebra)

    @cached_property
    def _terms(self) -> Terms:
        return Terms(self._parts.general.values)

    @cached_property
    def _parts(self) -> ProgramValues:
        return ProgramValues(from_json(self.original), self.constant, self._prints)

    @cached_property
    def _targets(self) -> list[RecomputationTarget]:
        return self._parts.targets()

    @cached_property
    def _worth(self) -> float:
        return worth(self._parts.cost, self.constant)

    @cached_property
    def _made(self) -> dict[Any, ProgramValue | None]:
        return {}
