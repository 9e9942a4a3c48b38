"""Enumeration of the block graphs of a kernel, read off the derivation graph."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from msgspec import Struct

from ..derive.derivations import Derivation, DerivationGraph, Scope
from ..derive.operator_bounds import OperatorBounds

Loads: TypeAlias = tuple[int, ...]
"""The tensors that a kernel loads, in order."""
Steps: TypeAlias = tuple[tuple[int, int], ...]
"""Classes, each with which of its steps is taken, in the order in which they are chosen."""
Circles: TypeAlias = tuple[tuple[int, int], ...]
"""Classes that lead back to themselves, each with what it must not be made of."""


@dataclass(frozen=True, slots=True)
class DerivedBlockGraph:
    """How a block computes its outputs: a step for each class, operands first."""

    outputs: tuple[int, ...]
    steps: tuple[tuple[int, Derivation], ...]

    @property
    def loads(self) -> tuple[int, ...]:
        """The tensors that it loads, in order."""
        return tuple(sorted(step.operands[0] for _, step in self.steps if step.operator == "load"))


class OpenBlock(Struct, frozen=True, gc=False):
    """What is still to be computed of a block, and what is there already, as bits."""

    wanted: int
    done: int
    left: int
    """How many operators it may still have."""
    loaded: Loads


class BlockSearchState(Struct, frozen=True, gc=False):
    """The same as far as it tells how it can end; of what is done only what may be used again."""

    wanted: int
    done: int
    left: int
    loaded: Loads
    kernels: int
    """How many may come before this one."""
    circles: Circles


class DerivationChoice(NamedTuple):
    """A step to a class, and what it asks for."""

    place: int
    """Which of the steps to its class it is."""
    step: Derivation
    source: int
    """The tensor that it loads, or -1."""
    operands: int
    """The classes of its block that it takes, as bits."""
    kernels: int
    """How many have to come before its own."""
    back: tuple[int, ...]
    """Of these classes, those that may be made of its own."""


class BlockGraphs:
    """The block graphs within a space."""

    def __init__(self, tables: DerivationGraph) -> None:
        self._tables = tables
        self._limit = tables.space.block_operators
        self.needs = OperatorBounds(tables)
        self._looped = 1 << len(tables.classes)
        """Among what is done, that a loop splits something, as behind a loop it has to."""
        self._counted: dict[BlockSearchState, dict[Loads, int]] = {}
        self._dead: set[tuple[OpenBlock, Loads]] = set()
        self._ways_to: dict[int, dict[int, DerivationChoice]] = {}

    def counts(self, outputs: Iterable[int], kernels: int) -> dict[Loads, int]:
        """How many graphs there are for these outputs, by the tensors that they load."""
        return self._ways(self._first(outputs, kernels))

    def ahead(
        self, outputs: Sequence[int], loads: Loads, kernels: int, steps: Steps
    ) -> list[tuple[int, int]]:
        """The steps that may come next, each on the way to a graph that loads just these."""
        state = self._first(outputs, kernels)
        for number, place in steps:
            after = self._with(state, number, self._steps(number)[place])
            assert after is not None
            state = after
        if not state.wanted:
            return []
        number = state.wanted.bit_length() - 1
        return [
            (number, place)
            for place, way in self._steps(number).items()
            if (after := self._with(state, number, way)) and loads in self._ways(after)
        ]

    def graph(self, outputs: tuple[int, ...], steps: Steps) -> DerivedBlockGraph | None:
        """The graph of these steps; None where something is still wanted, or needs itself."""
        chosen = {number: self._tables.steps[number][place] for number, place in steps}
        wanted = {
            one for step in chosen.values() if step.operator != "load" for one in step.operands
        }
        whole = wanted.union(outputs) <= chosen.keys()
        ordered = _ordered(chosen) if whole else None
        return None if ordered is None else DerivedBlockGraph(outputs, ordered)

    def _first(self, outputs: Iterable[int], kernels: int) -> BlockSearchState:
        begun = self._begun(outputs, self._limit)
        return BlockSearchState(begun.wanted, begun.done, begun.left, begun.loaded, kernels, ())

    def _begun(self, outputs: Iterable[int], most: int) -> OpenBlock:
        wanted, done = 0, self._looped
        for number in outputs:
            wanted |= 1 << number
            if self._tables.classes[number].zone is Scope.AFTER:
                done = 0
        return OpenBlock(wanted, done, most, ())

    def _ways(self, state: BlockSearchState) -> dict[Loads, int]:
        """Most states come up many times."""
        if not state.wanted:
            return {state.loaded: 1} if state.done & self._looped else {}
        found = self._counted.get(state)
        if found is None:
            found = self._counted[state] = {}
            number = state.wanted.bit_length() - 1
            for way in self._steps(number).values():
                if after := self._with(state, number, way):
                    for loads, count in self._ways(after).items():
                        found[loads] = found.get(loads, 0) + count
        return found

    def _steps(self, number: int) -> dict[int, DerivationChoice]:
        """The steps to a class that do not take the class itself, by their places."""
        found = self._ways_to.get(number)
        if found is None:
            ways = (self._way(number, *each) for each in enumerate(self._tables.steps[number]))
            found = self._ways_to[number] = {
                way.place: way for way in ways if not way.operands >> number & 1
            }
        return found

    def _way(self, number: int, place: int, step: Derivation) -> DerivationChoice:
        kernels = max(self.needs.kernels[one] for one in step.operands)
        if step.operator == "load":
            return DerivationChoice(place, step, step.operands[0], 0, kernels, ())
        operands = 0
        for operand in step.operands:
            operands |= 1 << operand
        back = tuple(one for one in step.operands if self.needs.below[one] >> number & 1)
        return DerivationChoice(place, step, -1, operands, kernels, back)

    def _with(
        self, state: BlockSearchState, number: int, way: DerivationChoice
    ) -> BlockSearchState | None:
        """What becomes of a state with a step to its last class; None where it cannot end well."""
        circles = state.circles
        if way.kernels > state.kernels or (circles and dict(circles).get(number, 0) & way.operands):
            return None
        if way.source >= 0 and len(state.loaded) == self._tables.space.block_inputs:
            return None
        after = self._after(state, number, way)
        if after is None:
            return None
        wanted = after.wanted
        known = after.done & (self._reach(wanted) | self._looped)
        if way.back:
            circles = self._circled(number, way.back, circles)
        if circles:
            circles = tuple(pair for pair in circles if wanted >> pair[0] & 1)
        return BlockSearchState(wanted, known, after.left, after.loaded, state.kernels, circles)

    def _after(
        self, state: OpenBlock | BlockSearchState, number: int, way: DerivationChoice
    ) -> OpenBlock | None:
        """What is to do after a step to the last class; None where it cannot end well."""
        wanted, done, loaded = state.wanted ^ 1 << number, state.done | 1 << number, state.loaded
        if way.source >= 0:
            if way.source in loaded:
                return None
            done |= self._looped if self._tables.classes[number].loop else 0
            loaded = tuple(sorted((*loaded, way.source)))
        else:
            wanted |= way.operands & ~done
        left = state.left - 1
        return OpenBlock(wanted, done, left, loaded) if self._fits(wanted, done, left) else None

    def _circled(self, number: int, back: Sequence[int], circles: Circles) -> Circles:
        """For classes that lead back to themselves, what they must not be made of."""
        found = dict(circles)
        for operand in back:
            mine = found.get(number, 0) | 1 << number
            for other, over in list(found.items()):
                if over >> operand & 1:
                    found[other] = over | mine
            found[operand] = found.get(operand, 0) | mine
        return tuple(sorted(found.items()))

    def _fits(self, wanted: int, done: int, left: int) -> bool:
        """Whether so many operators may be enough, by what each class that is wanted needs."""
        needs, need = self.needs, 0
        rest = wanted
        while rest:
            number = rest.bit_length() - 1
            rest ^= 1 << number
            own, size = needs.always[number], needs.sizes[number]
            if own < 0 or (size > left and size - (needs.below[number] & done).bit_count() > left):
                return False
            need |= own
        return (need & ~done).bit_count() <= left

    def _reach(self, wanted: int) -> int:
        found = 0
        while wanted:
            number = wanted.bit_length() - 1
            wanted ^= 1 << number
            found |= self.needs.below[number]
        return found

    def graphs(
        self, outputs: Sequence[int], loads: Loads, most: int | None = None
    ) -> Iterator[DerivedBlockGraph]:
        """Every graph whose outputs are these classes, and that loads just these tensors.

        Of at most so many operators, by default those of the space.
        """
        begun = self._begun(outputs, self._limit if most is None else min(most, self._limit))
        if self._fits(begun.wanted, begun.done, begun.left):
            yield from self._complete(tuple(outputs), {}, begun, loads)

    def _complete(
        self, outputs: tuple[int, ...], steps: dict[int, Derivation], at: OpenBlock, loads: Loads
    ) -> Generator[DerivedBlockGraph, None, bool]:
        """Says in the end whether it led anywhere: where it did not, it is not gone again."""
        if not at.wanted:
            whole = at.loaded == loads and at.done & self._looped > 0
            ordered = _ordered(steps) if whole else None
            if ordered is not None:
                yield DerivedBlockGraph(outputs, ordered)
            return whole
        known = at.done & (self._reach(at.wanted) | self._looped)
        state = (OpenBlock(at.wanted, known, at.left, at.loaded), loads)
        if state in self._dead:
            return False
        led = False
        number = at.wanted.bit_length() - 1
        for way in self._steps(number).values():
            if way.source >= 0 and way.source not in loads:
                continue
            after = self._after(at, number, way)
            if after is not None and len(loads) - len(after.loaded) <= after.left:
                more = {**steps, number: way.step}
                led |= yield from self._complete(outputs, more, after, loads)
        if not led:
            self._dead.add(state)
        return led


def _ordered(done: dict[int, Derivation]) -> tuple[tuple[int, Derivation], ...] | None:
    """The steps, operands first; None where one needs itself."""
    found: dict[int, Derivation] = {}
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
