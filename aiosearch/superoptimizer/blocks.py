"""Reads programs off the tables: every block graph of a kernel, every kernel graph of a program."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from .tables import Step, Tables, Zone

FAR = 1 << 20


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

    def _loads(self, number: int) -> bool:
        return any(step.operator == "load" for step in self._tables.steps[number])

    def _outside(self, number: int) -> bool:
        return self._tables.classes[number].zone is Zone.DEVICE

    def graphs(self, outputs: Sequence[int], kernels: int) -> Iterator[BlockGraph]:
        """Every graph whose outputs are these classes, that loads what so few kernels compute."""
        wanted = tuple(sorted(set(outputs)))
        need = 0
        for number in wanted:
            need |= self.always[number]
        if need >= 0:
            yield from self._complete(tuple(outputs), {}, wanted, need, {}, kernels)

    def _complete(
        self,
        outputs: tuple[int, ...],
        done: dict[int, Step],
        open_: tuple[int, ...],
        need: int,
        loaded: dict[int, int],
        kernels: int,
    ) -> Iterator[BlockGraph]:
        self.tried += 1
        if not open_:
            ordered = _ordered(done)
            if ordered is not None:
                yield BlockGraph(outputs, ordered)
            return
        if len(done) + len(open_) - 1 + max(map(self.operators.__getitem__, open_)) > self._limit:
            return
        number, rest = open_[-1], open_[:-1]
        for step in self._tables.steps[number]:
            if step.operator == "load":
                source = step.operands[0]
                if source in loaded or self.kernels[source] > kernels:
                    continue
                if len(loaded) == self._tables.space.block_inputs:
                    continue
                more = {**loaded, source: number}
                own = {**done, number: step}
                yield from self._complete(outputs, own, rest, need, more, kernels)
                continue
            through = need
            for one in step.operands:
                through |= self.always[one]
            if through < 0 or through.bit_count() > self._limit:
                continue
            if any(self.kernels[one] > kernels for one in step.operands):
                continue
            new = {one for one in step.operands if one not in done and one not in rest}
            if number in new:
                continue
            left = tuple(sorted((*rest, *new)))
            own = {**done, number: step}
            yield from self._complete(outputs, own, left, through, loaded, kernels)


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
