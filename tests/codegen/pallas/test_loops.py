"""What stands before, in and behind a block's loops."""

from __future__ import annotations

import numpy as np
from testkit.kernels.pallas_run import drawn, outputs

from aiosearch.codegen import ir
from aiosearch.codegen.ir import (
    Apply,
    Buffer,
    BufferLoad,
    KernelStage,
    LoopIndex,
    Module,
    Operation,
    ReductionKind,
    TileKernel,
)
from aiosearch.codegen.ir.interpreter import interpret
from aiosearch.codegen.pallas import Tiling, write
from aiosearch.tensor import DType

I, K = LoopIndex("i", 5), LoopIndex("k", 70)  # noqa: E741
X, O = Buffer("X", DType.F32, (5, 70)), Buffer("O", DType.F32, (5, 70))  # noqa: E741
MOST, EACH, TOTAL = (Buffer(name, DType.F32, (5,)) for name in ("most", "each", "total"))
WHOLE = (ir.index(I), ir.index(K))
ROW = (ir.index(I),)


def _softmax() -> Module:
    e = Buffer("e", DType.F32, (5, 70))
    less = Apply(Operation.SUBTRACT, (BufferLoad(X, WHOLE), BufferLoad(MOST, ROW)))
    stages = (
        KernelStage(MOST, ROW, BufferLoad(X, WHOLE), (K,), ReductionKind.MAX),
        KernelStage(e, WHOLE, Apply(Operation.EXP, (less,))),
        KernelStage(TOTAL, ROW, BufferLoad(e, WHOLE), (K,), ReductionKind.SUM),
        KernelStage(
            O, WHOLE, Apply(Operation.DIVIDE, (BufferLoad(e, WHOLE), BufferLoad(TOTAL, ROW)))
        ),
    )
    return Module("softmax", (X,), (O,), (TileKernel("softmax", (X,), (O,), stages),))


def _right(module: Module, tiling: Tiling) -> None:
    given = drawn(module.inputs)
    wanted = interpret(module, [np.asarray(one, float) for one in given])
    for found, right in zip(
        outputs(module, {module.kernels[0].name: tiling}, given), wanted, strict=True
    ):
        np.testing.assert_allclose(found, right, rtol=1e-5, atol=1e-6)


def test_what_needs_a_total_and_the_index_again_starts_another_loop() -> None:
    tiling = Tiling({"i": 2, "k": 16})
    assert write(_softmax(), {"softmax": tiling}).count("lax.fori_loop(") == 2
    _right(_softmax(), tiling)


def test_rows_that_lie_whole_need_no_loop() -> None:
    assert "fori_loop" not in write(_softmax(), {"softmax": Tiling({"i": 1})})
    _right(_softmax(), Tiling({"i": 1}))


def test_what_does_not_depend_on_the_loop_is_loaded_before_it() -> None:
    scale = Buffer("scale", DType.F32, (5,))
    product = Apply(Operation.MULTIPLY, (BufferLoad(X, WHOLE), BufferLoad(scale, ROW)))
    out = Buffer("O", DType.F32, (5,))
    kernel = TileKernel(
        "k", (X, scale), (out,), (KernelStage(out, ROW, product, (K,), ReductionKind.SUM),)
    )
    module = Module("m", (X, scale), (out,), (kernel,))
    text = write(module, {"k": Tiling({"i": 1, "k": 16})})
    assert text.index("scale_tile =") < text.index("def loop") < text.index("X_tile =")
    _right(module, Tiling({"i": 1, "k": 16}))


def test_scratch_that_is_read_at_other_places_is_computed_there() -> None:
    turned = (ir.affine({I: -1}, 4), ir.index(K))
    half = Buffer("half", DType.F32, (5, 70))
    stages = (
        KernelStage(half, WHOLE, Apply(Operation.EXP, (BufferLoad(X, WHOLE),))),
        KernelStage(
            O, WHOLE, Apply(Operation.ADD, (BufferLoad(half, WHOLE), BufferLoad(half, turned)))
        ),
    )
    _right(Module("m", (X,), (O,), (TileKernel("k", (X,), (O,), stages),)), Tiling({"k": 16}))


def test_what_is_the_same_in_every_iteration_is_stored_in_all_of_them() -> None:
    out, more = (Buffer(name, DType.F32, (5, 70)) for name in ("out", "more"))
    stages = (
        KernelStage(EACH, ROW, BufferLoad(X, WHOLE), (K,), ReductionKind.SUM),
        KernelStage(out, WHOLE, ir.Constant(2.0)),
        KernelStage(more, WHOLE, Apply(Operation.ADD, (BufferLoad(out, WHOLE), ir.Constant(1.0)))),
        KernelStage(MOST, ROW, BufferLoad(more, WHOLE), (K,), ReductionKind.MAX),
    )
    kernel = TileKernel("k", (X,), (EACH, out, MOST), stages)
    _right(Module("m", (X,), (EACH, out, MOST), (kernel,)), Tiling({"i": 1, "k": 16}))
