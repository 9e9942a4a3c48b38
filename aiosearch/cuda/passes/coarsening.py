"""Larger pieces of work: several blocks as one block, and two launches as one kernel.

**Coarsening** makes neighbouring blocks the rows of a larger one, each with its own shared memory:

    block.x = 0, 1, 2, 3 of 8 threads       becomes   block.x = 0, 1 of (8, 2) threads
    thread.x reads s[thread.x]              becomes   reads s[thread.x] of the part thread.y

Blocks of 8 threads fill half a vector of 16 lanes, two of them fill it; and rows that are done
together read once what all of them need. A barrier then waits for all the parts at once, which is
more than it has to and is right if all of them reach it equally often. So every condition and bound
around a barrier has to be the same in all blocks that become one.

**Fusion** makes two launches of one shape a kernel that does both for each thread, so that what the
first one writes is still in a register's reach when the second reads it. On a GPU all threads of
the first are done before any of the second begins. The order of two accesses, one in each kernel
and one of them a write, is therefore kept only if they are the same thread's: their addresses must
be the same form of the indices, and a form that no two threads of the grid share.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ..ir.operations import (
    Alloc,
    Atomic,
    Barrier,
    CallOperation,
    Compute,
    ConstantOperand,
    For,
    If,
    IrValue,
    Load,
    MemorySpace,
    Operand,
    Operation,
    ParallelFunction,
    Parameter,
    Region,
    Symbol,
    Warp,
    While,
    has_barrier,
    inner,
    regions,
    results,
    walk,
    with_regions,
)
from ..ir.types import ScalarType
from .effects import AffineForm, Definitions, Effect, effects
from .rewriter import substituted
from .simplification import simplified, specialized
from .uniformity import uniform_values

Dims = tuple[int, int, int]

_WARP = 32
_ALIGN = 16
"""Bytes to which the shared memory of each part is rounded, so that all are aligned alike."""


@dataclass(frozen=True, slots=True)
class Coarsened:
    """A kernel for blocks that are several of the launch's, or why it stays as it is."""

    function: ParallelFunction
    block: Dims
    factor: int = 1
    refusal: str = ""


def coarsened(function: ParallelFunction, block: Dims, factor: int) -> Coarsened:
    """Makes so many blocks along x one, where that is legal; for a `specialized` kernel."""
    refusal = _refusal(function, block)
    if factor <= 1 or refusal:
        return Coarsened(function, block, 1, refusal)
    merged, axis = _merged(function, block, factor)
    larger = (block[0], factor, 1) if axis == "y" else (block[0], block[1], factor)
    if not _waits_evenly(merged):
        return Coarsened(
            function, block, 1, "a condition around a barrier may differ between blocks"
        )
    return Coarsened(merged, larger, factor)


def _refusal(function: ParallelFunction, block: Dims) -> str:
    operations = list(walk(function.body))
    if block[2] > 1:
        return "the block has three dimensions already"
    if any(isinstance(item, Alloc) and item.size is None for item in operations):
        return "shared memory has a size that only the launch tells"
    if any(isinstance(item, Warp) for item in operations) and block[0] * block[1] % _WARP:
        return "a warp would reach into the next block"
    waits = any(isinstance(item, Barrier) for item in operations)
    if waits and any(
        isinstance(item, CallOperation) and item.name == "exit" for item in operations
    ):
        return "threads return before a barrier"
    if any(isinstance(item, Barrier) and item.dims != "xyz" for item in operations):
        return "a barrier waits along some dimensions only"
    return ""


def _merged(function: ParallelFunction, block: Dims, factor: int) -> tuple[ParallelFunction, str]:
    axis = "y" if block[1] == 1 else "z"
    numbers = NewValues(function)
    part = numbers.value(ScalarType.U32, "part")
    wide = numbers.value(ScalarType.I64)
    head: list[Operation] = [Compute(part, f"thread.{axis}", ()), Compute(wide, "cast", (part,))]
    lines: list[Operation] = []
    for operation in function.body.operations:
        match operation:
            case Compute(result=result, name="block.x"):
                outer, first = numbers.value(ScalarType.U32), numbers.value(ScalarType.U32)
                head.append(Compute(outer, "block.x", ()))
                head.append(Compute(first, "mul", (outer, ConstantOperand(factor, ScalarType.U32))))
                lines.append(Compute(result, "add", (first, part)))
            case Compute(result=result, name="grid.dim.x"):
                outer = numbers.value(ScalarType.U32)
                head.append(Compute(outer, "grid.dim.x", ()))
                lines.append(
                    Compute(result, "mul", (outer, ConstantOperand(factor, ScalarType.U32)))
                )
            case Alloc(result=result, space=MemorySpace.SHARED, size=size) if size is not None:
                stride = -(-size // _ALIGN) * _ALIGN
                whole, offset = numbers.value(ScalarType.PTR), numbers.value(ScalarType.I64)
                head.append(replace(operation, result=whole, size=stride * factor))
                head.append(Compute(offset, "mul", (wide, ConstantOperand(stride, ScalarType.I64))))
                lines.append(Compute(result, "ptradd", (whole, offset)))
            case _:
                lines.append(operation)
    body = Region((*head, *lines), function.body.yields)
    return replace(function, body=simplified(body)), axis


def _waits_evenly(function: ParallelFunction) -> bool:
    """Whether everything around a barrier is proved to be the same in all threads of a block."""
    uniform = uniform_values(function)

    def known(operand: Operand) -> bool:
        return isinstance(operand, ConstantOperand) or operand in uniform

    for operation in walk(function.body):
        if not any(map(has_barrier, regions(operation))):
            continue
        match operation:
            case If(condition=condition) if not known(condition):
                return False
            case For(low=low, high=high) if not (known(low) and known(high)):
                return False
            case While(carried=carried) if not known(carried[0]):
                return False
    return True


@dataclass(frozen=True, slots=True)
class FusedLaunch:
    """One launch of two, as numbers: what a kernel is passed, known when it is launched."""

    function: ParallelFunction
    values: tuple[int | float | bool, ...]


def fused(
    first: FusedLaunch, second: FusedLaunch, grid: Dims, block: Dims, buffers: Mapping[int, int]
) -> FusedLaunch | str:
    """Both as one launch, or why that is not legal.

    `buffers` says of each address that is passed in which piece of memory it lies: memory of
    different pieces does not overlap.
    """
    for launch in (first, second):
        for operation in walk(launch.function.body):
            if isinstance(operation, CallOperation):
                return f"{launch.function.name} calls {operation.name}"
            if isinstance(operation, Alloc) and operation.size is None:
                return "shared memory has a size that only the launch tells"
    accesses = [_Accesses.of(launch, grid, block, buffers) for launch in (first, second)]
    for before in accesses[0].listed:
        for behind in accesses[1].listed:
            reason = _disorder(before, behind, grid, block)
            if reason:
                return reason
    return FusedLaunch(_joined(first.function, second.function), (*first.values, *second.values))


@dataclass(frozen=True, slots=True)
class _GridAccess:
    """An access whose form is in indices alone: coefficients by the name of the index."""

    memory: int | None
    address: int
    terms: tuple[tuple[str, int], ...] | None
    constant: int
    writes: bool
    size: int
    kernel: str


@dataclass(frozen=True, slots=True)
class _Accesses:
    listed: tuple[_GridAccess, ...]

    @staticmethod
    def of(launch: FusedLaunch, grid: Dims, block: Dims, buffers: Mapping[int, int]) -> _Accesses:
        # The numbers of this launch are put in, so that a row's length is a coefficient.
        function = specialized(launch.function, block)
        numbers = {
            parameter.value: ConstantOperand(value, parameter.value.type)
            for parameter, value in zip(function.parameters, launch.values, strict=True)
            if parameter.value.type is not ScalarType.PTR
        }
        body = simplified(substituted(function.body, numbers))
        definitions = Definitions(replace(function, body=body))
        pointers = {
            parameter.value: int(value)
            for parameter, value in zip(function.parameters, launch.values, strict=True)
            if parameter.value.type is ScalarType.PTR
        }
        symbols = {symbol.value: -1 - place for place, symbol in enumerate(function.symbols)}
        listed = []
        for effect in effects(body, definitions):
            if effect.root is not None and definitions.is_alloc(effect.root):
                continue
            listed.append(
                _grid_access(effect, definitions, pointers, symbols, buffers, function.name)
            )
        return _Accesses(tuple(listed))


def _grid_access(
    effect: Effect,
    definitions: Definitions,
    pointers: Mapping[IrValue, int],
    symbols: Mapping[IrValue, int],
    buffers: Mapping[int, int],
    kernel: str,
) -> _GridAccess:
    root = effect.root
    memory: int | None = None
    address = 0
    if root is not None and root in pointers:
        address = pointers[root]
        memory = buffers.get(address)
    elif root is not None and root in symbols:
        memory = symbols[root]
    return _GridAccess(
        memory,
        address,
        _indices(effect.form, definitions),
        0 if effect.form is None else effect.form.constant,
        effect.writes,
        effect.size,
        kernel,
    )


def _indices(
    form: AffineForm | None, definitions: Definitions
) -> tuple[tuple[str, int], ...] | None:
    if form is None:
        return None
    collected: dict[str, int] = {}
    for value, factor in form.terms:
        name = definitions.index_of(value)
        if name is None or not name.startswith(("thread.", "block.")) or "dim" in name:
            return None
        collected[name] = collected.get(name, 0) + factor
    return tuple(sorted(collected.items()))


def _disorder(before: _GridAccess, behind: _GridAccess, grid: Dims, block: Dims) -> str:
    """Why the order of two accesses could change; nothing where it cannot."""
    if not (before.writes or behind.writes):
        return ""
    if before.memory is not None and behind.memory is not None and before.memory != behind.memory:
        return ""
    reason = f"{behind.kernel} may touch what another thread of {before.kernel} touches"
    same_form = (
        before.memory is not None
        and before.memory == behind.memory
        and before.address + before.constant == behind.address + behind.constant
        and before.terms is not None
        and before.terms == behind.terms
        and before.size == behind.size
    )
    if not same_form or before.terms is None:
        return reason
    return "" if _injective(before.terms, before.size, grid, block) else reason


def _injective(terms: Sequence[tuple[str, int]], size: int, grid: Dims, block: Dims) -> bool:
    """Whether no two threads of the grid have the same place: a number system of mixed base."""
    sizes = {f"block.{axis}": count for axis, count in zip("xyz", grid, strict=True)}
    sizes |= {f"thread.{axis}": count for axis, count in zip("xyz", block, strict=True)}
    factors = dict(terms)
    if any(count > 1 and not factors.get(name) for name, count in sizes.items()):
        return False
    span = size
    for factor, count in sorted(
        (abs(factors.get(name, 0)), count) for name, count in sizes.items()
    ):
        if count == 1:
            continue
        if factor < span:
            return False
        span += factor * (count - 1)
    return True


def _joined(first: ParallelFunction, second: ParallelFunction) -> ParallelFunction:
    """One kernel that does both for each thread; the second's values get other numbers."""
    numbers = NewValues(first)
    renamed = renumbered(second, numbers)
    names = {item.name for item in first.parameters}
    parameters = tuple(
        replace(item, name=f"{item.name}_{second.name}" if item.name in names else item.name)
        for item in renamed.parameters
    )
    shared = {item.name: item.value for item in first.symbols}
    both = {item.value: shared[item.name] for item in renamed.symbols if item.name in shared}
    symbols = tuple(item for item in renamed.symbols if item.name not in shared)
    body = substituted(renamed.body, both)
    # Threads of a block may be anywhere in the first body, and shared memory is each kernel's own,
    # so nothing is between the two.
    return replace(
        first,
        name=f"{first.name}_{second.name}",
        parameters=(*first.parameters, *parameters),
        symbols=(*first.symbols, *symbols),
        body=Region((*first.body.operations, *body.operations)),
    )


class NewValues:
    """Values that a function does not have yet."""

    def __init__(self, function: ParallelFunction) -> None:
        outside: list[Parameter | Symbol] = [*function.parameters, *function.symbols]
        defined = [item.value.number for item in outside]
        for operation in walk(function.body):
            defined += [item.number for item in (*results(operation), *inner(operation))]
        self._last = max(defined, default=0)

    def value(self, type: ScalarType, hint: str = "") -> IrValue:
        self._last += 1
        return IrValue(self._last, type, hint)


def renumbered(function: ParallelFunction, numbers: NewValues) -> ParallelFunction:
    """The function with new values, so that it can stand beside another one."""
    renamed: dict[IrValue, IrValue] = {}

    def new(value: IrValue) -> IrValue:
        if value not in renamed:
            renamed[value] = numbers.value(value.type, value.hint)
        return renamed[value]

    def defined(operation: Operation) -> Operation:
        blocks = tuple(whole(item) for item in regions(operation))
        if blocks:
            operation = with_regions(operation, blocks)
        match operation:
            case For():
                return replace(
                    operation,
                    counter=new(operation.counter),
                    carried=tuple(map(new, operation.carried)),
                    results=tuple(map(new, operation.results)),
                )
            case While():
                return replace(
                    operation,
                    carried=tuple(map(new, operation.carried)),
                    results=tuple(map(new, operation.results)),
                )
            case If():
                return replace(operation, results=tuple(map(new, operation.results)))
            case Compute() | Load() | Atomic() | Alloc() | Warp():
                return replace(operation, result=new(operation.result))
            case CallOperation(result=IrValue() as result):
                return replace(operation, result=new(result))
            case _:
                return operation

    def whole(block: Region) -> Region:
        return Region(tuple(map(defined, block.operations)), block.yields)

    parameters = tuple(replace(item, value=new(item.value)) for item in function.parameters)
    symbols = tuple(replace(item, value=new(item.value)) for item in function.symbols)
    body = whole(function.body)
    # `substituted` follows replacements, and a new number may be an old one: in two steps, then.
    return replace(function, parameters=parameters, symbols=symbols, body=_put(body, renamed))


def _put(block: Region, renamed: Mapping[IrValue, IrValue]) -> Region:
    """Replaces uses once."""
    aside = {old: IrValue(-1 - place, old.type, old.hint) for place, old in enumerate(renamed)}
    back = {aside[old]: fresh for old, fresh in renamed.items()}
    return substituted(substituted(block, aside), back)
