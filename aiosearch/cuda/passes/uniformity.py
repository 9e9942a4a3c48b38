"""Which values are the same in all threads of a block, whenever they are computed.

A value is uniform if it is computed from uniform ones. What a thread's index enters is not, and
neither is what comes from memory: another thread may have written there between two reads. So the
answer is on the safe side; a condition around a barrier has to be uniform by CUDA's rules in any
case, and where that is not seen here, the value of thread 0 stands for all.

A loop's values are uniform if they begin so and stay so as long as they all are: the largest such
set is found by assuming all of them and taking back what does not hold, until nothing changes.
Each round takes one back at least, so a loop of n carried values is walked n + 1 times at most.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..ir.operations import (
    CallOperation,
    Compute,
    ConstantOperand,
    For,
    If,
    IrValue,
    Operand,
    Operation,
    ParallelFunction,
    Region,
    While,
    has_barrier,
    operands,
    regions,
    results,
    walk,
)


def uniform_values(function: ParallelFunction) -> set[IrValue]:
    """The uniform values of a kernel."""
    analysis = _Analysis()
    analysis.uniform |= {item.value for item in function.parameters}
    analysis.uniform |= {item.value for item in function.symbols}
    analysis.block(function.body)
    return analysis.uniform


class _Analysis:
    def __init__(self) -> None:
        self.uniform: set[IrValue] = set()

    def is_uniform(self, operand: Operand) -> bool:
        return isinstance(operand, ConstantOperand) or operand in self.uniform

    def all_uniform(self, operands: Sequence[Operand]) -> bool:
        return all(map(self.is_uniform, operands))

    def block(self, block: Region) -> None:
        for operation in block.operations:
            self._operation(operation)

    def _operation(self, operation: Operation) -> None:
        match operation:
            case Compute(result=result, name=name, operands=operands):
                if not name.startswith("thread.") and self.all_uniform(operands):
                    self.uniform.add(result)
            case CallOperation(name="clock"):
                pass
            case If(condition=condition, then=then, otherwise=otherwise, results=results):
                self.block(then)
                self.block(otherwise)
                if self._by_block(operation) and (
                    self.is_uniform(condition) or any(map(has_barrier, (then, otherwise)))
                ):
                    pairs = zip(results, then.yields, otherwise.yields, strict=True)
                    same = {first for first, a, b in pairs if self.all_uniform((a, b))}
                    self._leave(operation, same)
            case For() | While():
                self._loop(operation)
            case _:
                for region in regions(operation):
                    self.block(region)

    def _by_block(self, operation: Operation) -> bool:
        """Whether a block can do the operation once for all its threads.

        It can if a barrier is inside, since then it is taken apart; else only if everything in it
        is uniform arithmetic.
        """
        if any(map(has_barrier, regions(operation))):
            return True
        return all(
            isinstance(item, Compute | If | For | While)
            and all(first in self.uniform for first in results(item))
            and self.all_uniform(operands(item))
            for region in regions(operation)
            for item in walk(region)
        )

    def _loop(self, operation: For | While) -> None:
        before = set(self.uniform)
        pairs = zip(operation.carried, operation.initial, strict=True)
        assumed = {first for first, initial in pairs if self.is_uniform(initial)}
        waits = has_barrier(operation.body)
        counted = (
            waits
            or not isinstance(operation, For)
            or self.all_uniform((operation.low, operation.high))
        )
        while True:
            self.uniform = before | assumed
            if isinstance(operation, For) and counted:
                self.uniform.add(operation.counter)
            self.block(operation.body)
            body = zip(operation.carried, operation.body.yields, strict=True)
            lost = {first for first, last in body if first in assumed and not self.is_uniform(last)}
            # Threads that leave a loop at different times leave it with different values.
            leaves = counted if isinstance(operation, For) else operation.carried[0] in assumed
            leaves = waits or (leaves and self._by_block(operation))
            if not lost:
                break
            assumed -= lost
        if leaves:
            results = zip(operation.results, operation.carried, strict=True)
            self._leave(operation, {result for result, first in results if first in assumed})

    def _leave(self, operation: If | For | While, same: set[IrValue]) -> None:
        """Notes which results are uniform: any where a barrier is inside, else all or none.

        Without a barrier an operation is done as one, by the block or by each thread, so a block
        has a result only if it can have all of them.
        """
        if any(map(has_barrier, regions(operation))) or same == set(operation.results):
            self.uniform |= same
