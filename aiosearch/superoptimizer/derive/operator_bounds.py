"""Lower bounds by operators: how many operators computing a value class takes at least."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from .derivations import Derivation, DerivationGraph, Scope

FAR = 1 << 20


class OperatorBounds:
    """For each class of the tables, by its number."""

    def __init__(self, tables: DerivationGraph) -> None:
        self._tables = tables
        self.kernels = self._least(device=1, inside=0)
        """Fewest kernels before a class is there, its own included."""
        self._operators = self._least(device=0, inside=1)
        """Fewest operators on the longest way to it in its own block."""
        self.always = self._always()
        """As bits, those that every way to it goes through within its block; -1 where none is."""
        self.sizes = self._fewest()
        """Fewest operators of a block that computes it, itself included."""
        self.below = self._below()
        """As bits, those that some way to it goes through within its block."""

    def _least(self, device: int, inside: int) -> list[int]:
        """For each class the least sum of steps on the longest way to it."""
        tables = self._tables
        found = [FAR] * len(tables.classes)
        for number in tables.given:
            found[number] = 0
        users: list[list[tuple[int, Derivation]]] = [[] for _ in tables.classes]
        for number, steps in enumerate(tables.steps):
            for step in steps:
                for operand in step.operands:
                    users[operand].append((number, step))
        fresh = sorted(tables.given)
        while fresh:
            operand = fresh.pop()
            for number, step in users[operand]:
                outside = tables.classes[number].zone is Scope.DEVICE
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
        steps = self._tables.steps
        found = list(self._operators)
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

    def _through(self, sizes: Sequence[int]) -> Callable[[Derivation], int]:
        def least(step: Derivation) -> int:
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
        return self._tables.classes[number].zone is Scope.DEVICE

    def _below(self) -> list[int]:
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
