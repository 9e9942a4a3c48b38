"""Halves that are widened once, where products read them again and again."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from testkit.kernels.error_bounds import assert_right
from testkit.kernels.native_run import MACHINES, drawn, program, run

from aiosearch.codegen.cpu.cost.kernel_cost import KernelCost
from aiosearch.codegen.cpu.emit.kernel import print_module
from aiosearch.codegen.cpu.index_roles import index_roles
from aiosearch.codegen.cpu.packing import PackedLayout
from aiosearch.codegen.cpu.prepare.transpose_kernels import with_transposes
from aiosearch.codegen.cpu.register_layout import RegisterRequest
from aiosearch.codegen.cpu.schedule import Schedule
from aiosearch.codegen.cpu.space.choices import choices
from aiosearch.codegen.ir import Module
from aiosearch.codegen.lower.lowering import lower
from aiosearch.codegen.native.assembly import assembly_text
from aiosearch.codegen.native.machine import CpuMachine, host, masked
from aiosearch.codegen.passes.kernel_fusion import fuse_kernels
from aiosearch.tensor import DType, apply, tensor
from aiosearch.tensor.programs import builtin

FEATURES = "+avx,+avx2,+fma,+f16c,+avx512f,+avx512bw,+avx512dq,+avx512vl,+avx512bf16"
SLOW, FAST = (
    CpuMachine("x86_64-unknown-linux-gnu", name, FEATURES) for name in ("sapphirerapids", "znver4")
)
EXACT = {name: masked(one, "avx512bf16") for name, one in MACHINES.items()}
"""Machines that have no instruction which rounds otherwise."""
HALVES = pytest.mark.parametrize("dtype", [DType.BF16, DType.F16])
EACH = pytest.mark.parametrize("machine", MACHINES.values(), ids=MACHINES)


def product(dtype: DType, rows: int, inner: int, columns: int) -> Module:
    return lower(program(tensor("X", dtype, (rows, inner)) @ tensor("Y", dtype, (inner, columns))))


def attention(dtype: DType) -> Module:
    """Whose shares are rounded to halves before they meet the values."""
    return fuse_kernels(lower(builtin("gqa", dtype, row=65, feature=8, key=37, value=24)))


def ways(module: Module, machine: CpuMachine) -> Iterator[Schedule]:
    """To copy rows and columns, whole and in tiles that divide nothing."""
    lanes, names = machine.width // 4, {one.size: one.name for one in module.kernels[0].indices}
    columns, rows = PackedLayout(0, 1, 2 * lanes, False), PackedLayout(1, 0, 4, False)
    tiles = {names[50]: 2 * lanes, names[19]: 8}
    for cut, serial in (({}, None), ({**tiles, names[45]: 14}, names[45])):
        own = Schedule(cut, serial, RegisterRequest(4, 2), wide=True)
        yield replace(own, staged=("X",))
        yield replace(own, panels={"Y": columns})
        yield replace(own, transposed={"X": rows})
        yield replace(own, transposed={"X": rows}, panels={"Y": columns})
        yield replace(own, staged=("X",), layouts={"Y": columns})


def test_copies_are_right_however_tiles_are_cut() -> None:
    """Also where an instruction adds up pairs of what is not copied."""
    module = product(DType.BF16, 19, 45, 50)
    for own in ways(module, host()):
        assert_right(module, schedules={"program": own}, machines=[host()])


@pytest.mark.parametrize("machine", EXACT.values(), ids=EXACT)
@HALVES
def test_not_a_bit_is_another_where_nothing_but_copies_changes(
    dtype: DType, machine: CpuMachine
) -> None:
    """Without the instruction for pairs: the same numbers are multiplied in the same order."""
    module = product(dtype, 19, 45, 50)
    inputs = drawn(module)
    for own in ways(module, machine):
        found, usual = (
            run(module, inputs, {"program": one}, machine)
            for one in (own, replace(own, wide=False))
        )
        assert [one.tobytes() for one in found] == [one.tobytes() for one in usual], own


@EACH
@HALVES
@pytest.mark.parametrize("serial", [False, True])
def test_what_a_block_makes_is_rounded_as_before(
    dtype: DType, serial: bool, machine: CpuMachine
) -> None:
    module = attention(dtype)
    (kernel,) = module.kernels
    keys = next(one.name for one in kernel.indices if one.size == 37)
    own = Schedule({keys: 10} if serial else {}, keys if serial else None, wide=True)
    assert_right(module, schedules={kernel.name: own}, machines=[machine])
    exact, inputs = masked(machine, "avx512bf16"), drawn(module)
    found, usual = (
        run(module, inputs, {kernel.name: one}, exact) for one in (own, replace(own, wide=False))
    )
    assert [one.tobytes() for one in found] == [one.tobytes() for one in usual]


@EACH
@pytest.mark.parametrize("inner", [1, 2, 7, 8])
@pytest.mark.parametrize("wide", [False, True])
def test_pairs_meet_floats(inner: int, wide: bool, machine: CpuMachine) -> None:
    """Panels of bf16 in pairs, and what lanes share in f32: of the program, or of a copy."""
    x = tensor("X", DType.BF16 if wide else DType.F32, (5, inner))
    y = tensor("Y", DType.BF16, (inner, 40))
    module = fuse_kernels(lower(program(x @ (y if wide else apply("cast", y, dtype=DType.F32)))))
    layout = PackedLayout(0, 1, 2 * (machine.width // 4), True)
    own = Schedule(
        registers=RegisterRequest(4, 2),
        layouts={"Y": layout},
        staged=("X",) if wide else (),
        wide=wide,
    )
    assert_right(module, schedules={"program": own}, machines=[machine])


@EACH
def test_pairs_of_what_is_no_number(machine: CpuMachine) -> None:
    """Each half keeps its bits: infinities, NaN, zeros with a sign, the smallest numbers."""
    module = product(DType.BF16, 4, 2, 2 * (machine.width // 4))
    own = Schedule(
        registers=RegisterRequest(4, 2),
        layouts={"Y": PackedLayout(0, 1, 2 * (machine.width // 4), True)},
        staged=("X",),
        wide=True,
    )
    x, y = drawn(module)
    odd = [np.inf, -np.inf, np.nan, 0.0, -0.0, 1e-40, 3e38, 1.0]
    y[...] = np.resize(odd, y.size).reshape(y.shape).astype(y.dtype)
    x[...] = np.float32([[1, 0], [0, 1], [1, 1], [-1, 1]]).astype(x.dtype)
    (found,) = run(module, [x, y], {"program": own}, masked(machine, "avx512bf16"))
    with np.errstate(invalid="ignore", over="ignore"):
        exact = (x.astype(np.float64)[:, :, None] * y.astype(np.float64)).sum(axis=1)
        wanted = exact.astype(np.float32).astype(y.dtype)
    np.testing.assert_array_equal(found.astype(np.float32), wanted.astype(np.float32))


def test_a_vector_of_pairs_is_two_of_floats_by_one_instruction_each() -> None:
    """And the factor that lanes share is spread by the product itself."""
    module = product(DType.BF16, 16, 64, 48)
    own = Schedule(
        registers=RegisterRequest(16, 1, 1),
        layouts={"Y": PackedLayout(0, 1, 16, True)},
        transposed={"X": PackedLayout(1, 0, 16, False)},
        wide=True,
    )
    text = assembly_text(print_module(module, {"program": own}, SLOW), SLOW)
    assert "vdpbf16ps" not in text
    loop = max(re.split(r"\n\.L\w+:", text), key=lambda part: part.count("vfmadd"))
    products = [line for line in loop.splitlines() if "vfmadd" in line]
    assert len(products) == 32
    assert sum("{1to16}" in line for line in products) == 32
    assert len(re.findall(r"vpslld|vpand|vpsrld", loop)) == 2


@pytest.mark.parametrize("rows", [8, 16, 64])
def test_where_the_instruction_for_pairs_is_slow_it_is_not_tried_first(rows: int) -> None:
    (kernel,) = product(DType.BF16, rows, 4096, 4096).kernels
    assert choices(kernel, SLOW, 2, ["Y"])[0].wide
    assert not any(one.wide for one in choices(kernel, FAST, 2, ["Y"]))


def test_products_that_nobody_widened_are_as_slow_as_they_were() -> None:
    """Of a block's own shares with values as they lie; what it makes itself is f32 meanwhile."""
    (kernel,) = fuse_kernels(lower(builtin("gqa", DType.BF16))).kernels
    own = KernelCost(kernel, index_roles(kernel, SLOW), SLOW, 2)
    plain = Schedule({"i": 1, "j": 64}, "k1", RegisterRequest(8, 2))
    both = replace(plain, wide=True)
    copied = replace(both, staged=("Q",))
    assert own.seconds(copied) < own.seconds(both) < own.seconds(plain)


def test_what_is_no_half_is_turned_once_for_those_that_widen_and_others() -> None:
    x = tensor("X", DType.F32, (8, 64))
    module = lower(program(*(x @ tensor(name, DType.F32, (64, 48)) for name in "WV")))
    own = Schedule(registers=RegisterRequest(8, 1), transposed={"X": PackedLayout(1, 0, 8, False)})
    first, second = (one.name for one in module.kernels)
    found, _ = with_transposes(module, {first: own, second: replace(own, wide=True)})
    assert len(found.kernels) == 3


def test_nothing_is_widened_that_is_no_half() -> None:
    (kernel,) = product(DType.F32, 16, 512, 512).kernels
    assert not any(one.wide for one in choices(kernel, SLOW, 2, ["Y"]))


@pytest.mark.parametrize(("kilobytes", "wide"), [(96, {False}), (512, {False, True})])
def test_what_is_widened_fits_the_second_cache(kilobytes: int, wide: set[bool]) -> None:
    """A copy of all 64 rows takes 64 KB as halves, and 128 KB as floats."""
    (kernel,) = product(DType.BF16, 64, 512, 512).kernels
    found = choices(kernel, replace(SLOW, l2=kilobytes << 10), 2)
    rows, whole = kernel.indices[0].name, [one for one in found if one.staged and not one.serial]
    assert {one.wide for one in whole if one.tiles[rows] == 64} == wide


def test_the_host_knows_whether_its_own_is_slow() -> None:
    assert SLOW.slow_dots
    assert not FAST.slow_dots
    assert not masked(SLOW, "avx512bf16").slow_dots
    assert host().slow_dots <= host().bf16_dot
