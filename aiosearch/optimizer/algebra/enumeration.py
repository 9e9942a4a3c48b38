"""Bottom-up enumeration: other ways to compute a value of a program from its other values.

Problem: find a cheaper program that computes a value of the original, without a rule that leads
there.

Example: of `sum(x @ y)`, with x f32[64, 128] and y f32[128, 256], the target is the whole sum. From
the leaves x and y three steps lead to `sum(sum(x, axis 0) * y)`: `sum` of x over its rows, `mul`
with y where the axes of 128 meet, `sum` of that. `estimate` gives 11.8 µs in place of 34.3, as no
product is taken and no array of 64 by 256 is stored.

A node (`StepSequence`) is a value to compute, the target, and the steps taken towards it. Each step
applies an operator to values that are there and makes a new one. Values are told apart by
`Fingerprints`: a step whose value is equal to one that is there is dropped. Where the target's own
name comes about, the program with this derivation in the place of the old one is an answer, if
`estimate` finds it cheaper.

Invariants: steps that do not depend on each other are taken in one order only
(`StepChoices.after`); each step has to be used by a later one, or be the target; nothing on the way
is made of more than the target is (`Amounts`). `StepSequence.bound` never exceeds the estimate of a
program that has its values, so that best-first search with pruning loses no answer.

Cost: exponential in `LONGEST`, with the steps that `StepChoices` offers for a base; the time of a
new value is mostly that of its operator on the small array of field elements.
docs/why/superoptimizer.md has the same idea for fused kernels.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import itemgetter
from typing import Any

from msgspec import Struct

from ...equivalence.finite_field import Array
from ...tensor import Program, ShapeError, Term
from ...tensor.analysis.generalise import Generalised, generalise
from ...tensor.analysis.substitution import substituted
from ...tensor.evaluation import step
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
"""Values that a target is computed from: each more multiplies the steps."""
_NEAREST = 8
"""Terms below the target that come before the inputs of the program in its leaves."""


@dataclass(frozen=True, slots=True, eq=False)
class ProgramValue(KnownValue):
    """A value that is computed: at the real sizes, at small ones, and by what it is made of.

    Axes of size one are left out, and each axis has the name of its size (`Generalised`), so that a
    step is legal where names agree.
    """

    term: Term
    """How it is computed, at the real sizes."""
    array: Array
    """Its elements at the random point of `Fingerprints`, at the small sizes."""
    name: bytes
    """Its fingerprint: equal for equal values, however they are computed."""
    work: Mapping[Term, float]
    """The terms that it is computed by, each with its `least` cost."""


@dataclass(frozen=True, slots=True, eq=False)
class RecomputationTarget:
    """A value of the program that is to be computed in another way."""

    term: Term
    value: ProgramValue
    same: ProgramValue | None
    """A value below it that is equal to it already, so that no step is needed."""
    leaves: tuple[ProgramValue, ...]
    """What it may be computed from."""
    choices: StepChoices
    stays: frozenset[Term]
    """The terms that the program needs besides, whatever computes the target."""
    floor: float
    """The least microseconds that `stays` costs."""
    spare: float
    """The most microseconds that another way can save."""


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
        """The value of each term that the field has a value for; others are no leaf and
        no target."""
        # Two readings of the same terms: with names for sizes, by which axes are matched, and with
        # the least sizes that keep these apart, at which values are evaluated.
        (named_sizes,), (small,) = self.general.programs, self.general.reduced()
        arrays = prints.evaluated(small.inputs, small.outputs)
        values = dict[Term, ProgramValue]()
        every = zip(self.terms, named_sizes.outputs, arrays, _amounts(small), strict=True)
        for term, sized, array, amounts in every:
            if array is not None:
                # Axes of size one say nothing of a value, and would multiply the ways in which axes
                # meet.
                axes = [axis for axis, size in enumerate(sized.shape) if size != 1]
                shape = tuple(sized.shape[axis] for axis in axes)
                flat = array.reshape([array.shape[axis] for axis in axes])
                name = prints.name(flat, shape, term.dtype, term.digest)
                plain = reshaped(term, [term.shape[axis] for axis in axes])
                work = self.work(plain)
                values[term] = ProgramValue(shape, amounts.at(()), plain, flat, name, work)
        return values

    def floor(self, target: RecomputationTarget, added: Iterable[ProgramValue]) -> float:
        """The least microseconds of a program that has these values in the place of the target."""
        work = {term: cost for value in added for term, cost in value.work.items()}
        return target.floor + sum(cost for term, cost in work.items() if term not in target.stays)

    def work(self, *roots: Term) -> dict[Term, float]:
        """The terms below `roots`, each with its `least` cost."""
        ready = frozenset[Term]()
        if self.constant:
            # As a program of its own, since a term may be settled that no output of this one needs.
            ready = settled(Program(self.program.name, self.program.inputs, roots), self.constant)
        return {term: least(term, ready) for term in walk(roots)}

    def targets(self) -> list[RecomputationTarget]:
        """The values to compute in another way, those first that may save most."""
        targets = [target for term in self.terms if (target := self._target(term)) is not None]
        return sorted(targets, key=lambda target: -target.spare)

    def _target(self, term: Term) -> RecomputationTarget | None:
        value = self.values.get(term)
        # A move of elements is never computed in another way by itself: its operand is a target of
        # its own.
        if value is None or not self._work[term] or named(term, "reshape", "transpose"):
            return None
        stays = frozenset(_needed(self.program, term))
        floor = sum(self._work[candidate] for candidate in self.terms if candidate in stays)
        # What stays costs too much already: even for nothing the target would be no answer.
        if floor > worth(self.cost, self.constant):
            return None
        cone, near = list(walk([term])), list(self._near(term, stays))
        # Where an equal value lies below, the target is found without any step.
        same = next((candidate for candidate in near if candidate.name == value.name), None)
        # Intermediate values with more axes than their operands are many; only shapes that the
        # program has below the target are worth it.
        shapes = frozenset(
            spelled(self.values[below].shape) for below in cone if below in self.values
        )
        calls = vocabulary((below, self._sized[below]) for below in cone)
        choices, leaves = StepChoices(calls, value.amounts, shapes), _leaves(value, near)
        return RecomputationTarget(
            term, value, same, leaves, choices, stays, floor, self.cost - floor
        )

    def _near(self, term: Term, stays: Collection[Term]) -> Iterator[ProgramValue]:
        """Values that may be leaves: the nearest below the target, then the inputs, the others
        below it, and what stays anyhow.

        A value above the target is none, as it would be computed from itself.
        """
        above, below = _above(self.terms, term), list(_nearest(term))
        inputs = (candidate for candidate in below if candidate.operator is INPUT)
        besides = (
            candidate for candidate in self.terms if candidate in stays and candidate not in above
        )
        for candidate in dict.fromkeys([*below[:_NEAREST], *inputs, *below, *besides]):
            if candidate in self.values:
                yield self.values[candidate]


def _leaves(value: ProgramValue, near: Iterable[ProgramValue]) -> tuple[ProgramValue, ...]:
    """The first `MOST_LEAVES` values of different names that are made of no more than
    the target."""
    leaves: dict[bytes, ProgramValue] = {}
    for candidate in near:
        if candidate.name != value.name and candidate.amounts.within(value.amounts):
            leaves.setdefault(candidate.name, candidate)
    return tuple(leaves.values())[:MOST_LEAVES]


def _general(program: Program) -> Generalised:
    """The program with all terms as outputs, in named sizes: a name for each size that may vary by
    itself.

    A mask compares places along two axes, and ties the names of their sizes.
    """
    terms = tuple(program.terms())
    everything = Program(program.name, program.inputs, terms)
    return generalise([everything], tied=any(named(term, "iota") for term in terms))


def _amounts(program: Program) -> list[Amounts]:
    """For each output of a program, how often each input and function takes part in it."""
    algebra: Any = Ingredients()
    amounts: dict[Term, Amounts] = {
        operand: Amounts(sizes(operand), Counter([operand.parameter("name")]))
        for operand in program.inputs
    }
    for term in program.outputs:
        if term not in amounts:
            amounts[term] = step(term, algebra, [amounts[operand] for operand in term.arguments])
    return [amounts[term] for term in program.outputs]


def _needed(program: Program, without: Term) -> Iterator[Term]:
    """The terms that the outputs need if the value of `without` is there already, without that
    term."""
    seen, waiting = {without}, list(program.outputs)
    while waiting:
        term = waiting.pop()
        if term not in seen:
            seen.add(term)
            yield term
            waiting.extend(term.arguments)


def _above(terms: Iterable[Term], below: Term) -> set[Term]:
    """`below` and every term that depends on it; `terms` has operands first."""
    above = {below}
    for term in terms:
        if not above.isdisjoint(term.arguments):
            above.add(term)
    return above


def _nearest(term: Term) -> Iterator[Term]:
    """What `term` is computed from, breadth first: level by level, each once."""
    seen, waiting = {term}, deque(term.arguments)
    while waiting:
        operand = waiting.popleft()
        if operand not in seen:
            seen.add(operand)
            yield operand
            waiting.extend(operand.arguments)


_STEP = 0.2
"""What a step adds to the priority, in addition to its cost: else all cheap steps come before an
expensive one that is right."""
_KEPT = 20_000
"""Values that are remembered by how they are computed; then all are forgotten, which costs less
than to order them."""


class StepSequence(Struct, frozen=True):
    """A node of the search: a target, and the steps towards it."""

    target: int
    """Index of the target in `ProgramValues.targets`; -1 before one is chosen."""
    steps: tuple[OperatorStep, ...]
    bound: float
    """The least microseconds of a program that computes all of this."""
    arrived: bool = False
    """Whether the last step gave the target, and every other step was of use."""


class Recomputation(Struct, frozen=True):
    """An answer: a program in which one value is computed in another way."""

    program: bytes
    """As JSON."""
    cost: float
    """Estimated microseconds, not below `StepSequence.bound`."""
    trail: tuple[str, ...]
    """The operators of the steps, first to last."""


@dataclass(frozen=True)
class EnumerationSearch:
    """The problem of finding programs equal to one, in which one value is computed in another way
    for less.

    A `Problem`: its nodes are `StepSequence`s, its solutions `Recomputation`s.
    """

    original: bytes
    """As JSON."""
    constant: tuple[int, ...] = ()
    """Positions of the inputs that stay the same: what depends on them alone costs nothing."""
    seed: int = 0
    """The seed of the random point at which values are compared."""

    def root(self) -> StepSequence:
        """The choice of a target."""
        return StepSequence(-1, (), 0.0)

    def expand(self, node: StepSequence) -> Iterator[StepSequence]:
        """Every target, or every step that makes a value that is not there."""
        if node.target < 0:
            for number, target in enumerate(self._targets):
                # A target with an equal value below arrives at once, without a step.
                yield StepSequence(number, (), target.floor, target.same is not None)
        elif not node.arrived:
            yield from self._further(node)

    def solutions(self, node: StepSequence) -> Iterator[Recomputation]:
        """The program, where the target has come about and `estimate` says that it is cheaper."""
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
        """The estimated time of an answer, in microseconds."""
        return solution.cost

    def bound(self, node: StepSequence) -> float:
        """The least microseconds of a program that computes all of this."""
        return node.bound

    def priority(self, node: StepSequence) -> float:
        """The share of what the target could save that is spent so far, so that targets take turns.

        A target that can save much is not searched to its end before others begin.
        """
        # Answers, and the choice of a target, cost nothing to expand: they come before all steps.
        if node.target < 0 or node.arrived:
            return -1.0
        target = self._targets[node.target]
        return _STEP * len(node.steps) + (node.bound - target.floor) / target.spare

    def key(self, node: StepSequence) -> tuple[object, ...]:
        """Names the values that are there and those of them that are still unused.

        Two sequences with equal keys have the same continuations, whatever operators led to them.
        """
        if node.target < 0:
            return (-1,)
        waiting = unused(node.steps, len(self._targets[node.target].leaves))
        added = enumerate(self._added(node))
        # Sorted: the order in which values came about has no say in what follows. Which of them are
        # unused has one, as these must be used yet.
        names = sorted((value.name, number in waiting) for number, value in added)
        return (node.target, *names)

    def _further(self, node: StepSequence) -> Iterator[StepSequence]:
        """One step more: for each new value the cheapest step to it."""
        target = self._targets[node.target]
        values = [*target.leaves, *self._added(node)]
        there = {value.name for value in values}
        # Many steps lead to one value: the least bound wins, and of equal ones the derivation with
        # fewer terms.
        best: dict[bytes, tuple[tuple[float, int], StepSequence]] = {}
        for operator_step in target.choices.after(node.steps, values):
            value = self._value(target, values, operator_step)
            if value is None or value.name in there:
                self.tally["undefined" if value is None else "known"] += 1
                continue
            sequence = self._extended(node, operator_step, [*values[len(target.leaves) :], value])
            # The bound only grows with further steps: nothing below this node is an answer.
            if sequence.bound > self._worth:
                self.tally["dear"] += 1
            # A sequence of `LONGEST` steps that has not arrived can have no further step.
            elif sequence.arrived or len(sequence.steps) < LONGEST:
                self.tally["known" if value.name in best else "new"] += 1
                candidate = (sequence.bound, len(value.work)), sequence
                best[value.name] = min(
                    best.get(value.name, candidate), candidate, key=itemgetter(0)
                )
        yield from (sequence for _, sequence in best.values())

    def _extended(
        self, node: StepSequence, step: OperatorStep, added: Sequence[ProgramValue]
    ) -> StepSequence:
        """The sequence with one step more, whose values so far are `added`."""
        target, steps = self._targets[node.target], (*node.steps, step)
        arrived = added[-1].name == target.value.name
        # Only the last step may be unused: another one that nobody takes would be computed in vain,
        # and the sequence without it is a node of its own.
        used = arrived and len(unused(steps, len(target.leaves))) == 1
        return StepSequence(node.target, steps, self._parts.floor(target, added), used)

    def _added(self, node: StepSequence) -> list[ProgramValue]:
        """The values that the steps of a node make, in order."""
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
        """The value of a step, from memory where an equal one was computed; `None` where it has
        none."""
        call = target.choices.calls[step.call]
        operands = tuple(values[number] for number in step.operands)
        # Operands by identity (`eq=False`): equal values that were derived in different ways are
        # different terms.
        name = (call, operands, step.pairs, step.axes)
        if name not in self._made:
            if len(self._made) >= _KEPT:
                # All at once: neighbouring nodes ask for the same values, so that a full memory
                # fills again with those that matter.
                self._made.clear()
            self._made[name] = self._computed(call, operands, step)
        return self._made[name]

    def _computed(
        self, call: OperatorCall, operands: tuple[ProgramValue, ...], step: OperatorStep
    ) -> ProgramValue | None:
        """The value of a step at both sizes; `None` where the field has no value or the sizes do
        not fit."""
        arrays = [operand.array for operand in operands]
        # The small array comes first: it is refused more often, and costs less, than the term.
        array = self._prints.computed(lambda: apply_step(self._arrays, call, step, arrays))
        if array is None:
            return None
        try:
            term = apply_step(self._terms, call, step, [operand.term for operand in operands])
        except ShapeError:
            return None
        shape = step_shape(call, step, [operand.shape for operand in operands])
        amounts = made_of(call, [operand.amounts for operand in operands])
        name = self._prints.name(array, shape, term.dtype, term.digest)
        return ProgramValue(shape, amounts, term, array, name, self._parts.work(term))

    def _replaced(self, target: RecomputationTarget, value: ProgramValue) -> Program:
        """The program with the target computed by `value`, whose axes are put into the target's
        order and shape."""
        # The name says that the values agree up to an order of axes; which one it is matters only
        # now.
        order = self._prints.order(value.array, value.shape, target.value.array, target.value.shape)
        replacement = reshaped(transposed(value.term, order), sizes(target.term))
        return substituted(self._parts.program, {target.term: replacement})

    @cached_property
    def tally(self) -> Counter[str]:
        """How many steps, in this process, gave a `new` value, a `known` one, too expensive a one
        (`dear`) or an `undefined` one."""
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
    def _made(self) -> dict[object, ProgramValue | None]:
        return {}
