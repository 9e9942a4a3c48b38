"""What readers begin with: the IR as it is printed."""

from __future__ import annotations

import doctest

from aiosearch.codegen import ir
from aiosearch.codegen.ir import (
    Buffer,
    BufferLoad,
    KernelStage,
    LoopIndex,
    Operation,
    ReductionKind,
    index,
)
from aiosearch.tensor import DType


def test_the_worked_example_is_what_is_printed() -> None:
    """A norm and its product look as the package says they do."""
    found = doctest.testmod(ir)
    assert found.attempted > 3
    assert not found.failed


def test_a_stage_runs_along_its_places_and_then_what_it_folds() -> None:
    """Its work is all elements that it goes through."""
    i, j, k = (LoopIndex(name, size) for name, size in zip("ijk", (2, 3, 5), strict=True))
    x = BufferLoad(Buffer("X", DType.F32, (2, 5)), (index(i), index(k)))
    target = Buffer("o", DType.F32, (3, 2))
    stage = KernelStage(target, (index(j), index(i)), x, (k,), ReductionKind.SUM)
    assert stage.indices == (j, i, k)
    assert stage.work == 30


def test_folds_begin_with_what_changes_nothing() -> None:
    assert (ReductionKind.SUM.operation, ReductionKind.SUM.neutral) == (Operation.ADD, 0)
    assert (ReductionKind.MAX.operation, ReductionKind.MAX.neutral) == (
        Operation.MAXIMUM,
        float("-inf"),
    )
