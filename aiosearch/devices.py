"""What programs run on, as data: the figures that a prediction is made of, and where they are from.

GPUs are described by a file, from what their maker states. This machine is described by what
`aiosearch doctor --measure` measured here.
"""

from __future__ import annotations

from enum import StrEnum
from functools import cache
from importlib.resources import files

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from .errors import AiosearchError
from .measure.ceilings import Ceilings, stored_ceilings
from .measure.processor import last_cache, private_cache
from .tensor import DType


class DeviceError(AiosearchError):
    """Nothing is known of a device: says what is known, or how to come to know it."""


class DeviceKind(StrEnum):
    CPU = "cpu"
    GPU = "gpu"


class Device(Struct, frozen=True, kw_only=True):
    """A processor, its memories and their speeds, at best."""

    name: str
    kind: DeviceKind
    units: int
    """Multiprocessors, or cores: how many blocks run at the same time without sharing a unit."""
    bytes_per_second: float
    """Bytes per second, from and to the device's memory."""
    cache_bytes_per_second: float
    """Bytes per second from the last-level cache."""
    operations_per_second: dict[DType, float]
    """Operations per second by element type, of all units together, matrix units included."""
    launch_seconds: float
    """Seconds that one more kernel costs, however little it does."""
    shared_bytes: int
    """Bytes that one block may take of its unit's shared memory; on a CPU a core's own cache."""
    unit_shared_bytes: int
    block_reserved_bytes: int = 0
    """Bytes that each block takes of its unit's shared memory beside its own."""
    unit_blocks: int
    """How many blocks a unit can hold at most."""
    unit_threads: int
    block_threads: int
    cache_bytes: int
    """Bytes of the last cache before the device's memory."""
    sources: dict[str, str]
    """Where the figures are from, by the names of their fields."""
    reported: str = ""
    """What JAX calls it."""
    compute_capability: str = ""
    """Of a GPU, as JAX says it: what its multiprocessors have is the same for all that share it."""

    def rate(self, dtype: DType) -> float:
        """Operations in a second; of a type that has no figure, those of the type it is cast to."""
        rates = self.operations_per_second
        if dtype is DType.F64:
            # Half of float32's rate: the vectors hold half as many
            return rates.get(dtype, rates[DType.F32] / 2)
        return rates.get(dtype, rates[DType.F32])

    def resident(self, shared: int) -> int:
        """How many blocks a unit holds at once, each with `shared` bytes of shared memory."""
        if shared > self.shared_bytes:
            return 0
        room = self.unit_shared_bytes // max(1, shared + self.block_reserved_bytes)
        return max(1, min(self.unit_blocks, self.unit_threads // self.block_threads, room))


class _Cpu(Struct, frozen=True):
    launch_seconds: float
    sources: dict[str, str]


class _DeviceTable(Struct, frozen=True):
    gpus: list[Device]
    cpu: _Cpu


@cache
def _device_table() -> _DeviceTable:
    data = files(__package__).joinpath("devices.json").read_bytes()
    return msgspec.json.decode(data, type=_DeviceTable)


def device_names() -> list[str]:
    """The GPUs that are described."""
    return [gpu.name for gpu in _device_table().gpus]


def device(name: str) -> Device:
    """A described GPU by its name, in whatever case that is written."""
    for gpu in _device_table().gpus:
        if gpu.name.casefold() == name.casefold():
            return gpu
    raise DeviceError(f"no device {name!r}: there are {', '.join(device_names())}")


def described_as(kind: str, compute_capability: str) -> str:
    """The name of the described GPU that is what JAX calls so, or is built alike; else nothing.

    Of one compute capability the limits of a block are the same. The number of multiprocessors is
    the GPU's own (see `with_units`); bandwidths differ, which shifts predictions, and only the
    order of tilings is made of them:

    >>> described_as("NVIDIA H20", "9.0")
    'H100'
    """
    for gpu in _device_table().gpus:
        if gpu.name.casefold() in kind.casefold():
            return gpu.name
    alike = [gpu for gpu in _device_table().gpus if gpu.compute_capability == compute_capability]
    return alike[0].name if alike and compute_capability else ""


def with_units(described_device: Device, units: int) -> Device:
    """A described GPU with as many multiprocessors as another one has, and operations as many.

    >>> with_units(device("H100"), 66).rate(DType.F32) / device("H100").rate(DType.F32)
    0.5
    """
    share = units / described_device.units
    rates = {dtype: rate * share for dtype, rate in described_device.operations_per_second.items()}
    return replace(described_device, units=units, operations_per_second=rates)


def undescribed(kind: str, compute_capability: str) -> str:
    """The sentence that says what to add for a GPU that nothing described is like."""
    known = ", ".join(f"{gpu.name} ({gpu.compute_capability})" for gpu in _device_table().gpus)
    return (
        f"{kind}, of compute capability {compute_capability or 'unknown'}, is not described, and"
        f" kernels are made for {known}: add it to aiosearch/devices.json with its multiprocessors,"
        " shared memory, bytes and operations per second, from its data sheet"
    )


def this_machine(platform: str = "cpu") -> Device:
    """The processor of a JAX `platform`, with what was measured of it here."""
    for ceilings in stored_ceilings():
        if ceilings.platform == platform:
            return described(ceilings)
    raise DeviceError(f"this {platform} was not measured yet: run `aiosearch doctor --measure`")


def default_device() -> Device:
    """This machine's processor; where it was not measured, a GPU that is described."""
    try:
        return this_machine()
    except DeviceError:
        return device(device_names()[0])


def described(ceilings: Ceilings) -> Device:
    """A measured processor as a device."""
    return _cpu(ceilings) if ceilings.platform == "cpu" else _gpu(ceilings)


def _gpu(ceilings: Ceilings) -> Device:
    for gpu in _device_table().gpus:
        if gpu.reported == ceilings.device:
            rates = gpu.operations_per_second | _rates(ceilings)
            return replace(
                gpu,
                bytes_per_second=ceilings.bytes_per_second,
                operations_per_second=rates,
                sources=gpu.sources | _measured(ceilings),
            )
    names = ", ".join(gpu.reported for gpu in _device_table().gpus)
    raise DeviceError(f"{ceilings.device} is not described: there are {names}")


def _cpu(ceilings: Ceilings) -> Device:
    template = _device_table().cpu
    private_bytes = private_cache()
    return Device(
        name=ceilings.device,
        kind=DeviceKind.CPU,
        units=ceilings.cores,
        bytes_per_second=ceilings.bytes_per_second,
        cache_bytes_per_second=ceilings.bytes_per_second,
        operations_per_second=_rates(ceilings),
        launch_seconds=template.launch_seconds,
        shared_bytes=private_bytes,
        unit_shared_bytes=private_bytes,
        unit_blocks=1,
        unit_threads=1,
        block_threads=1,
        cache_bytes=last_cache("cpu"),
        sources=template.sources | _measured(ceilings),
    )


def _rates(ceilings: Ceilings) -> dict[DType, float]:
    """A type that is slower than float32 here is cast to that."""
    least = ceilings.fastest("float32")
    measured = "bfloat16" in ceilings.flops_per_second
    return {DType.F32: least, DType.BF16: ceilings.fastest("bfloat16") if measured else least}


def _measured(ceilings: Ceilings) -> dict[str, str]:
    how = f"measured {ceilings.taken}, {ceilings.versions}"
    return {"bytes_per_second, operations_per_second": how}
