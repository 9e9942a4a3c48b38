"""Reads programs off the tables: every block graph of a kernel, every kernel graph of a program."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from .tables import Step, Tables, Zone

FAR = 1 << 20
Loads: TypeAlias = tuple[int, ...]
"""The tensors that a kernel loads, in order."""


@dataclass(frozen=True, slots=True)
class BlockGraph:
    """How a block computes its outputs: a step for each class, operands first."""

    outputs: tuple[int, ...]
    steps: tuple[tuple[int, Step], ...]

    @property
    def loads(self) -> tuple[int, ...]:
        """The tensors that it loads, in order."""
        return tuple(sorted(step.operands[0] for _, step in self.steps if step.operator == "load"))


class Blocks:
    """The block graphs within a space."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._limit = tables.space.block_operators
        self.kernels = self._least(device=1, inside=0)
        """Fewest kernels before a class is there, its own included."""
        self.operators = self._least(device=0, inside=1)
        """Fewest operators in its own block."""
        self.always = self._always()
        self._sizes = self._fewest()
        self.below = self._below()
        self._looped = 1 << len(tables.classes)
        """Among what is done, that a loop splits something, as behind a loop it has to."""
        self._counted: dict[tuple[Any, ...], dict[Loads, int]] = {}
        self._dead: set[tuple[Any, ...]] = set()
        self.tried = 0

    def _least(self, device: int, inside: int) -> list[int]:
        """For each class the least sum of steps on the longest way to it."""
        tables = self._tables
        found = [FAR] * len(tables.classes)
        for number in tables.given:
            found[number] = 0
        users: list[list[tuple[int, Step]]] = [[] for _ in tables.classes]
        for number, steps in enumerate(tables.steps):
            for step in steps:
                for operand in step.operands:
                    users[operand].append((number, step))
        fresh = sorted(tables.given)
        while fresh:
            operand = fresh.pop()
            for number, step in users[operand]:
                outside = tables.classes[number].zone is Zone.DEVICE
                if not inside:
                    most = max(found[one] for one in step.operands)
                    cost = most + (device if outside else 0)
                elif outside:
                    cost = 0
                else:
                    cost = 1 + max(
                        0 if step.operator == "load" else found[one] for one in step.operands
                    )
                if cost < found[number]:
                    found[number] = cost
                    fresh.append(number)
        return found

    def _always(self) -> list[int]:
        """For each class, as bits, those that every way to it goes through within its block."""
        tables = self._tables
        found = [-1] * len(tables.classes)
        users: list[list[int]] = [[] for _ in tables.classes]
        fresh: list[int] = []
        for number, steps in enumerate(tables.steps):
            for step in steps:
                if step.operator == "load":
                    fresh.append(number)
                for operand in step.operands:
                    users[operand].append(number)
        while fresh:
            number = fresh.pop()
            ways = -1
            for step in tables.steps[number]:
                through = 0
                for operand in step.operands if step.operator != "load" else ():
                    through |= found[operand]
                if through >= 0:
                    ways &= through
            own = -1 if ways == -1 and not self._loads(number) else ways | 1 << number
            if own != found[number]:
                found[number] = own
                fresh += [user for user in users[number] if not self._outside(user)]
        return found

    def _fewest(self) -> list[int]:
        """Fewest operators of a block that computes a class, the class itself included."""
        steps = self._tables.steps
        found = list(self.operators)
        changed = True
        while changed:
            changed = False
            for number, ways in enumerate(steps):
                if self._outside(number) or self.always[number] < 0:
                    continue
                own = max(min(map(self._through(found), ways), default=FAR), found[number])
                changed |= own > found[number]
                found[number] = own
        return found

    def _through(self, sizes: Sequence[int]) -> Callable[[Step], int]:
        def least(step: Step) -> int:
            if step.operator == "load":
                return 1
            need = 0
            for operand in step.operands:
                need |= self.always[operand]
            if need < 0:
                return FAR
            return 1 + max(need.bit_count(), *(sizes[operand] for operand in step.operands))

        return least

    def _loads(self, number: int) -> bool:
        return any(step.operator == "load" for step in self._tables.steps[number])

    def _outside(self, number: int) -> bool:
        return self._tables.classes[number].zone is Zone.DEVICE

    def _below(self) -> list[int]:
        """For each class, as bits, those that some way to it goes through within its block."""
        steps = self._tables.steps
        found = [0] * len(steps)
        users: list[list[int]] = [[] for _ in steps]
        for number, ways in enumerate(steps):
            for step in ways:
                for operand in step.operands if step.operator != "load" else ():
                    users[operand].append(number)
        fresh = [number for number in range(len(steps)) if not self._outside(number)]
        while fresh:
            number = fresh.pop()
            own = found[number] | 1 << number
            for user in users[number]:
                if not self._outside(user) and own & ~found[user]:
                    found[user] |= own
                    fresh.append(user)
        return found

    def counts(self, outputs: Iterable[int], kernels: int) -> dict[Loads, int]:
        """How many graphs there are for these outputs, by the tensors that they load."""
        opened, done = self._begun(outputs)
        return self._ways(opened, done, self._limit, (), kernels, ())

    def _begun(self, outputs: Iterable[int]) -> tuple[int, int]:
        """What there is to do for outputs, and what is done."""
        opened, done = 0, self._looped
        for number in outputs:
            opened |= 1 << number
            if self._tables.classes[number].zone is Zone.AFTER:
                done = 0
        return opened, done

    def _ways(
        self,
        opened: int,
        done: int,
        left: int,
        loaded: Loads,
        kernels: int,
        above: tuple[tuple[int, int], ...],
    ) -> dict[Loads, int]:
        """Of what is done, only what may be used again; so that most states come up many times."""
        if not opened:
            return {loaded: 1} if done & self._looped else {}
        key = (opened, done, left, loaded, kernels, above)
        found = self._counted.get(key)
        if found is None:
            found = self._counted[key] = {}
            self.tried += 1
            for state in self._next(*key):
                for loads, count in self._ways(*state).items():
                    found[loads] = found.get(loads, 0) + count
        return found

    def _next(
        self,
        opened: int,
        done: int,
        left: int,
        loaded: Loads,
        kernels: int,
        above: tuple[tuple[int, int], ...],
    ) -> Iterator[tuple[int, int, int, Loads, int, tuple[tuple[int, int], ...]]]:
        """What becomes of a state with each step to its last class, as far as it may end well."""
        number = opened.bit_length() - 1
        rest = opened ^ 1 << number
        over = dict(above).get(number, 0)
        for step in self._tables.steps[number]:
            more, circle = 0, above
            sources, own = loaded, done | 1 << number
            if step.operator == "load":
                (source,) = step.operands
                own |= self._looped if self._tables.classes[number].loop else 0
                if source in loaded or self.kernels[source] > kernels:
                    continue
                if len(loaded) == self._tables.space.block_inputs:
                    continue
                sources = tuple(sorted((*loaded, source)))
            else:
                if any(self.kernels[one] > kernels for one in step.operands):
                    continue
                for operand in step.operands:
                    more |= 1 << operand
                if more & (1 << number | over):
                    continue
                circle = self._circled(number, step, above)
            wanted = rest | more & ~own
            if not self._fits(wanted, own, left - 1):
                continue
            known = own & (self._reach(wanted) | self._looped)
            kept = tuple(pair for pair in circle if wanted >> pair[0] & 1)
            yield wanted, known, left - 1, sources, kernels, kept

    def _circled(
        self, number: int, step: Step, above: tuple[tuple[int, int], ...]
    ) -> tuple[tuple[int, int], ...]:
        """For classes that lead back to themselves, what they must not be made of."""
        found = dict(above)
        for operand in step.operands:
            if self.below[operand] >> number & 1:
                mine = found.get(number, 0) | 1 << number
                for other, over in list(found.items()):
                    if over >> operand & 1:
                        found[other] = over | mine
                found[operand] = found.get(operand, 0) | mine
        return tuple(sorted(found.items())) if len(found) > 0 else above

    def _fits(self, wanted: int, done: int, left: int) -> bool:
        need, most = 0, 0
        rest = wanted
        while rest:
            number = rest.bit_length() - 1
            rest ^= 1 << number
            own = self.always[number]
            if own < 0:
                return False
            need |= own
            there = (self.below[number] & done).bit_count()
            most = max(most, self._sizes[number] - there)
        return max(most, (need & ~done).bit_count()) <= left

    def _reach(self, wanted: int) -> int:
        found = 0
        while wanted:
            number = wanted.bit_length() - 1
            wanted ^= 1 << number
            found |= self.below[number]
        return found

    def graphs(
        self, outputs: Sequence[int], loads: Loads, most: int | None = None
    ) -> Iterator[BlockGraph]:
        """Every graph whose outputs are these classes, and that loads just these tensors.

        Of at most so many operators, by default those of the space.
        """
        opened, done = self._begun(outputs)
        left = self._limit if most is None else min(most, self._limit)
        if self._fits(opened, done, left):
            yield from self._complete(tuple(outputs), {}, opened, done, left, loads, ())

    def _complete(
        self,
        outputs: tuple[int, ...],
        steps: dict[int, Step],
        opened: int,
        done: int,
        left: int,
        loads: Loads,
        loaded: Loads,
    ) -> Generator[BlockGraph, None, bool]:
        """Says in the end whether it led anywhere: where it did not, it is not gone again."""
        if not opened:
            whole = loaded == loads and done & self._looped > 0
            ordered = _ordered(steps) if whole else None
            if ordered is not None:
                yield BlockGraph(outputs, ordered)
            return whole
        state = (opened, done & (self._reach(opened) | self._looped), left, loads, loaded)
        if state in self._dead:
            return False
        led = False
        number = opened.bit_length() - 1
        rest = opened ^ 1 << number
        for step in self._tables.steps[number]:
            sources, wanted, own = loaded, rest, done | 1 << number
            if step.operator == "load":
                (source,) = step.operands
                own |= self._looped if self._tables.classes[number].loop else 0
                if source in loaded or source not in loads:
                    continue
                sources = tuple(sorted((*loaded, source)))
            else:
                for operand in step.operands:
                    wanted |= 1 << operand
                if wanted >> number & 1:
                    continue
                wanted &= ~own
            if self._fits(wanted, own, left - 1):
                more = {**steps, number: step}
                led |= yield from self._complete(
                    outputs, more, wanted, own, left - 1, loads, sources
                )
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
