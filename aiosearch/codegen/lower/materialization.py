"""The choice of values that are stored in buffers; all others are computed again where they are
used."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from ...tensor.mugraph import Kernel
from ...tensor.types import HALVES
from ..ir import Operation
from ..ir.index_maps import Broadcast, Move, Reshape, Slice
from .value_graph import (
    Cast,
    Concatenation,
    LiteralValue,
    MatmulProduct,
    Padding,
    Pointwise,
    ReductionValue,
    StoredValue,
    TensorValue,
    values_below,
)

EXPENSIVE_OPERATIONS = frozenset(
    {
        Operation.DIVIDE,
        Operation.SQRT,
        Operation.EXP,
        Operation.LOG,
        Operation.EXPM1,
        Operation.LOG1P,
        Operation.TANH,
        Operation.ERF,
        Operation.ERFC,
        Operation.SIN,
        Operation.COS,
        Operation.POW,
    }
)
"""Functions that are worth a place in memory."""

_MOST_OPERATIONS_RECOMPUTED = 24
"""So many operations are written down again; more are worth a place in memory too."""

_LONG_REDUCTION = 96
"""So many operations, at most, are one expression."""

_WRITTEN = Pointwise | Cast | Concatenation | Padding
"""What an expression is longer by; what is joined, by all that there is."""


class MaterializationPlan:
    """What is known of the values below some that are wanted."""

    def __init__(self, wanted: Sequence[TensorValue]) -> None:
        self._wanted = frozenset(wanted)
        self._order = list(values_below(wanted))
        self._carriers = self._carrying()
        self._users: dict[TensorValue, list[TensorValue]] = {value: [] for value in self._order}
        self._repeated: set[TensorValue] = set()
        """What is read for each row anew, and differs along it: something of each column, say."""
        self.kept: set[TensorValue] = set()
        """Values with a buffer of their own."""
        self._count()
        self._choose()

    def moves(self, value: TensorValue) -> bool:
        """Whether a value is only another one's elements at other places."""
        kept = value in self._wanted or value in self._carriers
        return isinstance(value.what, Move) and not kept

    def source(self, value: TensorValue) -> TensorValue:
        """What a value's elements are taken from."""
        while self.moves(value):
            (value,) = value.arguments
        return value

    def once(self, value: TensorValue) -> bool:
        """Whether only one other value is made of this one."""
        return len(self._users[value]) == 1 and value not in self._wanted

    def kept_in(self, owner: Kernel | None) -> list[TensorValue]:
        """What is kept for sure, outside of custom kernels or in one, operands first."""
        return [value for value in self._order if self._surely(value, owner)]

    def _surely(self, value: TensorValue, owner: Kernel | None) -> bool:
        if isinstance(value.what, StoredValue):
            return owner is None
        if value.owner is not owner or value not in self.kept:
            return False
        may_join = isinstance(value.what, ReductionValue) or value in self._carriers
        return value in self._wanted or not (may_join and all(map(_takes, self._users[value])))

    def stored(self, kernel: Kernel) -> list[TensorValue]:
        """What is wanted of what a custom kernel stores."""
        return [v for v in self._order if isinstance(v.what, StoredValue) and v.owner is kernel]

    def feeds(self, value: TensorValue) -> bool:
        """Whether a product of half types takes it, which takes it in its own type.

        What else is made of it gets what the program says then: the rounded value.
        """
        return any(map(self._half, self._users[value]))

    def _half(self, user: TensorValue) -> bool:
        if isinstance(user.what, Concatenation):
            return self.feeds(user)
        return isinstance(user.what, MatmulProduct) and user.dtype in HALVES

    def _carrying(self) -> frozenset[TensorValue]:
        """The last forms that folds take before anything is computed of them, kept in their place.

        Each form has all elements of the one before, and nobody else asks for that.
        """
        parents: dict[TensorValue, set[TensorValue]] = {value: set() for value in self._order}
        for value in self._order:
            for argument in value.arguments:
                parents[argument].add(value)
        found: set[TensorValue] = set()
        for value in self._order:
            top = value
            while len(parents[top]) == 1 and top not in self._wanted:
                (parent,) = parents[top]
                if not _rearranged(parent) or parent.size != top.size:
                    break
                top = parent
            if isinstance(value.what, ReductionValue) and top is not value:
                found.add(top)
        return frozenset(found - self._wanted)

    def _count(self) -> None:
        """Who computes something of each value, through whatever moves lie between."""
        for value in self._order:
            if not self.moves(value):
                for argument in value.arguments:
                    source = self.source(argument)
                    self._users[source].append(value)
                    if self._repeats(argument, value):
                        self._repeated.add(source)

    def _repeats(self, value: TensorValue, user: TensorValue) -> bool:
        """Whether rows share what a user reads, through whatever moves lie between."""
        if isinstance(user.what, Pointwise) and _by_rows(value.shape, user.shape):
            return True
        while self.moves(value):
            (source,) = value.arguments
            if isinstance(value.what, Broadcast) and _by_rows(source.shape, value.shape):
                return True
            value = source
        return False

    def _choose(self) -> None:
        """From results to operands: what is computed again has its operands computed again.

        That ends at what is kept, and what is dear is kept where it would be computed again.
        """
        heavy, dear = self._heavy(), self._dear()
        again: set[TensorValue] = set()
        for value in reversed(self._order):
            users = self._users[value]
            shared = len(set(users)) > 1 or value in self._repeated
            if shared or any(user in again for user in users):
                again.add(value)
            worth = value in dear or self._ends_a_product(value)
            if self._must(value) or value in heavy or (value in again and worth):
                self.kept.add(value)
                again.discard(value)

    def _ends_a_product(self, value: TensorValue) -> bool:
        """Whether it is what all make of a product's elements, with numbers: it is stored so."""
        if not isinstance(value.what, Pointwise) or value in self._repeated:
            return False
        numberless = [one for one in value.arguments if not isinstance(one.what, LiteralValue)]
        if len(numberless) != 1:
            return False
        product = self.source(numberless[0])
        alone = product not in self._wanted and set(self._users[product]) == {value}
        return alone and product.size == value.size and self._is_product(product)

    def _is_product(self, value: TensorValue) -> bool:
        while value in self._carriers:
            (value,) = value.arguments
        return isinstance(value.what, ReductionValue) and isinstance(
            value.arguments[0].what, MatmulProduct
        )

    def _must(self, value: TensorValue) -> bool:
        """Whether it is kept whatever it costs."""
        stored = value in self._wanted or value in self._carriers
        return stored or isinstance(value.what, ReductionValue | StoredValue)

    def _heavy(self) -> Collection[TensorValue]:
        """What takes many operations, above all where it is used several times."""
        weights: dict[TensorValue, int] = {}
        found: set[TensorValue] = set()
        for value in self._order:
            weights[value] = 1 + sum(weights[self.source(one)] for one in value.arguments)
            most = _MOST_OPERATIONS_RECOMPUTED if len(self._users[value]) > 1 else _LONG_REDUCTION
            if weights[value] > most and isinstance(value.what, _WRITTEN):
                found.add(value)
            if value in found or self._must(value):
                weights[value] = 0
        return found

    def _dear(self) -> Collection[TensorValue]:
        """What takes a dear function for each element; not one for each row, say."""
        found: set[TensorValue] = set()
        for value in self._order:
            sources = [one for one in map(self.source, value.arguments) if not self._must(one)]
            alike = any(one in found and one.size == value.size for one in sources)
            if _computes(value) and (_own(value) or alike):
                found.add(value)
        return found


def _by_rows(old: Sequence[int], new: Sequence[int]) -> bool:
    """Whether a shape is repeated, but not along its last axis, in which its elements differ."""
    repeated = any(one < other for one, other in zip(old, new, strict=True)) if old else False
    return repeated and old[-1] > 1


def _takes(value: TensorValue) -> bool:
    """Whether a value may be written together with a fold that it is made of."""
    return isinstance(value.what, ReductionValue | StoredValue | Move)


def _rearranged(value: TensorValue) -> bool:
    return isinstance(value.what, Broadcast | Reshape | Slice)


def _computes(value: TensorValue) -> bool:
    return isinstance(value.what, Pointwise | Cast)


def _own(value: TensorValue) -> bool:
    match value.what:
        case Pointwise(operation=Operation.DIVIDE):
            return not isinstance(value.arguments[1].what, LiteralValue)
        case Pointwise():
            return value.what.operation in EXPENSIVE_OPERATIONS
    return False
