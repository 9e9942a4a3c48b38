"""Lower bounds by operators: how many operators computing a value class takes at least.

Problem: block graphs are read off the derivation graph from their end, and most beginnings of one
never fit into `Space.block_operators`. What each class needs at least is computed once, so that
those are dropped where they begin.

Worked example, x·w summed over a loop: a load of x, a load of w, a product, an accumulation. The
longest way has three operators (load, product, accumulate), but every way goes through four
classes, so `sizes` says 4. `always` of the product holds the bits of both loads.

Invariants: `kernels`, `sizes` and `always` never exceed the truth, so nothing is lost by them;
`below` is an upper bound, of what can be involved at all.

Cost: fixed points over the derivations, of which rms_norm has 449 and LoRA 743; sets of classes are
the bits of an integer.

See docs/why/superoptimizer.md, "Tables instead of a tree".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from .derivations import Derivation, DerivationGraph, Scope

FAR = 1 << 20
"""More than any limit of a space: nothing leads there."""


class OperatorBounds:
    """Lower bounds of every class of a derivation graph; each list is indexed by the number of the
    class.
    """

    def __init__(self, tables: DerivationGraph) -> None:
        self._tables = tables
        self.kernels = self._least(device=1, inside=0)
        """The fewest kernels before a class is there, its own included."""
        self._operators = self._least(device=0, inside=1)
        """Fewest operators on the longest way to it in its own block."""
        self.always = self._always()
        """The classes that every way to a class goes through within its block, as bits; -1 where
        there is no way."""
        self.sizes = self._block_sizes()
        """The fewest operators of a block that computes a class, itself included."""
        self.below = self._below()
        """The classes that some way to a class goes through within its block, as bits."""

    def _least(self, device: int, inside: int) -> list[int]:
        """Computes for each class the least sum of costs on the longest path to it, where a kernel
        costs `device`, and an operator of a block `inside`.
        """
        tables = self._tables
        least = [FAR] * len(tables.classes)
        for number in tables.available:
            least[number] = 0
        users: list[list[tuple[int, Derivation]]] = [[] for _ in tables.classes]
        for number, steps in enumerate(tables.steps):
            for step in steps:
                for operand in step.operands:
                    users[operand].append((number, step))
        # A worklist in place of a sweep: a class is looked at again only when one of its operands
        # got cheaper. Costs are small integers that only fall, so this ends.
        fresh = sorted(tables.available)
        while fresh:
            operand = fresh.pop()
            for number, step in users[operand]:
                outside = tables.classes[number].zone is Scope.DEVICE
                if not inside:
                    most = max(least[source] for source in step.operands)
                    cost = most + (device if outside else 0)
                elif outside:
                    cost = 0
                else:
                    cost = 1 + max(
                        0 if step.operator == "load" else least[source] for source in step.operands
                    )
                if cost < least[number]:
                    least[number] = cost
                    fresh.append(number)
        return least

    def _always(self) -> list[int]:
        """Computes for each class the classes of its block that every path to it has in common."""
        tables = self._tables
        common = [-1] * len(tables.classes)
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
            # All bits set is the neutral element of an intersection: -1 stands for "no way known
            # yet".
            shared_by_all = -1
            for step in tables.steps[number]:
                through = 0
                for operand in step.operands if step.operator != "load" else ():
                    through |= common[operand]
                if through >= 0:
                    shared_by_all &= through
            shared = (
                -1
                if shared_by_all == -1 and not self._loads(number)
                else shared_by_all | 1 << number
            )
            if shared != common[number]:
                common[number] = shared
                fresh += [user for user in users[number] if not self._on_device(user)]
        return common

    def _block_sizes(self) -> list[int]:
        """Computes for each class the fewest operators of a block that computes it, from the sizes
        of its operands and what they need in common.
        """
        steps = self._tables.steps
        sizes = list(self._operators)
        changed = True
        while changed:
            changed = False
            for number, derivations in enumerate(steps):
                if self._on_device(number) or self.always[number] < 0:
                    continue
                size = max(
                    min(map(self._size_through(sizes), derivations), default=FAR), sizes[number]
                )
                changed |= size > sizes[number]
                sizes[number] = size
        return sizes

    def _size_through(self, sizes: Sequence[int]) -> Callable[[Derivation], int]:
        """A function that gives the fewest operators of a block whose last is this derivation."""

        def least(step: Derivation) -> int:
            if step.operator == "load":
                return 1
            need = 0
            for operand in step.operands:
                need |= self.always[operand]
            if need < 0:
                return FAR
            # Two operands share work, so their sizes may not be added; the classes that both must
            # go through, together, are a bound, and so is the larger operand.
            return 1 + max(need.bit_count(), *(sizes[operand] for operand in step.operands))

        return least

    def _loads(self, number: int) -> bool:
        return any(step.operator == "load" for step in self._tables.steps[number])

    def _on_device(self, number: int) -> bool:
        return self._tables.classes[number].zone is Scope.DEVICE

    def _below(self) -> list[int]:
        """Computes for each class the classes that some path to it goes through."""
        steps = self._tables.steps
        involved = [0] * len(steps)
        users: list[list[int]] = [[] for _ in steps]
        for number, ways in enumerate(steps):
            for step in ways:
                for operand in step.operands if step.operator != "load" else ():
                    users[operand].append(number)
        fresh = [number for number in range(len(steps)) if not self._on_device(number)]
        while fresh:
            number = fresh.pop()
            reached = involved[number] | 1 << number
            for user in users[number]:
                if not self._on_device(user) and reached & ~involved[user]:
                    involved[user] |= reached
                    fresh.append(user)
        return involved
