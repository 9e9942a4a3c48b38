"""The schedules that are worth a trial."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from random import Random

import pytest
from testkit.kernels.error_bounds import assert_right
from testkit.kernels.lowered import attention, norm
from testkit.kernels.native_run import MACHINES, program

from aiosearch.codegen.cpu.emit.kernel import print_module
from aiosearch.codegen.cpu.packing import PackedLayout
from aiosearch.codegen.cpu.schedule import Schedule
from aiosearch.codegen.cpu.space.choices import choices, schedule_space
from aiosearch.codegen.ir import Module, TileKernel
from aiosearch.codegen.lower.lowering import lower
from aiosearch.codegen.native.machine import CpuMachine, host
from aiosearch.codegen.passes.kernel_fusion import fuse_kernels
from aiosearch.codegen.schedule.space import neighbouring_choices, ranked_choices
from aiosearch.tensor import DType, apply, tensor

BOTH = pytest.mark.parametrize("machine", [MACHINES["host"], MACHINES["portable"]])
ALL = pytest.mark.parametrize("machine", MACHINES.values(), ids=MACHINES)


def product(rows: int, inner: int, columns: int, dtype: DType = DType.F32) -> Module:
    return lower(program(tensor("X", dtype, (rows, inner)) @ tensor("W", dtype, (inner, columns))))


def of(module: Module, machine: CpuMachine, constant: str = "") -> list[Schedule]:
    return choices(module.kernels[0], machine, 2, [constant] if constant else [])


@pytest.mark.parametrize(
    ("machine", "dtype"), [(MACHINES["host"], DType.BF16), (MACHINES["portable"], DType.F32)]
)
def test_all_compute_the_same(machine: CpuMachine, dtype: DType) -> None:
    """A sample of them, packed and not."""
    module = product(9, 70, 100, dtype)
    found = of(module, machine, "W")
    assert any(one.layouts for one in found)
    for own in Random(0).sample(found, 3):
        assert_right(module, schedules={module.kernels[0].name: own}, machines=[machine])


@pytest.mark.parametrize("made", [norm, attention])
def test_kernels_of_several_stages(made: object) -> None:
    """A sample of those of a norm and of attention."""
    assert callable(made)
    module = lower(made())
    found = of(module, host())
    for own in Random(0).sample(found, min(3, len(found))):
        assert_right(module, schedules={module.kernels[0].name: own}, machines=[host()])


@ALL
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("name", ["sum", "max"])
def test_a_fold_of_one_input(name: str, axis: int, machine: CpuMachine) -> None:
    """Down its rows, or along them."""
    module = lower(program(apply(name, tensor("X", DType.F32, (64, 70)), axes=(axis,))))
    for own in Random(0).sample(of(module, machine), 2):
        assert_right(module, schedules={module.kernels[0].name: own}, machines=[machine])


@ALL
@pytest.mark.parametrize("rows", [1, 3, 8])
def test_of_constant_weights_in_rows_few_rows_share_what_was_laid_out(
    rows: int, machine: CpuMachine
) -> None:
    """As PyTorch has weights; lanes lie along their rows then, not along what is multiplied."""
    x, w = tensor("X", DType.F32, (rows, 128)), tensor("W", DType.F32, (256, 128))
    module = lower(program(x @ apply("transpose", w, axes=(1, 0))))
    first = of(module, machine, "W")[0]
    assert first.layouts
    assert (first.registers.rows > 1) == (rows > 1)
    assert_right(module, schedules={module.kernels[0].name: first}, machines=[machine])


def test_of_a_stack_that_is_constant_no_copy_is_made_to_read_one_of_it() -> None:
    """As it would be of all. An axis of one is no stack."""
    x = tensor("X", DType.F32, (8, 64))
    for stacked in (1, 12):
        stack = tensor("W", DType.F32, (stacked, 64, 64))
        first = apply("slice", stack, axis=0, start=0, stop=1)
        module = lower(program(x @ apply("reshape", first, shape=(64, 64))))
        found = of(module, host(), "W")
        assert any(one.layouts for one in found) == (stacked == 1)


@BOTH
def test_sums_fit_the_registers(machine: CpuMachine) -> None:
    """Rows times vectors of sums, and what they are made of."""
    for own in of(product(64, 512, 512), machine):
        rows, vectors = own.registers.rows, own.registers.vectors
        assert 0 < rows * vectors + vectors + 1 <= machine.registers


@BOTH
def test_panels_are_as_wide_as_the_vectors_that_read_them(machine: CpuMachine) -> None:
    """And tiles are whole vectors."""
    module = product(64, 512, 512)
    packed = [one for one in of(module, machine, "W") if one.layouts]
    assert packed
    for own in packed:
        layout = own.layouts["W"]
        assert isinstance(layout, PackedLayout)
        assert layout.width == own.registers.vectors * machine.width // 4
        assert own.tiles["j"] % (machine.width // 4) == 0


@ALL
def test_what_is_read_again_is_in_panels_too(machine: CpuMachine) -> None:
    """Of a block; columns of a factor that are scaled by what their squares come to, say."""
    x, w = tensor("X", DType.F32, (64, 512)), tensor("W", DType.F32, (512, 512))
    scale = apply("sqrt", apply("sum", w * w, axes=(0,)))
    module = fuse_kernels(lower(program((x @ w) / apply("reshape", scale, shape=(1, 512)))))
    found = [one for one in of(module, machine) if one.panels]
    assert found
    assert_right(module, schedules={module.kernels[0].name: found[0]}, machines=[machine])


def heads(dtype: DType, queries: int, keys: int, lead: tuple[int, ...] = (4,)) -> Module:
    """Attention whose keys lie in rows, as its queries do."""
    q, k, v = (
        tensor(name, dtype, (*lead, size, 32))
        for name, size in (("Q", queries), ("K", keys), ("V", keys))
    )
    order = (*range(len(lead)), len(lead) + 1, len(lead))
    e = apply("exp", q @ apply("transpose", k, axes=order))
    shares = e / apply("sum", e, axes=(len(lead) + 1,), keep=True)
    return fuse_kernels(lower(program(shares @ v)))


@ALL
@pytest.mark.parametrize("lead", [(4,), (1, 4)])
@pytest.mark.parametrize(("queries", "keys"), [(96, 64), (64, 96)])
def test_what_many_rows_meet_is_laid_out_by_what_is_made_of_it(
    queries: int, keys: int, lead: tuple[int, ...], machine: CpuMachine
) -> None:
    """Keys in panels, for lanes that lie along them as they do in the scores; not queries."""
    module = heads(DType.F32, queries, keys, lead)
    (kernel,) = module.kernels
    first = of(module, machine)[0]
    assert set(first.panels) == {"K", "V"}
    layout = first.panels["K"]
    assert (layout.row, layout.column) == (len(lead) + 1, len(lead))
    assert_right(module, schedules={kernel.name: first}, machines=[machine])


@ALL
def test_what_few_rows_meet_stays_as_it_lies(machine: CpuMachine) -> None:
    """Nothing is copied for one query: lanes lie along what is multiplied."""
    assert not of(heads(DType.F32, 1, 64), machine)[0].panels


@ALL
def test_of_what_lies_in_panels_tiles_are_whole_vectors(machine: CpuMachine) -> None:
    """None of them is cut so fine that lanes are empty."""
    x, w = tensor("X", DType.F32, (8, 4, 128)), tensor("W", DType.F32, (8, 96, 128))
    module = lower(program(x @ apply("transpose", w, axes=(0, 2, 1))))
    (kernel,) = module.kernels
    (column,) = (one for one in kernel.indices if one.size == 96)
    found = [one for one in of(module, machine) if one.panels]
    assert found
    for own in found:
        size = own.tile(column)
        assert size == 96 or size % own.lanes(machine.width) == 0


@ALL
def test_sums_that_are_long_together_are_cut(machine: CpuMachine) -> None:
    """Each over few products, of both indices that are summed over; a short one is not."""
    for size, cut in ((512, True), (16, False)):
        x, y = tensor("X", DType.F32, (size, size)), tensor("Y", DType.F32, (size, size))
        module = fuse_kernels(lower(program(apply("sum", x * y, axes=(0, 1)))))
        assert all(bool(one.serial) for one in of(module, machine)) is cut


@ALL
def test_sums_that_nothing_cuts_are_as_long_as_they_are(machine: CpuMachine) -> None:
    """No index of theirs is longer than the shortest tile."""
    x, y = (tensor(name, DType.F32, (8, 12, 12, 12)) for name in "XY")
    turned = apply("transpose", y, axes=(0, 3, 2, 1))
    module = fuse_kernels(lower(program(apply("sum", x * turned, axes=(1, 2, 3)))))
    found = of(module, machine)
    assert found
    assert_right(module, schedules={module.kernels[0].name: found[0]}, machines=[machine])


@ALL
def test_what_is_fine_changes_no_result(machine: CpuMachine) -> None:
    """Unrolling, fetching ahead, the order of blocks, and narrower vectors."""
    module = product(300, 64, 160)
    (kernel,) = module.kernels
    own = schedule_space(kernel, machine, 2)
    fine = {at for at, one in enumerate(own.parameters) if one.fine}
    first = ranked_choices(own)[0].point
    near = [
        one
        for one in neighbouring_choices(own, first)
        if any(one.point[at] != first[at] for at in fine)
    ]
    assert {one.schedule.fastest for one in near} > {None}
    assert {one.schedule.registers.prefetch_distance for one in near} > {0}
    narrower = {machine.width // 2} if machine.width > 16 else set()
    assert {one.schedule.width for one in near} == {0, *narrower}
    for one in near:
        assert_right(module, schedules={kernel.name: one.schedule}, machines=[machine])


def test_what_is_fetched_ahead_may_come_nearer() -> None:
    """Where anything is."""
    (kernel,) = product(300, 64, 160).kernels
    own = schedule_space(kernel, host(), 2, ["W"])
    fetched, nearer = set(), []
    for one in ranked_choices(own):
        found = [
            each
            for each in neighbouring_choices(own, one.point)
            if each.schedule.registers.prefetch_to_l1
        ]
        assert bool(found) == (one.schedule.registers.prefetch_distance > 0)
        fetched.add(bool(found))
        nearer += found
    assert fetched == {False, True}
    around = [
        each.schedule.registers
        for one in nearer[:3]
        for each in neighbouring_choices(own, one.point)
    ]
    assert any(each.prefetch_to_l1 for each in around)
    assert all(each.prefetch_distance for each in around if each.prefetch_to_l1)


@pytest.mark.parametrize("dtype", [DType.F32, DType.BF16, DType.F64])
@pytest.mark.parametrize("packed", [False, True])
def test_narrower_vectors_change_no_result(packed: bool, dtype: DType) -> None:
    """Of products, in panels or not: half as wide as the widest."""
    machine = MACHINES["host"]
    if machine.width == 16:
        pytest.skip("vectors are as narrow as can be")
    module = product(9, 70, 100, dtype)
    (kernel,) = module.kernels
    own = schedule_space(kernel, machine, 2, ["W"])
    first = next(
        one
        for one in ranked_choices(own)
        if bool(one.schedule.layouts) == packed and not one.schedule.registers.matrix
    )
    (narrow,) = (one for one in neighbouring_choices(own, first.point) if one.schedule.width)
    assert narrow.schedule.width == machine.width // 2
    assert_right(module, schedules={kernel.name: narrow.schedule}, machines=[machine])
    text = print_module(module, {kernel.name: narrow.schedule}, machine).text
    lanes = machine.width // 8 if dtype is DType.F64 else machine.width // 4
    assert f"<{lanes} x {'double' if dtype is DType.F64 else 'float'}>" not in text


@pytest.mark.parametrize("made", [norm, attention])
def test_kernels_of_several_stages_in_narrower_vectors(made: object) -> None:
    """And maps, which go along nothing."""
    assert callable(made)
    module = lower(made())
    for own in (module, lower(program(apply("exp", tensor("X", DType.F32, (7, 24)))))):
        narrow = {
            one.name: replace(_by_vectors(one), width=max(16, host().width // 2))
            for one in own.kernels
        }
        assert_right(own, schedules=narrow, machines=[host()])


def _by_vectors(kernel: TileKernel) -> Schedule:
    """The best predicted that is for no matrix unit."""
    return next(one for one in choices(kernel, host(), 2) if not one.registers.matrix)


def test_tiles_that_the_second_cache_does_not_hold_break_a_constraint() -> None:
    """The last of them, and no other."""
    kernel, machine = product(64, 512, 4096).kernels[0], MACHINES["portable"]
    large, small = (schedule_space(kernel, replace(machine, l2=1 << bits), 2) for bits in (20, 14))
    assert large.parameters == small.parameters
    lost = {one.point for one in ranked_choices(large)} - {
        one.point for one in ranked_choices(small)
    }
    assert lost
    for point in sorted(lost)[:20]:
        chosen = {one.name: one.values[at] for one, at in zip(small.parameters, point, strict=True)}
        broken = [each for each in small.constraints if not each.holds(*map(chosen.get, each.of))]
        assert broken == [small.constraints[-1]]
        assert {"registers", "row", "laid", "keeps"} < {*broken[0].of}


def test_only_constants_are_packed() -> None:
    """What is given anew at each call stays as it is."""
    assert not any(one.layouts for one in of(product(8, 64, 64), host()))


@BOTH
def test_nothing_comes_twice(machine: CpuMachine) -> None:
    """No schedule is worth two trials."""
    found = of(product(16, 256, 256), machine, "W")
    assert len({repr(one) for one in found}) == len(found)


def test_maps_are_cut_into_blocks_for_all_threads() -> None:
    """A long array is no single block."""
    module = lower(program(apply("exp", tensor("X", DType.F32, (1 << 20,)))))
    for own in of(module, host()):
        assert own.tile(module.kernels[0].indices[0]) <= 1 << 19


def test_what_no_cache_holds_is_fetched_ahead_as_it_lies() -> None:
    """What fits a cache is not, nor what a block lays out for itself."""
    machine = host()
    small, large = (of(product(48, 256, machine.l2 // size), machine) for size in (4096, 512))
    assert not any(one.registers.prefetch_distance for one in small)
    for one in large:
        assert bool(one.registers.prefetch_distance) == (not one.panels)


def test_sums_of_squares_are_not_fetched_ahead() -> None:
    """Rows that lanes lie along follow themselves."""
    x = tensor("X", DType.BF16, (8, 4096))
    (kernel,) = lower(program(apply("sum", x * x, axes=(1,)))).kernels
    assert not any(one.registers.prefetch_distance for one in choices(kernel, host(), 2))


@BOTH
@pytest.mark.parametrize(
    ("rows", "tallest"),
    [(56, {32: 14, 16: 4}), (45, {32: 12, 16: 5}), (13, {32: 13, 16: 4}), (53, {32: 12, 16: 4})],
)
def test_a_register_tile_has_the_most_rows_that_divide_an_index_and_fit(
    rows: int, tallest: Mapping[int, int], machine: CpuMachine
) -> None:
    space = schedule_space(product(rows, 64, 64).kernels[0], machine, 2)
    (registers,) = (each for each in space.parameters if each.name == "registers")
    most = max(count for count, vectors, _ in registers.values if vectors == 2)
    assert most == tallest[machine.registers]
