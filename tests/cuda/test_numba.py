"""Kernels written for `numba.cuda` run as Python would compute them, and are checked by line."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from aiosearch.cuda import LaunchError, SourceError, UnsupportedConstruct
from aiosearch.cuda.interpreter.findings import FindingKind
from aiosearch.cuda.ir.types import ScalarType
from aiosearch.cuda.numba import cuda, patched
from aiosearch.cuda.numba.argument_types import ArrayArgument, Signature, signatures_of

SCALE = 3


@cuda.jit
def scale(a: Any, factor: Any) -> None:
    i = cuda.grid(1)
    if i < a.size:
        a[i] = a[i] * factor + SCALE


def test_globals_and_arguments_are_typed_as_they_come() -> None:
    for dtype in (np.float32, np.float64, np.int32):
        array = np.arange(100).astype(dtype)
        scale[2, 64](array, 2)
        np.testing.assert_array_equal(array, np.arange(100) * 2 + 3)


@cuda.jit
def total(data: Any, out: Any) -> None:
    s = cuda.shared.array(64, np.float32)
    t = cuda.threadIdx.x
    i = cuda.grid(1)
    s[t] = data[i] if i < data.shape[0] else 0.0
    cuda.syncthreads()
    half = cuda.blockDim.x // 2
    while half > 0:
        if t < half:
            s[t] += s[t + half]
        cuda.syncthreads()
        half //= 2
    if t == 0:
        cuda.atomic.add(out, 0, s[0])


def test_a_reduction_in_shared_memory_adds_up() -> None:
    data, out = np.arange(1000, dtype=np.float32), np.zeros(1, np.float32)
    total[16, 64](data, out)
    assert out[0] == data.sum()
    assert total[16, 64].check(data, np.zeros(1, np.float32)) == ()


@cuda.jit(device=True)
def distance(p: Any, i: Any, j: Any) -> Any:
    d = 0
    for k in range(p.shape[1]):
        x = p[i, k] - p[j, k]
        d += x * x
    return math.sqrt(d)


@cuda.jit
def nearest(points: Any, out: Any) -> None:
    i = cuda.grid(1)
    if i >= points.shape[0]:
        return
    best = np.inf
    for j in range(points.shape[0]):
        if j == i:
            continue
        best = min(best, distance(points, i, j))
    out[i] = best


def test_device_functions_loops_and_two_dimensions() -> None:
    points, out = np.random.default_rng(0).random((50, 3)), np.zeros(50)
    nearest[1, 64](points, out)
    apart = np.sqrt(((points[:, None] - points) ** 2).sum(-1)) + np.diag([np.inf] * 50)
    np.testing.assert_allclose(out, apart.min(1))


@cuda.jit
def pythonic(a: Any, b: Any) -> None:
    i = cuda.grid(1)
    x = i - 3
    b[i, 0] = x // 2
    b[i, 1] = x % 3
    b[i, 2] = a[x]
    b[i, 3] = x / 2
    count = 0
    for k in range(10, 0, -2):
        if k == i + 1:
            break
        count += k
    b[i, 4] = count + (1 if 0 <= x < 3 and i != 4 else 0.5)


def test_division_goes_downwards_negative_indices_count_from_the_end_and_types_widen() -> None:
    a, b = np.arange(8.0), np.zeros((8, 5))
    pythonic[1, 8](a, b)
    for i in range(8):
        x, count = i - 3, 0
        for k in range(10, 0, -2):
            if k == i + 1:
                break
            count += k
        last = count + (1 if 0 <= x < 3 and i != 4 else 0.5)
        assert b[i].tolist() == [x // 2, x % 3, a[x], x / 2, last]


@cuda.jit(device=True)
def place_in(row: Any, value: Any) -> Any:
    place = 0
    for k in range(row.shape[0]):
        if value < row[k]:
            break
        place = k + 1
    return place


@cuda.jit
def alternating(step: Any, even: Any, odd: Any, rows: Any, places: Any) -> None:
    if step % 2 == 0:
        target = even
        source = odd
    else:
        target = odd
        source = even
    for i in range(cuda.grid(1), target.shape[0], cuda.gridsize(1)):
        target[i] = source[i - 1] + 1
        places[i] = place_in(rows[i], target[i])
        if rows[i, -1] < target[i]:
            places[i] += place_in(rows[i, :], -1)


def test_a_branch_gives_a_name_one_of_two_arrays_and_a_row_is_an_array() -> None:
    draw = np.random.default_rng(0)
    rows = np.sort(draw.random((20, 5)) * 20, 1)
    even, odd = np.arange(20.0), 2 * np.arange(20.0)
    for step in (0, 1):
        target, source = ((even, odd), (odd, even))[step]
        expected = np.roll(source, 1) + 1
        places = np.zeros(20, np.int64)
        alternating[3, 4](step, even, odd, rows, places)
        np.testing.assert_array_equal(target, expected)
        searched = [
            np.searchsorted(row, value, "right") for row, value in zip(rows, target, strict=True)
        ]
        np.testing.assert_array_equal(places, searched)


@cuda.jit
def inconsistent(a: Any, b: Any) -> None:
    c = a
    if a[0] > 0:
        c = b
    c[0] = 1


def test_a_name_for_arrays_of_different_types_is_refused() -> None:
    with pytest.raises(UnsupportedConstruct, match="c for values of different types"):
        inconsistent[1, 1](np.zeros(4), np.zeros(4, np.float32))


@cuda.jit
def racy(a: Any) -> None:
    a[0] = cuda.threadIdx.x


@cuda.jit
def lanes(out: Any) -> None:
    t = cuda.threadIdx.y * cuda.blockDim.x + cuda.threadIdx.x
    out[t] = cuda.laneid + 100 * cuda.warpsize


def test_a_thread_knows_its_place_in_its_warp() -> None:
    out = np.zeros(80, np.int64)
    lanes[1, (10, 8)](out)
    np.testing.assert_array_equal(out, np.arange(80) % 32 + 3200)


def test_a_launch_for_a_number_of_threads_has_enough_of_them() -> None:
    array = np.zeros(1000, np.float32)
    scale.forall(1000)(array, 2)
    scale.forall(1000, tpb=64, stream=cuda.stream())(array, 2)
    np.testing.assert_array_equal(array, 3 * 2 + 3)


def test_streams_and_events_have_nothing_to_wait_for() -> None:
    begin, end = cuda.event(), cuda.event(timing=True)
    with pytest.raises(LaunchError, match="recorded"):
        begin.elapsed_time(end)
    with cuda.stream().auto_synchronize() as stream:
        begin.record(stream)
        end.record(stream)
    end.synchronize()
    assert 0 <= cuda.event_elapsed_time(begin, end) == begin.elapsed_time(end)


def test_a_name_of_numba_that_is_not_here_is_named() -> None:
    with pytest.raises(AttributeError, match=r"numba\.cuda\.cudadrv is not here"):
        cuda.cudadrv  # noqa: B018  # it is looked up


@cuda.jit
def incomplete(a: Any) -> None:
    cuda.atomic.add(a, 0)


def test_a_call_that_lacks_arguments_is_named_with_its_line() -> None:
    with pytest.raises(UnsupportedConstruct, match=r":\d+: cuda\.atomic\.add\(a, 0\)"):
        incomplete[1, 1](np.zeros(1))


def test_a_kernel_of_python_is_checked_on_a_grid_of_a_real_size() -> None:
    array = np.zeros(100, np.float32)
    assert scale[4, 64].check_compiled(array, 2) == ()
    scale[4, 64].trial(array, 2)
    (finding,) = racy[40, 64].check_compiled(array)
    assert finding.kind is FindingKind.RACE


def test_a_race_is_found_at_its_line_of_python() -> None:
    (finding,) = racy[1, 32].check(np.zeros(4))
    assert finding.kind == FindingKind.RACE
    assert finding.at.file == __file__
    assert finding.at.line == racy.function.__code__.co_firstlineno + 2


@cuda.jit
def sliced(a: Any) -> None:
    a[1:] = 0


def test_what_is_outside_is_named() -> None:
    with pytest.raises(UnsupportedConstruct, match="a slice"):
        sliced[1, 1](np.zeros(4))
    with pytest.raises(LaunchError):
        scale(np.zeros(4), 1)


def test_code_that_imports_numba_runs_unchanged_while_it_is_patched() -> None:
    with patched():
        from numba import cuda as theirs

        device = theirs.to_device(np.arange(4.0))
        scale[1, 32](device, 1)
        assert device.copy_to_host().tolist() == [3, 4, 5, 6]
        assert theirs is cuda
        assert [device.id for device in theirs.list_devices()] == [0]
        with theirs.gpus[0]:
            theirs.current_context().deallocations.clear()
        with pytest.raises(LaunchError, match="no device 1"):
            theirs.select_device(1)


@cuda.jit("void(float32[:], int32)")
def counted(a: Any, n: Any) -> None:
    a[0] = n // 2


def test_a_signature_converts_numbers_and_refuses_other_arrays() -> None:
    a = np.zeros(1, np.float32)
    counted[1, 1](a, True)
    counted[1, 1](a, np.int64(7))
    assert a[0] == 3
    for arguments, wrong in [
        ((np.zeros(1), 7), r"a is float32\[:\], and the argument float64\[:\]: convert it"),
        ((a, 7.5), "n is int32, which does not hold 7.5"),
        ((a, 1 << 31), "n is int32, which does not hold 2147483648"),
        ((a, a), "n is int32, and the argument an array"),
        ((3, 7), "the argument no array but 3"),
        ((a,), "takes 2 arguments, not 1"),
    ]:
        with pytest.raises(LaunchError, match=wrong):
            counted[1, 1](*arguments)


@cuda.jit(["(float32[:], float32)", "(int32[::1], float32)"])
def signed_twice(a: Any, factor: Any) -> None:
    a[0] = a[0] * factor


def test_of_several_signatures_the_first_that_fits_is_taken() -> None:
    kernel, _ = signed_twice.bound((np.zeros(2, np.int32), 2))
    assert [item.value.type for item in kernel.function.parameters][-1] is ScalarType.F32
    with pytest.raises(LaunchError, match=r"float32\[:\].*; or a is int32\[:\]"):
        signed_twice[1, 1](np.zeros(2), 2)


@cuda.jit("float32(float32, int8)", device=True)
def narrowed(x: Any, n: Any) -> Any:
    return x + n


@cuda.jit
def widened(a: Any) -> None:
    a[0] = narrowed(1 + 1e-9, 300) - 1


def test_a_device_function_converts_as_its_signature_says() -> None:
    a = np.zeros(1)
    widened[1, 1](a)
    assert a[0] == np.int32(300).astype(np.int8)


@pytest.mark.parametrize(
    ("supplied", "wrong"),
    [
        ("void(float32[::1, :])", "row by row"),
        ("void(floaty)", "floaty is no type of numbers"),
        ("void(", "never closed"),
        ("void(complex64)", "complex64 is no type"),
        (3, "has to be text"),
        ("float32(float32)", "returns nothing"),
        ("void(int32, int32)", "takes 1 arguments, and its signature 2"),
    ],
)
def test_a_signature_that_says_nothing_is_refused_where_it_stands(
    supplied: object, wrong: str
) -> None:
    with pytest.raises(SourceError, match=wrong):
        cuda.jit(supplied)(lambda a: None)


def test_signatures_are_made_of_types_where_numba_is_not_installed() -> None:
    with patched():
        import numba

        made = numba.void(numba.float32[:, :], numba.int8)
        expected = Signature((ArrayArgument(ScalarType.F32, 2), ScalarType.I8))
        assert signatures_of(made, "made") == (expected,)
        assert signatures_of((numba.float32[:, ::1], numba.int8), "made") == (expected,)
        assert numba.float32(2) == 2
        assert np.zeros(1, numba.int8).dtype == np.int8
