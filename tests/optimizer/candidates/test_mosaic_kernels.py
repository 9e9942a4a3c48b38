"""Candidates of both printers of GPU kernels."""

from __future__ import annotations

import pytest

from aiosearch.devices import device
from aiosearch.optimizer.candidates.gpu_kernels import GpuKernels, KernelPrinter, gpu_kernel_sources
from aiosearch.tensor import DType, Program
from aiosearch.tensor.programs import builtin


@pytest.fixture
def program() -> Program:
    return builtin("gated_mlp", DType.BF16, row=8, feature=256, hidden=256)


def test_kernels_are_for_triton_where_mosaic_is_not_asked_for(program: Program) -> None:
    kernels = GpuKernels(program, device("H200"))
    sources = [kernels.source(place).source for place in kernels.first(40)]
    assert sources
    assert not any("plgpu" in source for source in sources)


def test_both_printers_enter_a_race_that_asks_for_mosaic(program: Program) -> None:
    kernels = GpuKernels(program, device("H200"), printers=KernelPrinter)
    sources = [kernels.source(place) for place in kernels.first(200)]
    assert {"plgpu.kernel(" in source.source for source in sources} == {True, False}
    assert {kind for source in sources for kind in source.how.split()} >= {"Mosaic", "Pallas"}


def test_a_neighbour_of_mosaic_s_kernels_is_another_tiling_of_them(program: Program) -> None:
    kernels = GpuKernels(program, device("H200"), printers=KernelPrinter)
    (place, *_) = (
        place
        for place in kernels.first(200)
        if kernels.source(place).how.count("Mosaic") and place.points[0] == (0,)
    )
    (neighbour,) = kernels.neighbours(place)
    assert kernels.source(neighbour).schedule != kernels.source(place).schedule
    assert "Mosaic" in kernels.source(neighbour).how
    assert place in kernels.neighbours(neighbour)


def test_what_suits_no_warpgroup_is_left_out_with_the_reason() -> None:
    reasons: list[str] = []
    kernels = GpuKernels(
        builtin("ntrans", DType.BF16, feature=8192),
        device("H200"),
        reasons.append,
        printers=KernelPrinter,
    )
    assert any("is written in the loop" in reason for reason in reasons)
    assert not any("plgpu" in kernels.source(place).source for place in kernels.first(10))


def test_mosaic_alone_is_there_where_it_is_asked_for(program: Program) -> None:
    sources = gpu_kernel_sources(program, device("H200"), 3, printer="mosaic")
    assert len(sources) == 3
    assert all("plgpu.kernel(" in source.source for source in sources)
