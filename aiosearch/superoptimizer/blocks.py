"""Reads programs off the tables: every block graph of a kernel, every kernel graph of a program."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from .needs import Needs
from .tables import Step, Tables, Zone

Loads: TypeAlias = tuple[int, ...]
"""The tensors that a kernel loads, in order."""
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
        wanted, done, left, loaded = self.begun(outputs)
        return self._ways(State(wanted, done, left, loaded, kernels, ()))

    def begun(self, outputs: Iterable[int], most: int | None = None) -> Open:
        """What there is to do for outputs, by so many operators."""
        wanted, done = 0, self._looped
        for number in outputs:
            wanted |= 1 << number
            if self._tables.classes[number].zone is Zone.AFTER:
                done = 0
        left = self._limit if most is None else min(most, self._limit)
        return Open(wanted, done, left, ())

    def _ways(self, state: State) -> dict[Loads, int]:
        """Most states come up many times."""
        if not state.wanted:
            return {state.loaded: 1} if state.done & self._looped else {}
        found = self._counted.get(state)
        if found is None:
            found = self._counted[state] = {}
            for after in self._next(state):
                for loads, count in self._ways(after).items():
                    found[loads] = found.get(loads, 0) + count
        return found

    def _next(self, state: State) -> Iterator[State]:
        """What becomes of a state with each step to its last class, as far as it may end well."""
        number = state.wanted.bit_length() - 1
        over = dict(state.circles).get(number, 0)
        for step in self._tables.steps[number]:
            if any(self.needs.kernels[one] > state.kernels for one in step.operands):
                continue
            circles = state.circles
            if step.operator == "load":
                if len(state.loaded) == self._tables.space.block_inputs:
                    continue
            else:
                if any(over >> operand & 1 for operand in step.operands):
                    continue
                circles = self._circled(number, step, circles)
            after = self._after(state, number, step)
            if after is None:
                continue
            wanted, done, left, loaded = after
            known = done & (self._reach(wanted) | self._looped)
            kept = tuple(pair for pair in circles if wanted >> pair[0] & 1)
            yield State(wanted, known, left, loaded, state.kernels, kept)

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
        begun = self.begun(outputs, most)
        if self._fits(begun.wanted, begun.done, begun.left):
            yield from self._complete(tuple(outputs), {}, begun, loads)

    def _complete(
        self, outputs: tuple[int, ...], steps: dict[int, Step], at: Open, loads: Loads
    ) -> Generator[BlockGraph, None, bool]:
        """Says in the end whether it led anywhere: where it did not, it is not gone again."""
        if not at.wanted:
            graph = self.whole(outputs, steps, at, loads)
            if graph is not None:
                yield graph
            return self._is_whole(at, loads)
        known = at.done & (self._reach(at.wanted) | self._looped)
        state = (at._replace(done=known), loads)
        if state in self._dead:
            return False
        led = False
        for number, step, after in self.steps(at, loads):
            led |= yield from self._complete(outputs, {**steps, number: step}, after, loads)
        if not led:
            self._dead.add(state)
        return led

    def steps(self, at: Open, loads: Loads) -> Iterator[tuple[int, Step, Open]]:
        """Every step to the last class that is wanted, and what is to do then."""
        number = at.wanted.bit_length() - 1
        for step in self._tables.steps[number]:
            if step.operator == "load" and step.operands[0] not in loads:
                continue
            after = self._after(at, number, step)
            if after is not None:
                yield number, step, after

    def whole(
        self, outputs: tuple[int, ...], steps: dict[int, Step], at: Open, loads: Loads
    ) -> BlockGraph | None:
        """The graph of these steps; None where it lacks a load or a loop, or needs itself."""
        ordered = _ordered(steps) if self._is_whole(at, loads) else None
        return None if ordered is None else BlockGraph(outputs, ordered)

    def _is_whole(self, at: Open, loads: Loads) -> bool:
        return at.loaded == loads and at.done & self._looped > 0


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
