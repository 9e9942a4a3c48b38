"""Constants spread, equal values are computed once, and what nobody uses goes.

A kernel is lowered for one shape of block, so `blockDim.x` is a number, and much follows from it:
`s = blockDim.x / 2` is one, a dimension of size 1 has index 0, and branches on either fall away.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ..ir.builder import folded
from ..ir.operations import (
    Alloc,
    Compute,
    ConstantOperand,
    For,
    If,
    IrValue,
    Load,
    Operand,
    Operation,
    ParallelFunction,
    Region,
    While,
    operands,
    regions,
    results,
    with_regions,
)
from ..ir.types import ScalarType
from .rewriter import substituted


def specialized(function: ParallelFunction, block: tuple[int, int, int]) -> ParallelFunction:
    """The kernel for blocks of this shape."""
    existing = {
        f"block.dim.{axis}": ConstantOperand(size, ScalarType.U32)
        for axis, size in zip("xyz", block, strict=True)
    }
    existing |= {
        f"thread.{axis}": ConstantOperand(0, ScalarType.U32)
        for axis, size in zip("xyz", block, strict=True)
        if size == 1
    }
    return replace(function, body=simplified(function.body, existing))


def simplified(block: Region, indices: Mapping[str, ConstantOperand] | None = None) -> Region:
    """An equal block: folded, without repeated pure operations, without dead ones."""
    values: dict[IrValue, Operand] = {}
    folded = _Folding(indices or {}, values).block(block, {})
    return _alive(folded, set())


class _Folding:
    def __init__(
        self, indices: Mapping[str, ConstantOperand], values: dict[IrValue, Operand]
    ) -> None:
        self._indices = indices
        self._values = values

    def block(self, block: Region, seen: Mapping[object, IrValue]) -> Region:
        """`seen` has the pure operations whose results may be used here."""
        existing = dict(seen)
        lines: list[Operation] = []
        for operation in block.operations:
            self._operation(operation, existing, lines)
        return Region(tuple(lines), tuple(map(self._final, block.yields)))

    def _final(self, operand: Operand) -> Operand:
        while isinstance(operand, IrValue) and operand in self._values:
            operand = self._values[operand]
        return operand

    def _operation(
        self, operation: Operation, existing: dict[object, IrValue], lines: list[Operation]
    ) -> None:
        (operation,) = substituted(Region((operation,)), self._values).operations
        match operation:
            case Compute():
                self._compute(operation, existing, lines)
            case If(condition=ConstantOperand(value=value), then=then, otherwise=otherwise):
                chosen_arm = self.block(then if value else otherwise, existing)
                lines += chosen_arm.operations
                self._values.update(zip(operation.results, chosen_arm.yields, strict=True))
            case If():
                arms = tuple(self.block(item, existing) for item in regions(operation))
                self._branch(replace(operation, then=arms[0], otherwise=arms[1]), lines)
            case For(
                low=ConstantOperand(value=low), high=ConstantOperand(value=high), step=step
            ) if low >= high if step > 0 else low <= high:
                self._values.update(zip(operation.results, operation.initial, strict=True))
            case While(initial=(ConstantOperand(value=False), *_)):
                self._values.update(zip(operation.results, operation.initial, strict=True))
            case For() | While():
                body = self.block(operation.body, existing)
                lines.append(self._loop(with_regions(operation, (body,))))
            case _:
                blocks = tuple(self.block(item, existing) for item in regions(operation))
                lines.append(with_regions(operation, blocks))

    def _loop(self, operation: Operation) -> Operation:
        """A loop without what it carries and never changes; a `while` keeps its condition."""
        assert isinstance(operation, For | While)
        first = 1 if isinstance(operation, While) else 0
        places, constant = [], {}
        for place, (left, last) in enumerate(
            zip(operation.carried, operation.body.yields, strict=True)
        ):
            if place < first or left != last:
                places.append(place)
            else:
                constant[left] = operation.initial[place]
                self._values[operation.results[place]] = operation.initial[place]
        body = Region(
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
        self, operation: Compute, existing: dict[object, IrValue], lines: list[Operation]
    ) -> None:
        result, name = operation.result, operation.name
        if name in self._indices:
            self._values[result] = self._indices[name]
            return
        value = folded(name, result.type, operation.operands)
        if value is None:
            key = (name, result.type, operation.operands)
            value = existing.get(key)
            if value is None:
                existing[key] = result
                lines.append(operation)
                return
        self._values[result] = value

    def _branch(self, operation: If, lines: list[Operation]) -> None:
        """Drops results that both arms agree on, and a branch of which nothing is left."""
        pairs = zip(
            operation.results, operation.then.yields, operation.otherwise.yields, strict=True
        )
        remaining = []
        for result, left, second in pairs:
            if left == second:
                self._values[result] = left
            else:
                remaining.append((result, left, second))
        then = Region(operation.then.operations, tuple(item[1] for item in remaining))
        otherwise = Region(operation.otherwise.operations, tuple(item[2] for item in remaining))
        if remaining or then.operations or otherwise.operations:
            retained = tuple(item[0] for item in remaining)
            lines.append(replace(operation, then=then, otherwise=otherwise, results=retained))


def _alive(block: Region, needed: set[IrValue]) -> Region:
    """Without operations that only compute or read what nobody needs."""
    needed.update(item for item in block.yields if isinstance(item, IrValue))
    lines: list[Operation] = []
    for operation in reversed(block.operations):
        unused = not needed.intersection(results(operation))
        if unused and isinstance(operation, Compute | Load | Alloc):
            continue
        match operation:
            case For() | While():
                operation = _alive_loop(operation, needed)
            case If():
                operation = _alive_branch(operation, needed)
                if unused and not any(item.operations for item in regions(operation)):
                    continue
            case _:
                blocks = tuple(_alive(item, needed) for item in regions(operation))
                operation = with_regions(operation, blocks)
        needed.update(item for item in operands(operation) if isinstance(item, IrValue))
        lines.append(operation)
    return Region(tuple(reversed(lines)), block.yields)


def _alive_branch(operation: If, needed: set[IrValue]) -> If:
    """A branch without the results that nobody needs."""
    places = [place for place, item in enumerate(operation.results) if item in needed]
    arms = [
        _alive(Region(item.operations, _taken(item.yields, places)), needed)
        for item in regions(operation)
    ]
    results = tuple(operation.results[place] for place in places)
    return replace(operation, then=arms[0], otherwise=arms[1], results=results)


def _alive_loop(operation: For | While, needed: set[IrValue]) -> For | While:
    """A loop without what it carries for nobody: a variable that each turn assigns anew, say.

    What is carried is needed if its result is, or if the body needs it for anything that is
    needed, itself not counted.
    """
    first = 1 if isinstance(operation, While) else 0
    places = [
        place for place, item in enumerate(operation.results) if place < first or item in needed
    ]
    while True:
        inside: set[IrValue] = set()
        yields = _taken(operation.body.yields, places)
        body = _alive(Region(operation.body.operations, yields), inside)
        further = [
            place
            for place, item in enumerate(operation.carried)
            if place in places or item in inside
        ]
        if further == places:
            break
        places = further
    needed |= inside
    return replace(
        operation,
        carried=tuple(operation.carried[place] for place in places),
        initial=_taken(operation.initial, places),
        results=tuple(operation.results[place] for place in places),
        body=body,
    )


def _taken(values: tuple[Operand, ...], places: list[int]) -> tuple[Operand, ...]:
    return tuple(values[place] for place in places)
