"""A search bottom up: what else computes a value of a program, from the values that it has.

A node is a value to compute and the steps taken towards it. Each step makes a new value: one equal
to what is there already is dropped. Where the wanted value comes about, the program with it in the
place of the old is an answer, if it is estimated to be cheaper. Steps that do not depend on each
other are taken in one order only, and every step has to be used: so the least cost of what is
computed is a bound on what can be reached.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import itemgetter
from typing import Any

from msgspec import Struct

from ...tensor import Program, ShapeError
from ...tensor.files import from_json, to_json
from ...tensor.rebuild import substituted
from .building import reshaped, sizes, transposed
from .choices import LONGEST, made_of, unused
from .estimate import estimate, worth
from .fingerprints import Fingerprints
from .steps import Call, Meanings, Step, Terms, shaped, taken
from .targets import Parts, Target, Value

_STEP = 0.2
"""What a step counts for beside what it costs: so cheap ones do not come before all others."""
_KEPT = 20_000
"""Values that are remembered."""


class Way(Struct, frozen=True):
    """Steps towards a value of the program."""

    target: int
    """Which value; -1 before it is chosen."""
    steps: tuple[Step, ...]
    bound: float
    """The least that a program takes in which all of this is computed."""
    arrived: bool = False
    """Whether the last step gave the value, and every other was of use."""


class Found(Struct, frozen=True):
    """A program in which one value is computed in another way."""

    program: bytes
    """As JSON."""
    cost: float
    """Estimated microseconds; not below the bound of the way."""
    trail: tuple[str, ...]
    """The operators of the steps."""


@dataclass(frozen=True)
class Enumerating:
    """Programs equal to one, in which one value is computed in another way, for less."""

    original: bytes
    """As JSON."""
    constant: tuple[int, ...] = ()
    """The inputs that stay the same: what they alone have a say in costs nothing."""
    seed: int = 0
    """Of the random point at which values are compared."""

    def root(self) -> Way:
        """Gives the choice of a value."""
        return Way(-1, (), 0.0)

    def expand(self, node: Way) -> Iterator[Way]:
        """Gives every value to compute, or every step that makes something new."""
        if node.target < 0:
            for number, target in enumerate(self._targets):
                yield Way(number, (), target.floor, target.same is not None)
        elif not node.arrived:
            yield from self._further(node)

    def solutions(self, node: Way) -> Iterator[Found]:
        """Gives the program, where the value has come about and it is cheaper."""
        if node.arrived:
            target = self._targets[node.target]
            *_, value = target.same, *self._added(node)
            program = self._replaced(target, value)
            cost = estimate(program, self.constant)
            if cost <= self._worth:
                calls = (target.choices.calls[step.call] for step in node.steps)
                trail = tuple(call.operator for call in calls)
                yield Found(to_json(program), max(node.bound, cost), trail)

    def cost(self, solution: Found) -> float:
        """Gives its estimated time."""
        return solution.cost

    def bound(self, node: Way) -> float:
        """Gives the least that a program takes in which all of this is computed."""
        return node.bound

    def priority(self, node: Way) -> float:
        """Gives the share of what can be saved that is spent, so that values take turns."""
        if node.target < 0 or node.arrived:
            return -1.0
        target = self._targets[node.target]
        return _STEP * len(node.steps) + (node.bound - target.floor) / target.spare

    def key(self, node: Way) -> tuple[Any, ...]:
        """Names what is computed and what of it is still to be used."""
        if node.target < 0:
            return (-1,)
        waiting = unused(node.steps, len(self._targets[node.target].leaves))
        added = enumerate(self._added(node))
        names = sorted((value.name, number in waiting) for number, value in added)
        return (node.target, *names)

    def _further(self, node: Way) -> Iterator[Way]:
        """One step more, to values that are not there yet; the cheapest step to each."""
        target = self._targets[node.target]
        values = [*target.leaves, *self._added(node)]
        there = {value.name for value in values}
        best: dict[bytes, tuple[tuple[float, int], Way]] = {}
        for step in target.choices.after(node.steps, values):
            value = self._value(target, values, step)
            if value is None or value.name in there:
                self.tally["undefined" if value is None else "known"] += 1
                continue
            way = self._way(node, step, [*values[len(target.leaves) :], value])
            if way.bound > self._worth:
                self.tally["dear"] += 1
            elif way.arrived or len(way.steps) < LONGEST:
                self.tally["known" if value.name in best else "new"] += 1
                found = (way.bound, len(value.work)), way
                best[value.name] = min(best.get(value.name, found), found, key=itemgetter(0))
        yield from (way for _, way in best.values())

    def _way(self, node: Way, step: Step, added: Sequence[Value]) -> Way:
        target, steps = self._targets[node.target], (*node.steps, step)
        arrived = added[-1].name == target.value.name
        used = arrived and len(unused(steps, len(target.leaves))) == 1
        return Way(node.target, steps, self._parts.floor(target, added), used)

    def _added(self, node: Way) -> list[Value]:
        target = self._targets[node.target]
        values = list(target.leaves)
        for step in node.steps:
            value = self._value(target, values, step)
            assert value is not None
            values.append(value)
        return values[len(target.leaves) :]

    def _value(self, target: Target, values: Sequence[Value], step: Step) -> Value | None:
        call = target.choices.calls[step.call]
        operands = tuple(values[number] for number in step.operands)
        name = (call, operands, step.pairs, step.axes)
        if name not in self._made:
            if len(self._made) >= _KEPT:
                self._made.clear()
            self._made[name] = self._computed(call, operands, step)
        return self._made[name]

    def _computed(self, call: Call, operands: tuple[Value, ...], step: Step) -> Value | None:
        arrays = [one.array for one in operands]
        array = self._prints.computed(lambda: taken(self._arrays, call, step, arrays))
        if array is None:
            return None
        try:
            term = taken(self._terms, call, step, [one.term for one in operands])
        except ShapeError:
            return None
        shape = shaped(call, step, [one.shape for one in operands])
        amounts = made_of(call, [one.amounts for one in operands])
        name = self._prints.name(array, shape, term.dtype, term.digest)
        return Value(shape, amounts, term, array, name, self._parts.work(term))

    def _replaced(self, target: Target, value: Value) -> Program:
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
    def _parts(self) -> Parts:
        return Parts(from_json(self.original), self.constant, self._prints)

    @cached_property
    def _targets(self) -> list[Target]:
        return self._parts.targets()

    @cached_property
    def _worth(self) -> float:
        return worth(self._parts.cost, self.constant)

    @cached_property
    def _made(self) -> dict[Any, Value | None]:
        return {}
