"""Kernels written for `numba.cuda` run as Python would compute them, and are checked by line."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from aiosearch.cuda import LaunchError, UnsupportedConstruct
from aiosearch.cuda.interpreter.findings import FindingKind
from aiosearch.cuda.numba import cuda, patched

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
