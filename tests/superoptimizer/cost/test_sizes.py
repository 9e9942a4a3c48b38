from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import product

import pytest
from msgspec.structs import replace
from testkit.superoptimizer.small_gpu import GPU

from aiosearch.devices import Device, DeviceKind, device
from aiosearch.superoptimizer.cost.prediction import predict
from aiosearch.superoptimizer.cost.size_values import divisors
from aiosearch.superoptimizer.cost.sizes import Build, fill, least_of
from aiosearch.tensor import Block, Dim, Program, ShapeError, Term, apply
from aiosearch.tensor.programs import builtin

NORM = builtin("rms_norm", "f16", row=4, feature=48, column=24)
GATED = builtin("gated_mlp", "f16", row=4, feature=24, hidden=24)
LORA = builtin("lora", "f16", row=4, feature=24, rank=2, column=12)
GQA = builtin("gqa", "f16", head=2, row=8, feature=4, key=32, value=4)


def norm(sizes: Mapping[str, Dim]) -> Program:
    """Rows and columns over the grid, the features over the loop."""
    x, w = NORM.inputs
    block = Block((sizes["columns"], sizes["rows"]), sizes["loop"])
    tile = block.load(x, (None, 0), loop=1)
    total = block.accumulate(tile @ block.load(w, (1,), 0))
    return named(NORM, *block.results((total / block.accumulate(tile, "rms"), (1, 0))))


def gated(sizes: Mapping[str, Dim]) -> Program:
    """In a custom kernel but for the last product."""
    x, one, two = GATED.inputs
    block = Block((sizes["columns"],), sizes["loop"])
    tile = block.load(x, loop=1)
    tiles = [block.accumulate(tile @ block.load(each, (1,), loop=0)) for each in (one, two)]
    first, second = block.results((apply("silu", tiles[0]), (1,)), (tiles[1], (1,)))
    return named(GATED, first * second)


def lora(sizes: Mapping[str, Dim]) -> Program:
    """By one product of tensors side by side, without a loop."""
    x, w, a, b = LORA.inputs
    block = Block((sizes["columns"], sizes["rows"]))
    tile = block.load(x, (None, 0))
    left = apply("concatenate", tile, tile @ block.load(a), axis=1)
    right = apply("concatenate", block.load(w, (1,)), block.load(b, (1,)), axis=0)
    return named(LORA, *block.results((block.accumulate(left @ right), (1, 0))))


def split_keys(sizes: Mapping[str, Dim]) -> Program:
    """Two kernels, the second as many blocks as it likes."""
    q, k, v = GQA.inputs
    block = Block((2, sizes["rows"], sizes["keys"]), sizes["loop"])
    e = apply("exp", block.load(q, (0, 1)) @ block.load(k, (0, None, 2), 2))
    o, s = block.results(
        (block.accumulate(e @ block.load(v, (0, None, 1), 1)), (0, 1, 2)),
        (block.accumulate(e, "sum"), (0, 1, 2)),
    )
    join = Block((2, sizes["join"]))
    top = join.accumulate(join.load(o, (0, 1)), "redtox", 4)
    bottom = join.accumulate(join.load(s, (0, 1)), "sum")
    return named(GQA, *join.results((top / bottom, (0, 1))))


def named(reference: Program, *outputs: Term) -> Program:
    return Program("program", reference.inputs, outputs)


PROBLEMS: list[tuple[Build, dict[str, int]]] = [
    (norm, {"columns": 24, "rows": 4, "loop": 48}),
    (gated, {"columns": 24, "loop": 24}),
    (lora, {"columns": 12, "rows": 4}),
    (split_keys, {"rows": 8, "keys": 32, "loop": 32, "join": 8}),
]
NARROW = replace(GPU, shared_bytes=300, unit_shared_bytes=500, launch_seconds=1e-3)
CPU = replace(NARROW, kind=DeviceKind.CPU, units=3, unit_blocks=1, unit_threads=1, block_threads=1)
DEVICES = [GPU, NARROW, replace(NARROW, units=3, unit_blocks=1), CPU, device("A100")]


def every(build: Build, extents: dict[str, int], where: Device) -> list[tuple[float, float]]:
    """The ranks of all choices that fit, the best first, by building each."""
    found = []
    for numbers in product(*(divisors(extent, extent) for extent in extents.values())):
        try:
            program = build(dict(zip(extents, numbers, strict=True)))
        except ShapeError:
            continue
        prediction = predict(program, where)
        if prediction.seconds < math.inf:
            found.append(prediction.rank)
    return sorted(found)


@pytest.mark.parametrize(("build", "extents"), PROBLEMS)
@pytest.mark.parametrize("where", range(len(DEVICES)))
def test_no_other_choice_is_better(build: Build, extents: dict[str, int], where: int) -> None:
    """What is chosen are the best of all choices, by their full predictions, in order."""
    found = fill(build, extents, DEVICES[where], most=4)
    expected = every(build, extents, DEVICES[where])
    assert [filling.prediction.rank for filling in found] == expected[:4]
    for filling in found:
        assert filling.program == build(filling.sizes)
        assert filling.prediction == predict(filling.program, DEVICES[where])


def test_nothing_fits_a_device_without_memory() -> None:
    """Where every block needs more than there is, there is no choice."""
    assert fill(norm, PROBLEMS[0][1], replace(GPU, shared_bytes=4)) == []


def test_a_program_without_names_is_its_only_choice() -> None:
    """It has its one prediction."""
    (found,) = fill(lambda sizes: NORM, {}, GPU, most=3)
    assert (found.sizes, found.prediction) == ({}, predict(NORM, GPU))


def test_what_cannot_be_built_is_left_out() -> None:
    """A program may refuse numbers for reasons of its own."""

    def build(sizes: Mapping[str, Dim]) -> Program:
        if isinstance(rows := sizes["rows"], int) and rows > 1:
            raise ShapeError("one row of blocks")
        return norm(sizes)

    found = fill(build, PROBLEMS[0][1], GPU, most=5)
    assert len(found) == 5
    assert {filling.sizes["rows"] for filling in found} == {1}


def test_real_sizes_fill_the_device() -> None:
    """The fused kernel of a large layer gets at least two blocks for every unit of a GPU."""
    reference = builtin("rms_norm")
    x, w = reference.inputs

    def build(sizes: Mapping[str, Dim]) -> Program:
        block = Block((sizes["columns"],), sizes["loop"])
        tile = block.load(x, loop=1)
        total = block.accumulate(tile @ block.load(w, (1,), 0))
        outputs = block.results((total / block.accumulate(tile, "rms"), (1,)))
        return Program("fused", (x, w), outputs)

    for name in ("A100", "H100", "H200"):
        (found,) = fill(build, {"columns": 6144, "loop": 4096}, device(name))
        assert found.prediction.seconds < predict(reference, device(name)).seconds
        (kernel,) = found.prediction.kernels
        assert kernel.blocks is not None
        assert kernel.blocks.count > device(name).units
        assert kernel.blocks.resident >= 2


@pytest.mark.parametrize(("build", "extents"), PROBLEMS)
def test_no_choice_takes_less_than_the_least(build: Build, extents: dict[str, int]) -> None:
    """On any device; where none fits, that may be endless."""
    for where in DEVICES:
        least = least_of(build, extents, where)
        best = min(fill(build, extents, where), key=lambda one: one.prediction.rank, default=None)
        assert least > 0
        assert best is None or least <= best.prediction.seconds * (1 + 1e-12)


def test_more_choices_than_can_be_tried_have_no_least() -> None:
    """Of some of them it would say too much."""
    assert least_of(norm, {"columns": 2**40, "rows": 2**40, "loop": 2**40}, GPU) == 0
