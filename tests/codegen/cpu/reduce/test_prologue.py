"""What a fold takes while it is in registers, and what others find in memory."""

from __future__ import annotations

import pytest
from testkit.kernels.error_bounds import assert_right
from testkit.kernels.native_run import drawn, program, run

from aiosearch.codegen.cpu.emit.kernel import print_module
from aiosearch.codegen.cpu.reduce.epilogue import Epilogue
from aiosearch.codegen.cpu.reduce.prologue import prologues
from aiosearch.codegen.cpu.schedule import Schedule
from aiosearch.codegen.ir import (
    Apply,
    Buffer,
    BufferLoad,
    Expression,
    KernelStage,
    LoopIndex,
    Module,
    Operation,
    ReductionKind,
    TileKernel,
    index,
)
from aiosearch.codegen.lower.lowering import lower
from aiosearch.codegen.native.machine import host
from aiosearch.codegen.passes.kernel_fusion import fuse_kernels
from aiosearch.tensor import DType, Term, apply, tensor

FLOATS = [DType.F32, DType.F64, DType.BF16, DType.F16]


def whole(*outputs: Term) -> Module:
    """As few kernels as can be."""
    return fuse_kernels(lower(program(*outputs)))


def softmax(dtype: DType, rows: int, columns: int) -> Module:
    x = tensor("X", dtype, (rows, columns))
    e = apply("exp", x - apply("max", x, axes=(1,), keep=True))
    return whole(e / apply("sum", e, axes=(1,), keep=True))


def step(dtype: DType, columns: int) -> Module:
    """Of a normalised transformer, whose second norm is of what a row has become."""
    x, h = tensor("X", dtype, (3, columns)), tensor("H", dtype, (3, columns))

    def scaled(one: Term) -> Term:
        return one / apply("sqrt", apply("sum", one * one, axes=(1,), keep=True))

    return whole(scaled(x + x * scaled(h)))


ROW, COLUMN = LoopIndex("i", 6), LoopIndex("j", 50)
HALF = Buffer("half", DType.BF16, (6, 50))
TOTAL = Buffer("total", DType.F32, (6,))
X = Buffer("X", DType.F32, (6, 50))


def maps(target: Buffer = HALF) -> KernelStage:
    """Of all elements, to others."""
    value = Apply(Operation.EXP, (BufferLoad(X, (index(ROW), index(COLUMN))),))
    return KernelStage(target, (index(ROW), index(COLUMN)), value)


def adds(value: Expression, target: Buffer = TOTAL) -> KernelStage:
    return KernelStage(target, (index(ROW),), value, (COLUMN,), ReductionKind.SUM)


def halves() -> Module:
    """A sum of what is rounded on its way to memory, where others find it."""
    out = Buffer("out", DType.F32, (6, 50))
    first = maps()
    value = Apply(Operation.SUBTRACT, (of(HALF), of(TOTAL, ROW)))
    stages = (first, adds(of(HALF)), KernelStage(out, first.at, value))
    return Module("halves", (X,), (out,), (TileKernel("halves", (X,), (out,), stages),))


def of(buffer: Buffer, *places: LoopIndex) -> BufferLoad:
    return BufferLoad(buffer, tuple(map(index, places or (ROW, COLUMN))))


def pairs(kernel: TileKernel) -> list[tuple[str, str]]:
    found = prologues(kernel.stages, kernel.outputs, {})
    return [(reduction.name, stage.target.name) for reduction, stage in found.items()]


@pytest.mark.parametrize("columns", [1, 3, 17, 64, 1000, 4095])
@pytest.mark.parametrize("dtype", FLOATS)
def test_sums_of_what_is_read_again(dtype: DType, columns: int) -> None:
    """Vectors by themselves, chains of them, lanes that are left, and long sums in pieces."""
    for module in (softmax(dtype, 5, columns), step(dtype, columns)):
        (kernel,) = module.kernels
        assert len(pairs(kernel)) == (columns > 1)
        assert_right(module)


def test_nobody_reads_what_is_in_registers(monkeypatch: pytest.MonkeyPatch) -> None:
    """The code has fewer loads than where a fold comes after what it folds."""
    module = softmax(DType.F32, 4, 4096)
    (kernel,) = module.kernels
    assert pairs(kernel) == [("t2", "t1")]
    ours = print_module(module, {}, host()).text
    monkeypatch.setattr("aiosearch.codegen.cpu.emit.kernel.prologues", lambda *given: {})
    apart = print_module(module, {}, host()).text
    assert ours.count("= load <") < apart.count("= load <")


@pytest.mark.parametrize("keeps", [False, True])
@pytest.mark.parametrize("tile", [1, 16, 100, 1000])
def test_along_an_index(tile: int, keeps: bool) -> None:
    """Tile by tile, with what was folded before; what later passes make again, they make alone."""
    for dtype in FLOATS:
        for module in (softmax(dtype, 3, 1000), step(dtype, 1000)):
            (kernel,) = module.kernels
            along = kernel.indices[-1].name
            own = {kernel.name: Schedule({along: tile}, along, keeps=keeps)}
            assert_right(module, schedules=own, machines=[host()])


def test_what_is_read_in_between_is_made_before() -> None:
    """A stage that reads it, and that the fold waits for, finds it."""
    x = tensor("X", DType.F32, (5, 33))
    e = apply("exp", x)
    largest = apply("max", e, axes=(1,), keep=True)
    total = apply("sum", e * largest, axes=(1,), keep=True)
    module = whole(e / total)
    for kernel in module.kernels:
        made = prologues(kernel.stages, kernel.outputs, {})
        assert len({stage.target for stage in made.values()}) == len(made)
    assert_right(module)


@pytest.mark.parametrize("dtype", FLOATS)
def test_what_ends_another_fold_in_between_is_made_before(dtype: DType) -> None:
    """It is read while the elements of that are in registers, and by no stage."""
    x = tensor("X", dtype, (80, 80))
    a, b = tensor("A", dtype, (80, 40)), tensor("B", dtype, (40, 80))
    e, q = apply("exp", x), a @ b
    total = apply("sum", e, axes=(1,), keep=True)
    largest = apply("max", q * e, axes=(1,), keep=True)
    for outputs in ((q * e, e / total), (apply("exp", q) * e, e / total), (largest / total * e,)):
        assert_right(whole(*outputs), machines=[host()])


def test_other_places_are_read_from_memory() -> None:
    """Elements that a fold takes in another order, or more than once, are there before."""
    x, y = tensor("X", DType.F32, (9, 9)), tensor("Y", DType.F32, (9, 9))
    e = apply("exp", x)
    turned = apply("sum", apply("transpose", e, axes=(1, 0)) * y, axes=(1,))
    for module in (whole(e, e @ y), whole(e * y, turned)):
        assert all(not pairs(kernel) for kernel in module.kernels)
        assert_right(module)


def test_products_with_rows_that_others_share() -> None:
    """A fold of several rows at once reads what it folds from memory."""
    x, w = tensor("X", DType.F32, (7, 40)), tensor("W", DType.F32, (1, 40))
    e = apply("exp", x)
    assert_right(whole(e / apply("sum", e * w, axes=(1,), keep=True)))


def test_what_a_fold_begins_with() -> None:
    """All of it is read at its own places, is worked in the same type, and by nobody before."""
    first, reduction = maps(), adds(of(HALF))
    total, double = reduction.target, Buffer("double", DType.F64, (6,))
    between = KernelStage(Buffer("b", DType.F32, (6, 50)), first.at, of(HALF))
    ending = {total: Epilogue(of(total, ROW), Apply(Operation.ADD, (of(total, ROW), of(HALF))))}
    others = (of(HALF, ROW, ROW), Apply(Operation.ADD, (of(HALF), of(HALF, ROW, ROW))), of(X))
    assert prologues([first, reduction], (), {}) == {total: first}
    assert prologues([first, reduction, between], (), {}) == {total: first}
    assert not prologues([first, between, reduction], (), {})
    assert not prologues([first, reduction], (), ending)
    assert not prologues([first, reduction], (HALF,), {})
    assert not prologues([first, reduction], (total,), {})
    assert not prologues([first, adds(of(HALF), double)], (), {})
    assert not any(prologues([first, adds(one)], (), {}) for one in others)
    assert not prologues([reduction, first], (), {})


@pytest.mark.parametrize("dtype", FLOATS)
def test_bits_are_those_of_a_fold_that_comes_later(
    dtype: DType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is added up when is the same, rounded as it is in memory."""
    modules = [softmax(dtype, 5, 333), step(dtype, 333), halves()]
    given = [drawn(module) for module in modules]
    ours = [run(module, one) for module, one in zip(modules, given, strict=True)]
    monkeypatch.setattr("aiosearch.codegen.cpu.emit.kernel.prologues", lambda *given: {})
    for module, one, found in zip(modules, given, ours, strict=True):
        again = run(module, one)
        assert [each.tobytes() for each in found] == [each.tobytes() for each in again]


def test_outputs_are_filled_by_stages_of_their_own() -> None:
    """Not every block fills an output, and each block needs what it folds."""
    x = tensor("X", DType.F32, (6, 50))
    e = apply("exp", x)
    total = apply("sum", e, axes=(1,))
    again = e / apply("reshape", total, shape=(6, 1))
    for module in (whole(e, total), whole(total, e), whole(total, again)):
        assert_right(module)
