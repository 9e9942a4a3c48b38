"""The values of a program that may be computed in another way, and what there is for it."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ...equivalence.field_algebra import Array
from ...tensor import Program, Term
from ...tensor.evaluate import step
from ...tensor.generalise import Generalised, generalise
from ...tensor.terms import INPUT, walk
from .building import named, reshaped, sizes
from .choices import Choices, Given, spelled
from .estimate import estimate, least, worth
from .fingerprints import Fingerprints
from .ingredients import Amounts, Ingredients
from .settled import settled
from .vocabulary import vocabulary

MOST_LEAVES = 12
"""Values that a target is computed from."""
_NEAREST = 8
"""Terms that come before the inputs."""


@dataclass(frozen=True, slots=True, eq=False)
class Value(Given):
    """Something computed: at the real sizes, at small ones, and by what it is made of.

    It has no axes of size one, and knows its axes by the names of their sizes.
    """

    term: Term
    array: Array
    name: bytes
    work: Mapping[Term, float]
    """The terms that it is computed by, with the least that each takes."""


@dataclass(frozen=True, slots=True, eq=False)
class Target:
    """A value to compute in another way."""

    term: Term
    value: Value
    same: Value | None
    """What is equal to it already."""
    leaves: tuple[Value, ...]
    choices: Choices
    stays: frozenset[Term]
    """What the program needs besides."""
    floor: float
    """The least that this costs."""
    spare: float
    """What at most can be saved."""


class Parts:
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

    def _values(self, prints: Fingerprints) -> dict[Term, Value]:
        """What the terms are, where that can be told."""
        (named_sizes,), (small,) = self.general.programs, self.general.reduced()
        arrays = prints.evaluated(small.inputs, small.outputs)
        found = dict[Term, Value]()
        every = zip(self.terms, named_sizes.outputs, arrays, _amounts(small), strict=True)
        for term, sized, array, amounts in every:
            if array is not None:
                axes = [axis for axis, size in enumerate(sized.shape) if size != 1]
                shape = tuple(sized.shape[axis] for axis in axes)
                flat = array.reshape([array.shape[axis] for axis in axes])
                name = prints.name(flat, shape, term.dtype, term.digest)
                plain = reshaped(term, [term.shape[axis] for axis in axes])
                work = self.work(plain)
                found[term] = Value(shape, amounts.at(()), plain, flat, name, work)
        return found

    def floor(self, target: Target, added: Iterable[Value]) -> float:
        """The least that a program takes which has these values in the place of the target."""
        work = {term: cost for value in added for term, cost in value.work.items()}
        return target.floor + sum(cost for term, cost in work.items() if term not in target.stays)

    def work(self, *roots: Term) -> dict[Term, float]:
        """The terms below these, with the least that each takes."""
        ready = frozenset[Term]()
        if self.constant:
            ready = settled(Program(self.program.name, self.program.inputs, roots), self.constant)
        return {term: least(term, ready) for term in walk(roots)}

    def targets(self) -> list[Target]:
        """Those that may save time, the most first."""
        found = [target for term in self.terms if (target := self._target(term)) is not None]
        return sorted(found, key=lambda target: -target.spare)

    def _target(self, term: Term) -> Target | None:
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
        choices, leaves = Choices(calls, value.amounts, shapes), _leaves(value, near)
        return Target(term, value, same, leaves, choices, stays, floor, self.cost - floor)

    def _near(self, term: Term, stays: Collection[Term]) -> Iterator[Value]:
        """The values below it, the nearest first but the inputs soon, and what stays anyhow."""
        above, below = _above(self.terms, term), list(_nearest(term))
        inputs = (one for one in below if one.operator is INPUT)
        besides = (one for one in self.terms if one in stays and one not in above)
        for one in dict.fromkeys([*below[:_NEAREST], *inputs, *below, *besides]):
            if one in self.values:
                yield self.values[one]


def _leaves(value: Value, near: Iterable[Value]) -> tuple[Value, ...]:
    found: dict[bytes, Value] = {}
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
