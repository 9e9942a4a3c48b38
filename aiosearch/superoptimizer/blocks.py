"""Reads programs off the tables: every block graph of a kernel, every kernel graph of a program."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from .needs import Needs
from .tables import Step, Tables, Zone

Loads: TypeAlias = tuple[int, ...]
"""The tensors that a kernel loads, in order."""
Steps: TypeAlias = tuple[tuple[int, int], ...]
"""Classes, each with which of its steps is taken, in the order in which they are chosen."""
Circles: TypeAlias = tuple[tuple[int, int], ...]
"""Classes that lead back to themselves, each with what it must not be made of."""


@dataclass(frozen=True, slots=True)
class BlockGraph:
    """How a block computes its outputs: a step for each class, operands first."""

    outputs: tuple[int, ...]
    steps: tuple[tuple[int, Step], ...]

    @property
    def loads(self) -> tuple[int, ...]:
        """The tensors that it loads, in order."""
        return tuple(sorted(step.operands[0] for _, step in self.steps if step.operator == "load"))


class Open(NamedTuple):
    """What is still to be computed of a block, and what is there already, as bits."""

    wanted: int
    done: int
    left: int
    """How many operators it may still have."""
    loaded: Loads


class State(NamedTuple):
    """The same as far as it tells how it can end; of what is done only what may be used again."""

    wanted: int
    done: int
    left: int
    loaded: Loads
    kernels: int
    """How many may come before this one."""
    circles: Circles


class Blocks:
    """The block graphs within a space."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._limit = tables.space.block_operators
        self.needs = Needs(tables)
        self._looped = 1 << len(tables.classes)
        """Among what is done, that a loop splits something, as behind a loop it has to."""
        self._counted: dict[State, dict[Loads, int]] = {}
        self._dead: set[tuple[Open, Loads]] = set()

    def counts(self, outputs: Iterable[int], kernels: int) -> dict[Loads, int]:
        """How many graphs there are for these outputs, by the tensors that they load."""
        return self._ways(self._first(outputs, kernels))

    def ahead(
        self, outputs: Sequence[int], loads: Loads, kernels: int, steps: Steps
    ) -> list[tuple[int, int]]:
        """The steps that may come next, each on the way to a graph that loads just these."""
        state = self._first(outputs, kernels)
        for number, place in steps:
            after = self._with(state, number, self._tables.steps[number][place])
            assert after is not None
            state = after
        if not state.wanted:
            return []
        number = state.wanted.bit_length() - 1
        return [(number, place) for place, one in self._next(state) if loads in self._ways(one)]

    def graph(self, outputs: tuple[int, ...], steps: Steps) -> BlockGraph | None:
        """The graph of these steps; None where something is still wanted, or needs itself."""
        chosen = {number: self._tables.steps[number][place] for number, place in steps}
        wanted = {
            one for step in chosen.values() if step.operator != "load" for one in step.operands
        }
        whole = wanted.union(outputs) <= chosen.keys()
        ordered = _ordered(chosen) if whole else None
        return None if ordered is None else BlockGraph(outputs, ordered)

    def _first(self, outputs: Iterable[int], kernels: int) -> State:
        return State(*self._begun(outputs, self._limit), kernels, ())

    def _begun(self, outputs: Iterable[int], most: int) -> Open:
        wanted, done = 0, self._looped
        for number in outputs:
            wanted |= 1 << number
            if self._tables.classes[number].zone is Zone.AFTER:
                done = 0
        return Open(wanted, done, most, ())

    def _ways(self, state: State) -> dict[Loads, int]:
        """Most states come up many times."""
        if not state.wanted:
            return {state.loaded: 1} if state.done & self._looped else {}
        found = self._counted.get(state)
        if found is None:
            found = self._counted[state] = {}
            for _, after in self._next(state):
                for loads, count in self._ways(after).items():
                    found[loads] = found.get(loads, 0) + count
        return found

    def _next(self, state: State) -> Iterator[tuple[int, State]]:
        """What becomes of a state with each step to its last class, as far as it may end well."""
        number = state.wanted.bit_length() - 1
        for place, step in enumerate(self._tables.steps[number]):
            after = self._with(state, number, step)
            if after is not None:
                yield place, after

    def _with(self, state: State, number: int, step: Step) -> State | None:
        if any(self.needs.kernels[one] > state.kernels for one in step.operands):
            return None
        circles = state.circles
        if step.operator != "load":
            over = dict(circles).get(number, 0) if circles else 0
            if over and any(over >> operand & 1 for operand in step.operands):
                return None
            circles = self._circled(number, step, circles)
        elif len(state.loaded) == self._tables.space.block_inputs:
            return None
        after = self._after(state, number, step)
        if after is None:
            return None
        wanted, done, left, loaded = after
        known = done & (self._reach(wanted) | self._looped)
        kept = tuple(pair for pair in circles if wanted >> pair[0] & 1)
        return State(wanted, known, left, loaded, state.kernels, kept)

    def _after(self, state: Open | State, number: int, step: Step) -> Open | None:
        """What is to do after a step to the last class; None where it cannot end well."""
        wanted, done, loaded = state.wanted ^ 1 << number, state.done | 1 << number, state.loaded
        if step.operator == "load":
            (source,) = step.operands
            if source in loaded:
                return None
            done |= self._looped if self._tables.classes[number].loop else 0
            loaded = tuple(sorted((*loaded, source)))
        else:
            more = 0
            for operand in step.operands:
                more |= 1 << operand
            if more >> number & 1:
                return None
            wanted |= more & ~done
        left = state.left - 1
        return Open(wanted, done, left, loaded) if self._fits(wanted, done, left) else None

    def _circled(self, number: int, step: Step, circles: Circles) -> Circles:
        """For classes that lead back to themselves, what they must not be made of."""
        found = dict(circles)
        for operand in step.operands:
            if self.needs.below[operand] >> number & 1:
                mine = found.get(number, 0) | 1 << number
                for other, over in list(found.items()):
                    if over >> operand & 1:
                        found[other] = over | mine
                found[operand] = found.get(operand, 0) | mine
        return tuple(sorted(found.items()))

    def _fits(self, wanted: int, done: int, left: int) -> bool:
        need, most = 0, 0
        rest = wanted
        while rest:
            number = rest.bit_length() - 1
            rest ^= 1 << number
            own = self.needs.always[number]
            if own < 0:
                return False
            need |= own
            there = (self.needs.below[number] & done).bit_count()
            most = max(most, self.needs.sizes[number] - there)
        return max(most, (need & ~done).bit_count()) <= left

    def _reach(self, wanted: int) -> int:
        found = 0
        while wanted:
            number = wanted.bit_length() - 1
            wanted ^= 1 << number
            found |= self.needs.below[number]
        return found

    def graphs(
        self, outputs: Sequence[int], loads: Loads, most: int | None = None
    ) -> Iterator[BlockGraph]:
        """Every graph whose outputs are these classes, and that loads just these tensors.

        Of at most so many operators, by default those of the space.
        """
        begun = self._begun(outputs, self._limit if most is None else min(most, self._limit))
        if self._fits(begun.wanted, begun.done, begun.left):
            yield from self._complete(tuple(outputs), {}, begun, loads)

    def _complete(
        self, outputs: tuple[int, ...], steps: dict[int, Step], at: Open, loads: Loads
    ) -> Generator[BlockGraph, None, bool]:
        """Says in the end whether it led anywhere: where it did not, it is not gone again."""
        if not at.wanted:
            whole = at.loaded == loads and at.done & self._looped > 0
            ordered = _ordered(steps) if whole else None
            if ordered is not None:
                yield BlockGraph(outputs, ordered)
            return whole
        known = at.done & (self._reach(at.wanted) | self._looped)
        state = (at._replace(done=known), loads)
        if state in self._dead:
            return False
        led = False
        number = at.wanted.bit_length() - 1
        for step in self._tables.steps[number]:
            if step.operator == "load" and step.operands[0] not in loads:
                continue
            after = self._after(at, number, step)
            if after is not None:
                led |= yield from self._complete(outputs, {**steps, number: step}, after, loads)
        if not led:
            self._dead.add(state)
        return led


def _ordered(done: dict[int, Step]) -> tuple[tuple[int, Step], ...] | None:
    """The steps, operands first; None where one needs itself."""
    found: dict[int, Step] = {}
    under_way: set[int] = set()

    def visit(number: int) -> bool:
        if number in found:
            return True
        if number in under_way:
            return False
        under_way.add(number)
        step = done[number]
        if step.operator != "load" and not all(map(visit, step.operands)):
            return False
        found[number] = step
        return True

    return tuple(found.items()) if all(map(visit, sorted(done))) else None
