from __future__ import annotations

import pytest
from msgspec.structs import fields, replace

from aiosearch.devices import (
    Device,
    DeviceError,
    DeviceKind,
    described,
    described_as,
    device,
    device_names,
    this_machine,
    undescribed,
    with_units,
)
from aiosearch.measure import Ceilings, machine_id, store_ceilings
from aiosearch.measure.ceilings import PROTOCOL
from aiosearch.measure.processor import last_cache, private_cache
from aiosearch.tensor import DType

MEASURED = Ceilings(
    machine=machine_id(),
    platform="cpu",
    device="cpu: a processor, 2 cores",
    cores=2,
    versions="jax 0",
    protocol=PROTOCOL,
    taken="2026-11-20T10:00:00+00:00",
    bytes_per_second=2e10,
    flops_per_second={"float32": 5e11, "bfloat16": 1e11},
    noise=0.01,
)


@pytest.mark.parametrize("name", device_names())
def test_every_figure_has_a_source(name: str) -> None:
    """A described GPU says of each figure where it is from."""
    found = device(name)
    assert found.kind is DeviceKind.GPU
    sourced = {figure for key in found.sources for figure in key.split(", ")}
    assert sourced == {
        field.name for field in fields(Device) if field.type in (int, float, dict[DType, float])
    }


def test_gpus_are_known_by_name() -> None:
    """Another name is answered with those that there are."""
    assert device_names() == ["A100", "H100", "H200"]
    with pytest.raises(DeviceError, match="no device 'B200': there are A100, H100, H200"):
        device("B200")


def test_shared_memory_limits_the_blocks_of_a_unit() -> None:
    """So do threads; a block that does not fit is not there at all."""
    h100 = device("H100")
    assert h100.resident(0) == h100.unit_threads // h100.block_threads
    assert h100.resident(h100.shared_bytes) == 1
    assert h100.resident(h100.shared_bytes + 1) == 0
    assert h100.resident((h100.unit_shared_bytes // 3) - h100.block_reserved_bytes) == 3


def test_element_types_without_a_figure_are_cast() -> None:
    """Where half precision has no units, float32 does it; float64 takes twice as long."""
    cpu = described(MEASURED)
    assert cpu.rate(DType.F16) == cpu.rate(DType.BF16) == cpu.rate(DType.F32) == 5e11
    assert cpu.rate(DType.F64) == 2.5e11
    assert device("A100").rate(DType.F64) == 19.5e12


def test_this_machine_is_what_was_measured() -> None:
    """Before that it says how to; a block's memory is then a core's own cache."""
    with pytest.raises(DeviceError, match="aiosearch doctor --measure"):
        this_machine()
    store_ceilings(MEASURED)
    found = this_machine()
    assert (found.kind, found.units, found.bytes_per_second) == (DeviceKind.CPU, 2, 2e10)
    assert found.shared_bytes == private_cache()
    assert found.cache_bytes == last_cache("cpu") >= private_cache()
    assert found.resident(1000) == 1
    assert "2026-11-20" in found.sources["bytes_per_second, operations_per_second"]
    with pytest.raises(DeviceError, match="cuda was not measured"):
        this_machine("cuda")


def test_a_measured_gpu_is_the_described_one_with_its_own_figures() -> None:
    """What was measured counts, and what nobody measures is as described."""
    h200 = device("H200")
    measured = replace(MEASURED, platform="cuda", device="NVIDIA H200", bytes_per_second=4.3e12)
    store_ceilings(measured)
    found = this_machine("cuda")
    assert found.bytes_per_second == 4.3e12
    assert found.rate(DType.BF16) == 5e11
    assert found.rate(DType.F16) == h200.rate(DType.F16)
    assert found.units == h200.units
    with pytest.raises(DeviceError, match="Some GPU is not described"):
        described(replace(measured, device="Some GPU"))


def test_a_gpu_of_another_name_is_described_as_one_that_is_built_alike() -> None:
    assert described_as("NVIDIA H100 80GB HBM3", "9.0") == "H100"
    assert described_as("NVIDIA H200", "9.0") == "H200"
    assert described_as("NVIDIA H20", "9.0") == "H100"
    assert described_as("NVIDIA A800-SXM4-80GB", "8.0") == "A100"
    assert described_as("NVIDIA L4", "8.9") == ""
    assert described_as("a GPU", "") == ""


def test_it_has_its_own_multiprocessors_and_operations_as_many() -> None:
    h100, h20 = device("H100"), with_units(device("H100"), 66)
    assert (h20.units, h20.bytes_per_second) == (66, h100.bytes_per_second)
    assert h20.rate(DType.BF16) == h100.rate(DType.BF16) / 2
    assert with_units(h100, h100.units) == h100


def test_of_a_gpu_that_none_is_like_a_sentence_says_what_to_add() -> None:
    sentence = undescribed("NVIDIA L4", "8.9")
    assert sentence.startswith("NVIDIA L4, of compute capability 8.9, is not described")
    assert "H100 (9.0)" in sentence
    assert "aiosearch/devices.json" in sentence
