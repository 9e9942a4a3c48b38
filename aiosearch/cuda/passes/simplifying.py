"""Constants spread, equal values are computed once, and what nobody uses goes.

A kernel is lowered for one shape of block, so `blockDim.x` is a number, and much follows from it:
`s = blockDim.x / 2` is one, a dimension of size 1 has index 0, and branches on either fall away.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ..ir import folding
from ..ir.operations import (
    Alloc,
    Block,
    Compute,
    Constant,
    For,
    Function,
    If,
    Load,
    Operand,
    Operation,
    Value,
    While,
    operands,
    regions,
    results,
    with_regions,
)
from ..ir.types import Scalar
from .rewriting import substituted


def specialized(function: Function, block: tuple[int, int, int]) -> Function:
    """The kernel for blocks of this shape."""
    known = {
        f"block.dim.{axis}": Constant(size, Scalar.U32)
        for axis, size in zip("xyz", block, strict=True)
    }
    known |= {
        f"thread.{axis}": Constant(0, Scalar.U32)
        for axis, size in zip("xyz", block, strict=True)
        if size == 1
    }
    return replace(function, body=simplified(function.body, known))


def simplified(block: Block, indices: Mapping[str, Constant] | None = None) -> Block:
    """An equal block: folded, without repeated pure operations, without dead ones."""
    values: dict[Value, Operand] = {}
    folded = _Folding(indices or {}, values).block(block, {})
    return _alive(folded, set())


class _Folding:
    def __init__(self, indices: Mapping[str, Constant], values: dict[Value, Operand]) -> None:
        self._indices = indices
        self._values = values

    def block(self, block: Block, seen: Mapping[object, Value]) -> Block:
        """`seen` has the pure operations whose results may be used here."""
        known = dict(seen)
        lines: list[Operation] = []
        for operation in block.operations:
            self._operation(operation, known, lines)
        return Block(tuple(lines), tuple(map(self._final, block.yields)))

    def _final(self, operand: Operand) -> Operand:
        while isinstance(operand, Value) and operand in self._values:
            operand = self._values[operand]
        return operand

    def _operation(
        self, operation: Operation, known: dict[object, Value], lines: list[Operation]
    ) -> None:
        (operation,) = substituted(Block((operation,)), self._values).operations
        match operation:
            case Compute():
                self._compute(operation, known, lines)
            case If(condition=Constant(value=value), then=then, otherwise=otherwise):
                taken = self.block(then if value else otherwise, known)
                lines += taken.operations
                self._values.update(zip(operation.results, taken.yields, strict=True))
            case If():
                arms = tuple(self.block(each, known) for each in regions(operation))
                self._branch(replace(operation, then=arms[0], otherwise=arms[1]), lines)
            case For(low=Constant(value=low), high=Constant(value=high), step=step) if (
                low >= high if step > 0 else low <= high
            ):
                self._values.update(zip(operation.results, operation.initial, strict=True))
            case While(initial=(Constant(value=False), *_)):
                self._values.update(zip(operation.results, operation.initial, strict=True))
            case For() | While():
                body = self.block(operation.body, known)
                lines.append(self._loop(with_regions(operation, (body,))))
            case _:
                blocks = tuple(self.block(each, known) for each in regions(operation))
                lines.append(with_regions(operation, blocks))

    def _loop(self, operation: Operation) -> Operation:
        """A loop without what it carries and never changes; a `while` keeps its condition."""
        assert isinstance(operation, For | While)
        first = 1 if isinstance(operation, While) else 0
        places, constant = [], {}
        for place, (one, last) in enumerate(
            zip(operation.carried, operation.body.yields, strict=True)
        ):
            if place < first or one != last:
                places.append(place)
            else:
                constant[one] = operation.initial[place]
                self._values[operation.results[place]] = operation.initial[place]
        body = Block(
            operation.body.operations, tuple(operation.body.yields[place] for place in places)
        )
        self._values.update(constant)
        return replace(
            operation,
            carried=tuple(operation.carried[place] for place in places),
            initial=tuple(operation.initial[place] for place in places),
            results=tuple(operation.results[place] for place in places),
            body=substituted(body, constant),
        )

    def _compute(
        self, operation: Compute, known: dict[object, Value], lines: list[Operation]
    ) -> None:
        result, name = operation.result, operation.name
        if name in self._indices:
            self._values[result] = self._indices[name]
            return
        value = folding.folded(name, result.type, operation.operands)
        if value is None:
            key = (name, result.type, operation.operands)
            value = known.get(key)
            if value is None:
                known[key] = result
                lines.append(operation)
                return
        self._values[result] = value

    def _branch(self, operation: If, lines: list[Operation]) -> None:
        """Drops results that both arms agree on, and a branch of which nothing is left."""
        pairs = zip(
            operation.results, operation.then.yields, operation.otherwise.yields, strict=True
        )
        remaining = []
        for result, one, other in pairs:
            if one == other:
                self._values[result] = one
            else:
                remaining.append((result, one, other))
        then = Block(operation.then.operations, tuple(each[1] for each in remaining))
        otherwise = Block(operation.otherwise.operations, tuple(each[2] for each in remaining))
        if remaining or then.operations or otherwise.operations:
            kept = tuple(each[0] for each in remaining)
            lines.append(replace(operation, then=then, otherwise=otherwise, results=kept))


def _alive(block: Block, needed: set[Value]) -> Block:
    """Without operations that only compute or read what nobody needs."""
    needed.update(each for each in block.yields if isinstance(each, Value))
    lines: list[Operation] = []
    for operation in reversed(block.operations):
        unused = not needed.intersection(results(operation))
        if unused and isinstance(operation, Compute | Load | Alloc):
            continue
        blocks = tuple(_alive(each, needed) for each in regions(operation))
        operation = with_regions(operation, blocks)
        if unused and isinstance(operation, If) and not any(each.operations for each in blocks):
            continue
        needed.update(each for each in operands(operation) if isinstance(each, Value))
        lines.append(operation)
    return Block(tuple(reversed(lines)), block.yields)
