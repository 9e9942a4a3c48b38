from __future__ import annotations

import numpy as np
import pytest

from aiosearch.codegen.ir import (
    Apply,
    BoundedValue,
    Buffer,
    BufferLoad,
    Constant,
    Expression,
    KernelStage,
    LoopIndex,
    Module,
    Operation,
    PositionValue,
    Quotient,
    ReductionKind,
    Remainder,
    Round,
    TileKernel,
    affine,
    index,
)
from aiosearch.codegen.ir.interpreter import interpret
from aiosearch.tensor import DType

ROW, COLUMN = LoopIndex("i", 4), LoopIndex("j", 3)
X = Buffer("X", DType.F32, (4, 3))
GIVEN = np.arange(12.0).reshape(4, 3)


def run(stage: KernelStage) -> np.ndarray:
    kernel = TileKernel("k", (X,), (stage.target,), (stage,))
    (found,) = interpret(Module("m", (X,), (stage.target,), (kernel,)), [GIVEN])
    return found


def mapped(value: Expression) -> np.ndarray:
    out = Buffer("out", DType.F32, (4, 3))
    return run(KernelStage(out, (index(ROW), index(COLUMN)), value))


def test_a_stage_fills_its_places() -> None:
    out = Buffer("out", DType.F32, (12,))
    flat = run(
        KernelStage(out, (affine({ROW: 3, COLUMN: 1}),), BufferLoad(X, (index(ROW), index(COLUMN))))
    )
    assert (flat == GIVEN.ravel()).all()


def test_folds_are_over_the_indices_that_they_name() -> None:
    out = Buffer("out", DType.F32, (4,))
    value = BufferLoad(X, (index(ROW), index(COLUMN)))
    for reduction, wanted in ((ReductionKind.SUM, GIVEN.sum(1)), (ReductionKind.MAX, GIVEN.max(1))):
        assert (run(KernelStage(out, (index(ROW),), value, (COLUMN,), reduction)) == wanted).all()


def test_positions_may_be_divided_and_counted() -> None:
    flat = affine({ROW: 3, COLUMN: 1})
    assert (mapped(PositionValue(Quotient(flat, 2))) == GIVEN // 2).all()
    assert (mapped(PositionValue(Remainder(flat, 5))) == GIVEN % 5).all()


def test_what_is_outside_is_not_taken() -> None:
    """A place outside of a buffer is an error, but where its value is not used."""
    load = BufferLoad(X, (affine({ROW: 1}, -1), index(COLUMN)))
    inside = BoundedValue(((affine({ROW: 1}, -1), 0, 4),), load, Constant(7))
    assert (mapped(inside) == np.vstack([np.full(3, 7), GIVEN[:-1]])).all()
    with pytest.raises(IndexError, match="outside of an array"):
        mapped(load)


def test_only_whole_numbers_are_rounded_to() -> None:
    """Floats stay as they are, so that sums can be compared closely."""
    third = Apply(Operation.DIVIDE, (BufferLoad(X, (index(ROW), index(COLUMN))), Constant(3)))
    assert (mapped(Round(third, DType.BF16)) == GIVEN / 3).all()
    assert (mapped(Round(third, DType.I32)) == GIVEN // 3).all()


def test_truth_is_one_and_zero() -> None:
    load = BufferLoad(X, (index(ROW), index(COLUMN)))
    less = Apply(Operation.LESS, (load, Constant(5)))
    assert (mapped(less) == (GIVEN < 5)).all()
    assert (
        mapped(Apply(Operation.SELECT, (less, load, Constant(9)))) == np.where(GIVEN < 5, GIVEN, 9)
    ).all()


def test_what_nothing_has_filled_is_no_number() -> None:
    out = Buffer("out", DType.F32, (4, 4))
    found = run(
        KernelStage(out, (index(ROW), index(COLUMN)), BufferLoad(X, (index(ROW), index(COLUMN))))
    )
    assert np.isnan(found[:, 3]).all()
    assert (found[:, :3] == GIVEN).all()
