from __future__ import annotations

import math

import pytest
from msgspec.structs import replace
from testkit.superoptimizer.small_gpu import GPU

from aiosearch.devices import DeviceKind
from aiosearch.superoptimizer.cost.prediction import predict
from aiosearch.tensor import Block, DType, Program, Term, apply, literal, tensor
from aiosearch.tensor.analysis.cost import cost

CPU = replace(GPU, kind=DeviceKind.CPU, unit_blocks=1, unit_threads=1, block_threads=1)

X = tensor("X", "f32", (4, 6))
W = tensor("W", "f32", (6, 8))
V = tensor("V", "f32", (8,))


def program(*outputs: Term) -> Program:
    return Program("program", (X, W, V), outputs)


def columns(grid: int, loop: int = 1) -> Program:
    """X·W, its columns split over blocks."""
    block = Block((grid,), loop)
    tiles = block.load(X, loop=1) @ block.load(W, (1,), loop=0)
    return program(*block.results((block.accumulate(tiles), (1,))))


def test_a_library_kernel_takes_its_launch_and_the_longer_of_two_things() -> None:
    """Traffic and arithmetic overlap; kernels follow each other."""
    found = predict(program(X @ W), GPU)
    assert found.seconds == 2 + 4 * (24 + 48 + 32) / 100
    assert (found.launches, found.device_bytes, found.operations) == (1, 416, 384)
    slow = replace(GPU, operations_per_second={DType.F32: 1})
    assert predict(program(X @ W), slow).seconds == 2 + 384
    two = predict(program(apply("exp", X @ W)), GPU)
    assert two.seconds == found.seconds + 2 + 4 * (32 + 32) / 100


def test_costs_are_those_of_the_cost_rules() -> None:
    """Operations and kernels agree with what is counted without a device."""
    for each in (program(X @ W), columns(2, 3), program(apply("exp", X) @ W * 2)):
        found, counted = predict(each, GPU), cost(each)
        assert (found.operations, found.launches) == (counted.flops, counted.kernels)
        assert found.cache_bytes == counted.bytes_read + counted.bytes_written


def test_what_fits_the_cache_is_fetched_once() -> None:
    """A tensor that all blocks load comes from the device's memory once, else every time."""
    assert predict(columns(4), GPU).device_bytes == 4 * (24 + 48 + 32)
    tiny = replace(GPU, cache_bytes=50)
    assert predict(columns(4), tiny).device_bytes == 4 * (4 * 24 + 48 + 32)
    for device in (GPU, tiny):
        assert predict(columns(4), device).cache_bytes == 4 * (4 * 24 + 48 + 32)


def test_a_tensor_that_is_loaded_twice_streams_twice() -> None:
    """By two maps of one kernel it goes through the cache for each, and is fetched once."""
    block = Block((2,))
    tiles = block.load(X, (0,)), block.load(X)
    one, two = (block.accumulate(tile, "sum") for tile in tiles)
    found = predict(program(*block.results((one, (0,)), (two, (0,)))), GPU)
    assert found.cache_bytes == 4 * (24 + 2 * 24 + 4 + 8)
    assert found.device_bytes == 4 * (24 + 4 + 8)


def test_the_cache_may_be_what_takes_longest() -> None:
    """Traffic within the device counts at the speed of its cache."""
    slow = replace(GPU, cache_bytes_per_second=1)
    assert predict(columns(8), slow).seconds == 2 + 4 * (8 * 24 + 48 + 32)


@pytest.mark.parametrize(("grid", "stretch"), [(1, 4), (2, 2), (4, 1), (8, 1)])
def test_units_without_a_block_do_nothing(grid: int, stretch: int) -> None:
    """A grid that does not fill the device gets a part of its speed."""
    found = predict(columns(grid), CPU)
    assert found.seconds == 2 + stretch * 4 * (24 + 48 + 32) / 100


def test_arithmetic_takes_as_long_as_the_unit_with_most_blocks() -> None:
    """Of eight blocks three units have three, three and two; traffic does not mind."""
    slow = replace(CPU, units=3, operations_per_second={DType.F32: 1})
    assert predict(columns(8), slow).seconds == pytest.approx(2 + (384 + 32) * 9 / 8)
    assert predict(columns(8), replace(CPU, units=3)).seconds == predict(columns(8), CPU).seconds


def test_a_block_alone_waits_for_its_loads() -> None:
    """Traffic and arithmetic add up on a GPU where a unit has no second block to turn to."""
    added, overlapped = 4 * (24 + 48 + 32) / 100 + (384 + 32) / 1000, 4 * (24 + 48 + 32) / 100
    assert predict(columns(4), GPU).seconds == pytest.approx(2 + added)
    assert predict(columns(8), GPU).seconds == pytest.approx(2 + overlapped)
    crowded = replace(GPU, unit_shared_bytes=200)
    assert predict(columns(8), crowded).seconds == pytest.approx(2 + added)


def test_details_of_a_custom_kernel() -> None:
    """Blocks, the waves in which they run, and what of a unit they take."""
    (kernel,) = predict(columns(8), replace(GPU, unit_blocks=1)).kernels
    assert kernel.blocks is not None
    assert kernel.blocks.count == 8
    assert kernel.blocks.shared_bytes == 4 * (24 + 6 + 4)
    assert (kernel.blocks.resident, kernel.blocks.waves) == (1, 2)
    assert kernel.blocks.occupancy == 128 / 1024


def test_a_block_that_does_not_fit_takes_for_ever() -> None:
    """So it is never chosen, and its traffic can still be told."""
    found = predict(columns(4), replace(GPU, shared_bytes=100))
    assert found.seconds == math.inf
    assert found.device_bytes > 0


def test_an_output_that_is_only_moved_is_copied() -> None:
    """An input turned or given back takes a kernel; a view of a computed value takes none."""
    turned = apply("transpose", X, axes=(1, 0))
    assert predict(program(turned), GPU).seconds == 2 + 2 * 96 / 100
    assert predict(program(apply("reshape", X, shape=(24,))), GPU).launches == 1
    assert predict(program(apply("reshape", X @ W, shape=(32,))), GPU).launches == 1
    assert predict(program(literal(3)), GPU).launches == 1
    wide = apply("broadcast", apply("reshape", V, shape=(1, 8)), shape=(4, 8))
    assert predict(program(wide), GPU).device_bytes == 4 * (8 + 32)


def test_less_traffic_breaks_ties() -> None:
    """Of programs that are equally fast the one that moves less on the chip ranks first."""
    few, many = predict(columns(4), CPU), predict(columns(8), CPU)
    assert few.seconds == many.seconds
    assert few.rank < many.rank
