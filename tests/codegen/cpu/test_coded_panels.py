"""Panels of bf16 in three quarters of their bytes: any bits come out as they went in."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import ml_dtypes
import numpy as np
import pytest
from testkit.kernels.error_bounds import assert_right
from testkit.kernels.native_run import Array, program, run, run_native

from aiosearch.codegen.cpu import coding
from aiosearch.codegen.cpu.coded_format import (
    EXCEPTION_COUNT_OFFSET,
    EXCEPTION_LIST_OFFSET,
    UNCODED_PANEL,
    CodedPanelFormat,
)
from aiosearch.codegen.cpu.emit.access import PREFETCHED_HEAD_LINES
from aiosearch.codegen.cpu.emit.kernel import print_module
from aiosearch.codegen.cpu.packing import PackedLayout
from aiosearch.codegen.cpu.panel_encoder import encode_panels
from aiosearch.codegen.cpu.register_layout import RegisterRequest
from aiosearch.codegen.cpu.schedule import Schedule
from aiosearch.codegen.cpu.space.choices import schedule_space
from aiosearch.codegen.ir import Module
from aiosearch.codegen.lower.lowering import lower
from aiosearch.codegen.native.machine import CpuMachine, host, masked
from aiosearch.codegen.passes.kernel_fusion import fuse_kernels
from aiosearch.codegen.schedule.space import ranked_choices
from aiosearch.tensor import DType, apply, tensor

runs = pytest.mark.skipif(
    not host().bf16_dot or host().width != 64, reason="this processor adds no pairs of bf16"
)
MACHINES = [host(), masked(host(), "amx")]
LARGE = CpuMachine(
    "x86_64-unknown-linux-gnu",
    "sapphirerapids",
    "+avx,+avx2,+fma,+f16c,+avx512f,+avx512bw,+avx512dq,+avx512vl,+avx512bf16,+amx-tile,+amx-bf16",
)

DIGEST = "828b95ab0f45226bc9b4c8ab30809a10c8007dc0d529b334c693b463b94d3863"
"""Of some panel, coded."""


def weights(kind: str, shape: tuple[int, ...]) -> Array:
    """Of sizes that fit the codes well, hardly, or not at all."""
    random = np.random.default_rng(7)
    found = random.standard_normal(shape).astype(np.float32)
    some = found.reshape(-1)[:: found.size // 5]
    match kind:
        case "some are small":
            some *= 2.0**-40
        case "some are zero":
            found[found < 0] = 0
        case "some are not finite":
            some[:] = np.resize([np.inf, -np.inf, np.nan], some.size)
        case "all are tiny":
            found *= 2.0**-126
        case "of any size":
            found *= 2.0 ** random.integers(-60, 60, shape)
    return found.astype(ml_dtypes.bfloat16)


KINDS = ("normal", "some are small", "some are zero", "some are not finite", "of any size")


def product(rows: int, inner: int, columns: int) -> Module:
    x, y = tensor("X", DType.BF16, (rows, inner)), tensor("Y", DType.BF16, (inner, columns))
    return lower(program(x @ y))


def wide(vectors: int) -> dict[str, PackedLayout]:
    return {"Y": PackedLayout(0, 1, vectors * 16, True, coded=True)}


def given(module: Module, kind: str) -> Sequence[Array]:
    random = np.random.default_rng(3)
    x, y = (one.shape for one in module.inputs)
    return [random.standard_normal(x).astype(ml_dtypes.bfloat16), weights(kind, y)]


def panels(elements: Array) -> Array:
    """One panel, as `encoded` takes it."""
    return elements.reshape(1, -1, 32, 2)


def told(words: Array) -> int:
    """The count in the head of the first panel."""
    return int(words.view(np.int32)[EXCEPTION_COUNT_OFFSET // 4])


@runs
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("inner", "rows", "held", "vectors"), [(31, 1, 1, 4), (64, 17, 6, 2), (130, 5, 4, 4)]
)
def test_sums_are_those_of_the_elements(
    kind: str, inner: int, rows: int, held: int, vectors: int
) -> None:
    """Also of an odd number of rows, and of factors that are not finite or very large."""
    module = product(rows, inner, 128)
    own = {
        "program": Schedule(
            registers=RegisterRequest(held, vectors, 2, inner % 2), layouts=wide(vectors)
        )
    }
    inputs = given(module, kind)
    assert_right(module, inputs, own, MACHINES)
    inputs[0][0, :4] = np.float32([np.inf, -np.inf, 3e38, 0])
    assert_right(module, inputs, own, MACHINES)


@runs
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("inner", "rows", "held", "vectors"),
    [(95, 1, 16, 4), (64, 40, 32, 2), (33, 16, 16, 4), (20, 18, 16, 2)],
)
def test_a_matrix_unit_reads_them_too(
    kind: str, inner: int, rows: int, held: int, vectors: int
) -> None:
    """And what is left of its steps is read by pairs; all of it where that is no whole step."""
    module = product(rows, inner, 128)
    wishes = RegisterRequest(held, vectors, 1 + rows % 2, inner % 2, matrix=True)
    own = {"program": Schedule(registers=wishes, layouts=wide(vectors))}
    assert_right(module, given(module, kind), own, MACHINES)


@runs
@pytest.mark.parametrize(
    ("kind", "length", "matrix"),
    [
        ("some are small", 32, False),
        ("some are small", 48, True),
        ("some are not finite", 32, True),
        ("of any size", 48, False),
    ],
)
def test_exceptions_count_in_their_tile_alone(kind: str, length: int, matrix: bool) -> None:
    """Where a block goes along what is summed, and adds to what is there."""
    module = product(20, 100, 64)
    k = next(one.name for one in module.kernels[0].indices if one.size == 100)
    own = {"program": Schedule({k: length}, k, RegisterRequest(16, 2, matrix=matrix), wide(2))}
    assert_right(module, given(module, kind), own, MACHINES)


@runs
@pytest.mark.parametrize("turned", [False, True])
def test_stacks_and_columns_that_lie_in_rows(turned: bool) -> None:
    x = tensor("X", DType.BF16, (3, 19, 70))
    y = tensor("Y", DType.BF16, (3, 64, 70) if turned else (3, 70, 64))
    module = lower(program(x @ (apply("transpose", y, axes=(0, 2, 1)) if turned else y)))
    layout = PackedLayout(2 if turned else 1, 1 if turned else 2, 32, True, coded=True)
    own = {"program": Schedule(registers=RegisterRequest(8, 2), layouts={"Y": layout})}
    for kind in ("some are small", "of any size"):
        assert_right(module, given(module, kind), own, MACHINES)


@runs
def test_what_has_no_exceptions_gives_the_same_bits() -> None:
    """The smallest numbers as well, of which products of pairs make nothing."""
    module = product(3, 64, 64)
    x, _ = given(module, "normal")
    for kind in ("all are tiny", "some are zero"):
        inputs = [x, weights(kind, (64, 64)) * ml_dtypes.bfloat16(2.0**-2)]
        assert 0 <= told(np.asarray(encode_panels(panels(inputs[1])))) <= 8
        ways = [{"Y": PackedLayout(0, 1, 64, True, coded=one)} for one in (False, True)]
        found = [
            run(
                module, inputs, {"program": Schedule(registers=RegisterRequest(3, 4), layouts=way)}
            )[0]
            for way in ways
        ]
        assert found[0].tobytes() == found[1].tobytes()


@runs
def test_whatever_stands_in_a_head_is_read_within_bounds() -> None:
    """As in a trial run on drawn numbers: counts, places and names of any size."""
    module = product(5, 64, 128)
    own = {"program": Schedule(registers=RegisterRequest(4, 4, 2, 1), layouts=wide(4))}
    codes = wide(4)["Y"].codes((64, 128))
    x, _ = given(module, "normal")
    printed = print_module(module, own, host())
    random = np.random.default_rng(5)
    words = random.integers(-(1 << 31), 1 << 31, codes.bytes // 4).astype(np.int32)
    for count in (
        -1,
        0,
        5,
        codes.most,
        codes.most + 1,
        UNCODED_PANEL - 1,
        UNCODED_PANEL,
        (1 << 31) - 1,
    ):
        words[EXCEPTION_COUNT_OFFSET // 4] = words[(codes.head + EXCEPTION_COUNT_OFFSET) // 4] = (
            count
        )
        run_native(printed, [x, words], host())


@runs
@pytest.mark.parametrize("matrix", [False, True])
def test_kernels_with_two_coded_inputs(matrix: bool) -> None:
    """Side by side, one after the other, and in blocks of some panels."""
    x = tensor("X", DType.BF16, (5, 64))
    one, two = (tensor(name, DType.BF16, (64, 128)) for name in "VW")
    module = fuse_kernels(lower(program(apply("silu", x @ one) * (x @ two))))
    layouts = {name: PackedLayout(0, 1, 32, True, coded=True) for name in "VW"}
    columns = next(one.name for one in module.kernels[0].indices if one.size == 128)
    random = np.random.default_rng(1)
    made = {
        "X": random.standard_normal((5, 64)).astype(ml_dtypes.bfloat16),
        "V": weights("some are small", (64, 128)),
        "W": weights("of any size", (64, 128)),
    }
    inputs = [made[one.name] for one in module.inputs]
    for tile in (32, 64):
        own = Schedule({columns: tile}, None, RegisterRequest(4, 2, matrix=matrix), layouts)
        schedules = {one.name: own for one in module.kernels}
        assert_right(module, inputs, schedules, MACHINES[1 - matrix :][:1])


def test_every_schedule_that_is_proposed_can_be_printed() -> None:
    """Also where columns of one product are summed by the next one, and cut."""
    x = tensor("X", DType.BF16, (128, 512))
    w1, w2 = tensor("W1", DType.BF16, (512, 64)), tensor("W2", DType.BF16, (64, 512))
    (kernel,) = fuse_kernels(lower(program((x @ w1) @ w2))).kernels
    module = Module("program", kernel.inputs, kernel.outputs, (kernel,))
    found = ranked_choices(schedule_space(kernel, LARGE, 2, ["W1", "W2"]))
    coded = [
        one.schedule for one in found if any(way.coded for way in one.schedule.layouts.values())
    ]
    kinds = {(one.registers, one.serial, tuple(one.tiles.items())[-1]): one for one in coded}
    assert kinds
    for one in [*kinds.values()][::40]:
        print_module(module, {kernel.name: one}, LARGE)


def fetching(ahead: int, nearest: bool = False) -> str:
    """The text of a product of one row that fetches from so far ahead."""
    own = Schedule(
        registers=RegisterRequest(1, 4, prefetch_distance=ahead, prefetch_to_l1=nearest),
        layouts=wide(4),
    )
    module = product(1, 64, 128)
    return print_module(module, {one.name: own for one in module.kernels}, LARGE).text


@pytest.mark.parametrize("rows", [1, 2])
def test_they_are_fetched_further_ahead_where_little_is_computed_in_between(rows: int) -> None:
    """Of 4096 bytes of panels twice as many pairs of rows, and of one row four times."""
    (kernel,) = product(rows, 4096, 4096).kernels
    for one in ranked_choices(schedule_space(kernel, masked(LARGE, "amx"), 2, ["Y"])):
        wishes, (layout,) = one.schedule.registers, one.schedule.layouts.values()
        if layout.coded and wishes.prefetch_distance:
            assert wishes.prefetch_distance == 4096 // (4 * layout.width) * (4 if rows == 1 else 2)
            break
    else:
        pytest.fail("nothing coded is fetched")


@pytest.mark.parametrize("nearest", [False, True])
def test_they_are_fetched_into_the_cache_that_is_said_and_heads_into_the_second(
    nearest: bool,
) -> None:
    lines = fetching(3, nearest).splitlines()
    found = [line[-len("3, i32 1)")] for line in lines if "call void @llvm.prefetch" in line]
    assert set(found[:PREFETCHED_HEAD_LINES]) == {"2"}
    assert set(found[PREFETCHED_HEAD_LINES:]) == {"3" if nearest else "2"}


def test_no_more_is_fetched_before_a_panel_than_it_holds() -> None:
    """However far ahead: of 64 rows 32 pairs."""

    def bounds(ahead: int) -> list[str]:
        return [line for line in fetching(ahead).splitlines() if "icmp" in line]

    assert bounds(16) != bounds(32) == bounds(4000)


def test_the_form_stays_as_it_is() -> None:
    """Modules that were written once bring code that reads it."""
    bits = np.arange(4096, dtype=np.uint32) * 40503 >> 4 & 0xFFFF
    usual, rare = 0x3A00 + (bits & 0x85FF), 0x0101 + (bits & 0x7000)
    bits = np.where(np.arange(4096) % 601, usual, rare)
    found = np.asarray(encode_panels(panels(bits.astype(np.uint16).view(ml_dtypes.bfloat16))))
    assert 0 < told(found) <= CodedPanelFormat(1, 4096).most
    assert hashlib.sha256(found.tobytes()).hexdigest() == DIGEST


def test_panels_take_three_quarters_of_their_bytes() -> None:
    """What is behind is never read, unless there are more exceptions than are listed."""
    elements = weights("some are small", (64, 64))
    words = np.asarray(encode_panels(panels(elements)))
    codes = CodedPanelFormat(1, 64 * 64)
    assert words.nbytes == codes.bytes
    body = words[codes.head // 4 :].tobytes()
    assert not any(body[3 * 64 * 64 // 2 :])
    assert any(body[3 * 64 * 64 // 2 - 64 : 3 * 64 * 64 // 2])
    assert 6 <= told(words) <= codes.most
    assert (
        told(np.asarray(encode_panels(panels(weights("of any size", (64, 64)))))) == UNCODED_PANEL
    )


@pytest.mark.parametrize("scale", [0.02, 1.0, 1.15, 1.7])
def test_few_of_normal_weights_are_exceptions(scale: float) -> None:
    """Wherever the sizes that share a first byte begin: less than one in a thousand."""
    drawn = np.random.default_rng(4).standard_normal((4096, 64), np.float32) * np.float32(scale)
    count = told(np.asarray(encode_panels(panels(drawn.astype(ml_dtypes.bfloat16)))))
    assert 0 < count < drawn.size / 1000


def test_exceptions_are_listed_with_what_they_are_more() -> None:
    elements = np.full((4096,), 1.0, ml_dtypes.bfloat16)
    kinds = np.float32([2.0**at for at in range(-8, 120, 8)] + [-3.0] * 2)
    elements[: len(kinds)] = kinds
    head = np.asarray(encode_panels(panels(elements)))[: CodedPanelFormat(1, 4096).head // 4]
    listed = head[EXCEPTION_LIST_OFFSET // 4 :].reshape(-1, 2)[: told(head)]
    places, more = listed[:, 0], listed[:, 1].copy().view(np.float32)
    assert len(places) > 0
    assert list(more) == [float(elements[at]) for at in places]


def test_schedules_propose_them_for_a_few_rows_of_what_fills_panels() -> None:
    machine = masked(LARGE, "amx")

    def any_coded(rows: int, columns: int, machine: CpuMachine) -> list[bool]:
        (kernel,) = product(rows, 4096, columns).kernels
        found = ranked_choices(schedule_space(kernel, machine, 2, ["Y"]))
        return [any(way.coded for way in one.schedule.layouts.values()) for one in found]

    assert any_coded(1, 4096, machine)[0]
    assert not any_coded(4096, 4096, machine)[0]
    assert not any(any_coded(1, 4095, machine))
    assert any(any_coded(1, 4096, masked(machine, "avx512bf16")))
    assert not any(any_coded(1, 4096, masked(machine, "avx512")))


def test_answers_of_the_first_version_find_the_encoder() -> None:
    """They import `encoded` from where it was."""
    assert coding.encoded is encode_panels
