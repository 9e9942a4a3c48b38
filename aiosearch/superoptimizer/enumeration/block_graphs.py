"""Enumeration of the block graphs of a kernel, read off the derivation graph.

Problem: which block graphs compute the tiles that a kernel stores, loading exactly these tensors,
with at most `Space.block_operators` operators? And how many, without listing them?

Method: from the end. Take the wanted class with the highest number, choose one of its derivations,
want the operands that are not there yet; stop where only loads were left. Worked example, rms_norm
with one kernel: the output tensor 47 has 33 block graphs that load the tensors 0 and 1, found in
tables of 189 classes.

Invariants: a class is computed once in a graph, so a graph is a choice of one derivation for each
of its classes. Classes are taken in the order of their bits, so that a graph comes about in one
order. Sets of classes are integers.

Cost: states that can end alike are merged (`BlockSearchState`) and counted once; a state that leads
nowhere is remembered as dead. What is merged keeps of the classes that are done only those that may
be used again.

Circles: a class may lead to itself: x times 2 is divided by 2 again, where both are parts of the
reference. A choice must not make a class out of itself; `BlockSearchState.circles` carries which
classes are still threatened by that.

See docs/why/superoptimizer.md, "Tables instead of a tree".
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from msgspec import Struct

from ..derive.derivations import Derivation, DerivationGraph, Scope
from ..derive.operator_bounds import OperatorBounds

Loads: TypeAlias = tuple[int, ...]
"""The tensors that a kernel loads, in ascending order."""
Steps: TypeAlias = tuple[tuple[int, int], ...]
"""Classes, each with the position of the derivation that is chosen for it, in the order of
choice."""
Circles: TypeAlias = tuple[tuple[int, int], ...]
"""Classes that lead back to themselves, each with the classes it must not be made of, as bits."""


@dataclass(frozen=True, slots=True)
class DerivedBlockGraph:
    """How a block computes its outputs: a derivation for each class, operands first."""

    outputs: tuple[int, ...]
    steps: tuple[tuple[int, Derivation], ...]

    @property
    def loads(self) -> tuple[int, ...]:
        """The tensors that the block loads, in ascending order."""
        return tuple(sorted(step.operands[0] for _, step in self.steps if step.operator == "load"))


class OpenBlock(Struct, frozen=True, gc=False):
    """A block graph that is being chosen: classes that are `pending` and `done`, as bits."""

    pending: int
    done: int
    left: int
    """How many operators the block may still have."""
    loaded: Loads


class BlockSearchState(Struct, frozen=True, gc=False):
    """What of an `OpenBlock` decides how it can end: of what is done only what may be used
    again.
    """

    pending: int
    done: int
    left: int
    loaded: Loads
    kernels: int
    """How many kernels may come before this one."""
    circles: Circles


class DerivationChoice(NamedTuple):
    """A derivation of a class, and what it asks for."""

    place: int
    """The position of the derivation among those of its class."""
    step: Derivation
    source: int
    """The tensor that it loads, or -1."""
    operands: int
    """The classes of its block that it takes, as bits."""
    kernels: int
    """How many kernels have to come before its own."""
    back: tuple[int, ...]
    """The operands that may themselves be made of its class."""


class BlockGraphs:
    """The block graphs within the space of a `DerivationGraph`."""

    def __init__(self, tables: DerivationGraph) -> None:
        self._tables = tables
        self._limit = tables.space.block_operators
        self.needs = OperatorBounds(tables)
        self._looped = 1 << len(tables.classes)
        """A bit beside those of the classes: that a loop splits something, as it has to where a
        tile is behind a loop."""
        self._counted: dict[BlockSearchState, dict[Loads, int]] = {}
        self._dead_ends: set[tuple[OpenBlock, Loads]] = set()
        self._choices_of: dict[int, dict[int, DerivationChoice]] = {}

    def counts(self, outputs: Iterable[int], kernels: int) -> dict[Loads, int]:
        """How many graphs there are for `outputs`, by the tensors that they load."""
        return self._endings(self._first(outputs, kernels))

    def ahead(
        self, outputs: Sequence[int], loads: Loads, kernels: int, steps: Steps
    ) -> list[tuple[int, int]]:
        """The derivations that may come next after `steps`, each on the way to a graph that loads
        just `loads`.
        """
        state = self._first(outputs, kernels)
        for number, place in steps:
            after = self._with(state, number, self._steps(number)[place])
            assert after is not None
            state = after
        if not state.pending:
            return []
        number = state.pending.bit_length() - 1
        return [
            (number, place)
            for place, choice in self._steps(number).items()
            if (after := self._with(state, number, choice)) and loads in self._endings(after)
        ]

    def graph(self, outputs: tuple[int, ...], steps: Steps) -> DerivedBlockGraph | None:
        """The graph of `steps`; None where something is still wanted, or is made of itself."""
        chosen = {number: self._tables.steps[number][place] for number, place in steps}
        operands = {
            operand
            for step in chosen.values()
            if step.operator != "load"
            for operand in step.operands
        }
        whole = operands.union(outputs) <= chosen.keys()
        ordered = _ordered(chosen) if whole else None
        return None if ordered is None else DerivedBlockGraph(outputs, ordered)

    def _first(self, outputs: Iterable[int], kernels: int) -> BlockSearchState:
        begun = self._opened(outputs, self._limit)
        return BlockSearchState(begun.pending, begun.done, begun.left, begun.loaded, kernels, ())

    def _opened(self, outputs: Iterable[int], most: int) -> OpenBlock:
        pending, done = 0, self._looped
        for number in outputs:
            pending |= 1 << number
            if self._tables.classes[number].zone is Scope.AFTER:
                done = 0
        return OpenBlock(pending, done, most, ())

    def _endings(self, state: BlockSearchState) -> dict[Loads, int]:
        """How many graphs a state can end in, by what they load; most states come up many times."""
        if not state.pending:
            return {state.loaded: 1} if state.done & self._looped else {}
        counts = self._counted.get(state)
        if counts is None:
            counts = self._counted[state] = {}
            number = state.pending.bit_length() - 1
            for choice in self._steps(number).values():
                if after := self._with(state, number, choice):
                    for loads, count in self._endings(after).items():
                        counts[loads] = counts.get(loads, 0) + count
        return counts

    def _steps(self, number: int) -> dict[int, DerivationChoice]:
        """The derivations of a class that do not take the class itself, by their positions."""
        choices = self._choices_of.get(number)
        if choices is None:
            candidates = (
                self._choice(number, *numbered)
                for numbered in enumerate(self._tables.steps[number])
            )
            choices = self._choices_of[number] = {
                choice.place: choice for choice in candidates if not choice.operands >> number & 1
            }
        return choices

    def _choice(self, number: int, place: int, step: Derivation) -> DerivationChoice:
        kernels = max(self.needs.kernels[cls] for cls in step.operands)
        if step.operator == "load":
            return DerivationChoice(place, step, step.operands[0], 0, kernels, ())
        operands = 0
        for operand in step.operands:
            operands |= 1 << operand
        back = tuple(cls for cls in step.operands if self.needs.below[cls] >> number & 1)
        return DerivationChoice(place, step, -1, operands, kernels, back)

    def _with(
        self, state: BlockSearchState, number: int, choice: DerivationChoice
    ) -> BlockSearchState | None:
        """The state after `way` is chosen for its last class; None where it cannot end well."""
        circles = state.circles
        # Too many kernels before this one, or an operand that would be made of its own result.
        if choice.kernels > state.kernels or (
            circles and dict(circles).get(number, 0) & choice.operands
        ):
            return None
        if choice.source >= 0 and len(state.loaded) == self._tables.space.block_inputs:
            return None
        after = self._after(state, number, choice)
        if after is None:
            return None
        pending = after.pending
        # A class that is done and on no way to anything wanted cannot be used again: dropping it
        # lets more states meet in the memory of counts.
        reusable = after.done & (self._reach(pending) | self._looped)
        if choice.back:
            circles = self._with_circles(number, choice.back, circles)
        if circles:
            # A threat to a class that is no longer wanted has passed: its derivation is chosen.
            circles = tuple(pair for pair in circles if pending >> pair[0] & 1)
        return BlockSearchState(pending, reusable, after.left, after.loaded, state.kernels, circles)

    def _after(
        self, state: OpenBlock | BlockSearchState, number: int, choice: DerivationChoice
    ) -> OpenBlock | None:
        """What is open after `way` is chosen for the last class; None where it cannot end well."""
        pending, done, loaded = state.pending ^ 1 << number, state.done | 1 << number, state.loaded
        if choice.source >= 0:
            # A kernel loads a tensor in one way only: a second tile of it, cut otherwise, is
            # outside the space.
            if choice.source in loaded:
                return None
            done |= self._looped if self._tables.classes[number].loop else 0
            loaded = tuple(sorted((*loaded, choice.source)))
        else:
            pending |= choice.operands & ~done
        left = state.left - 1
        return OpenBlock(pending, done, left, loaded) if self._fits(pending, done, left) else None

    def _with_circles(self, number: int, back: Sequence[int], circles: Circles) -> Circles:
        """Adds that the operands `back` must not be made of the class `number`, nor of what it must
        not be made of.
        """
        threats = dict(circles)
        for operand in back:
            mine = threats.get(number, 0) | 1 << number
            for threatened, over in list(threats.items()):
                if over >> operand & 1:
                    threats[threatened] = over | mine
            threats[operand] = threats.get(operand, 0) | mine
        return tuple(sorted(threats.items()))

    def _fits(self, pending: int, done: int, left: int) -> bool:
        """Whether `left` operators may be enough for what is wanted, by the bounds of each
        class.
        """
        needs, need = self.needs, 0
        unchecked = pending
        while unchecked:
            number = unchecked.bit_length() - 1
            unchecked ^= 1 << number
            always, size = needs.always[number], needs.sizes[number]
            # Classes that are done already are no operators any more; only those that may be below
            # this class can have been counted in its size.
            if always < 0 or (
                size > left and size - (needs.below[number] & done).bit_count() > left
            ):
                return False
            need |= always
        return (need & ~done).bit_count() <= left

    def _reach(self, pending: int) -> int:
        """All classes that some way to what is wanted goes through."""
        reached = 0
        while pending:
            number = pending.bit_length() - 1
            pending ^= 1 << number
            reached |= self.needs.below[number]
        return reached

    def graphs(
        self, outputs: Sequence[int], loads: Loads, most: int | None = None
    ) -> Iterator[DerivedBlockGraph]:
        """Every graph whose outputs are these classes and that loads just these tensors.

        It has at most `most` operators, by default the limit of the space.
        """
        begun = self._opened(outputs, self._limit if most is None else min(most, self._limit))
        if self._fits(begun.pending, begun.done, begun.left):
            yield from self._complete(tuple(outputs), {}, begun, loads)

    def _complete(
        self, outputs: tuple[int, ...], steps: dict[int, Derivation], at: OpenBlock, loads: Loads
    ) -> Generator[DerivedBlockGraph, None, bool]:
        """Yields the graphs that begin with `steps`; returns whether there was one.

        A state without any is not entered again.
        """
        if not at.pending:
            # Unlike the counts, this walk may hold a choice with a circle in it. Such a graph has
            # no order, and is dropped here, but the state is not dead: another choice of the same
            # state may be without one.
            whole = at.loaded == loads and at.done & self._looped > 0
            ordered = _ordered(steps) if whole else None
            if ordered is not None:
                yield DerivedBlockGraph(outputs, ordered)
            return whole
        reusable = at.done & (self._reach(at.pending) | self._looped)
        state = (OpenBlock(at.pending, reusable, at.left, at.loaded), loads)
        if state in self._dead_ends:
            return False
        led = False
        number = at.pending.bit_length() - 1
        for choice in self._steps(number).values():
            if choice.source >= 0 and choice.source not in loads:
                continue
            after = self._after(at, number, choice)
            # Each tensor that is still to be loaded takes an operator.
            if after is not None and len(loads) - len(after.loaded) <= after.left:
                longer = {**steps, number: choice.step}
                led |= yield from self._complete(outputs, longer, after, loads)
        if not led:
            self._dead_ends.add(state)
        return led


def _ordered(done: dict[int, Derivation]) -> tuple[tuple[int, Derivation], ...] | None:
    """The derivations, operands first; None where a class is made of itself."""
    ordered: dict[int, Derivation] = {}
    under_way: set[int] = set()

    def visit(number: int) -> bool:
        if number in ordered:
            return True
        if number in under_way:
            return False
        under_way.add(number)
        step = done[number]
        if step.operator != "load" and not all(map(visit, step.operands)):
            return False
        ordered[number] = step
        return True

    return tuple(ordered.items()) if all(map(visit, sorted(done))) else None
