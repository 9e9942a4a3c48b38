"""Compiles printed modules to a GPU's machine code, with no GPU: XLA, Triton and ptxas as wheels.

The compiler runs in a process of its own, which is killed where it takes too long: what it is given
comes from a search, and it may die of it.
"""

from __future__ import annotations

import asyncio
import os
import re
import signal
import tempfile
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from types import MappingProxyType
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ...errors import AiosearchError
from ...processes.launch import command, environment
from ...tensor.types import DType

if TYPE_CHECKING:
    from ...devices import Device

CAPABILITIES = {"A100": (8, 0), "H100": (9, 0), "H200": (9, 0)}
"""CUDA's compute capabilities, by the names of our devices."""

_SPILL = re.compile(r"spilled to local memory in function '(\w+)', (\d+) bytes spill stores")
_COMPILER_WHEELS = ("jax_plugins.xla_cuda13", "nvidia.cu13")


class CannotCompile(AiosearchError):
    """A module that the compiler refused, or died of, or no compiler to give it to."""


class Argument(Struct, frozen=True):
    """The element type and shape of an argument of a printed function."""

    dtype: DType
    shape: tuple[int, ...]


class CompileRequest(Struct, frozen=True):
    """What `cubin_process` is asked to compile."""

    text: str
    function: str
    arguments: tuple[Argument, ...]
    target: str
    """XLA's description of the GPU."""
    device: str
    units: int
    folder: str
    options: dict[str, str]
    """Options of XLA's compiler."""


class CompiledKernel(Struct, frozen=True):
    """What became of one kernel."""

    name: str
    registers: int | None
    """Registers of a thread; not known from jax 0.11 on."""
    spilled_bytes: int | None
    """Bytes that a thread stores outside of its registers."""
    shared_bytes: int
    blocks: int
    threads: int


class Cubin(Struct, frozen=True):
    """A module's kernels as machine code, and the executable that jax loads where the GPU is."""

    kernels: tuple[CompiledKernel, ...]
    executable: bytes
    graph: bool | None
    """Whether all of it is one graph, which the GPU replays without the host."""


def missing_compiler() -> str | None:
    """Why nothing can be compiled here, in a sentence; None where it can."""
    absent = [name for name in _COMPILER_WHEELS if not _wheel_paths(name)]
    if not absent:
        return None
    return (
        f"compiling for a GPU needs {' and '.join(absent)}, which is not installed:"
        " install aiosearch with the extra cuda-aot"
    )


def _wheel_paths(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except ModuleNotFoundError:
        return False


async def compile_cubin(
    text: str,
    function: str,
    arguments: Sequence[Argument],
    device: Device,
    seconds: float = 120,
    options: Mapping[str, str] = MappingProxyType({}),
) -> Cubin:
    """The machine code of a printed module for a described GPU, within so many `seconds`."""
    reason = missing_compiler()
    if reason is not None:
        raise CannotCompile(reason)
    with tempfile.TemporaryDirectory(prefix="aiosearch-cubin-") as folder:
        order = CompileRequest(
            text,
            function,
            tuple(arguments),
            target(device),
            device.reported,
            device.units,
            folder,
            dict(options),
        )
        return await _run_compiler(order, seconds)


async def _run_compiler(order: CompileRequest, seconds: float) -> Cubin:
    process = await asyncio.create_subprocess_exec(
        *command(f"{__package__}.cubin_process"),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=environment() | _environment(order.folder),
        process_group=0,
    )
    try:
        out, said = await asyncio.wait_for(
            process.communicate(msgspec.json.encode(order)), timeout=seconds
        )
    except TimeoutError:
        raise CannotCompile(f"{order.function}: not compiled within {seconds:g} s") from None
    finally:
        if process.returncode is None:
            os.killpg(process.pid, signal.SIGKILL)  # ptxas is a process of its own
            await process.wait()
    if process.returncode:
        last = said.decode(errors="replace").strip().splitlines()[-1:]
        raise CannotCompile(f"{order.function}: {''.join(last) or 'the compiler died'}")
    return _with_spills(msgspec.json.decode(out, type=Cubin), said.decode(errors="replace"))


def spilled_bytes(log: str) -> dict[str, int]:
    """By kernel what a thread stores outside of its registers, as ptxas warns in XLA's log.

    >>> spilled_bytes("spilled to local memory in function 'norm', 32 bytes spill stores")
    {'norm': 32}
    """
    return {name: int(stored) for name, stored in _SPILL.findall(log)}


def _with_spills(cubin: Cubin, log: str) -> Cubin:
    """The cubin with what is known from the log alone: whoever is not named there spills
    nothing.
    """
    spilled = spilled_bytes(log)
    kernels = tuple(
        replace(kernel, spilled_bytes=spilled.get(kernel.name, 0))
        if kernel.spilled_bytes is None
        else kernel
        for kernel in cubin.kernels
    )
    return replace(cubin, kernels=kernels)


def _environment(folder: str) -> dict[str, str]:
    """No GPU is looked for, nothing is timed, and what is made on the way is kept."""
    return {
        "JAX_PLATFORMS": "cpu",
        "JAX_SKIP_CUDA_CONSTRAINTS_CHECK": "1",
        "TF_CPP_MIN_LOG_LEVEL": "0",  # of spills XLA speaks as of something of no weight
        "XLA_FLAGS": f"--xla_gpu_autotune_level=0 --xla_dump_to={folder}",
        "MOSAIC_GPU_DUMP_TO": folder,
    }


def target(device: Device) -> str:
    """A device as XLA's compiler wants it described."""
    if device.name not in CAPABILITIES:
        names = ", ".join(CAPABILITIES)
        raise CannotCompile(f"nothing is compiled for {device.name}: there are {names}")
    major, minor = CAPABILITIES[device.name]
    accelerated = " feature_extension: ACCELERATED_FEATURES" if major == 9 else ""
    return f"""
gpu_device_info {{
  cuda_compute_capability {{ major: {major} minor: {minor}{accelerated} }}
  core_count: {device.units}
  memory_bandwidth: {int(device.bytes_per_second)}
  l2_cache_size: {device.cache_bytes}
  shared_memory_per_block: 49152
  shared_memory_per_block_optin: {device.shared_bytes}
  shared_memory_per_core: {device.unit_shared_bytes}
  threads_per_core_limit: {device.unit_threads}
  threads_per_block_limit: 1024
  threads_per_warp: 32
  fpus_per_core: 128
  registers_per_core_limit: 65536
  registers_per_block_limit: 65536
  block_dim_limit_x: 2147483647
  block_dim_limit_y: 65535
  block_dim_limit_z: 65535
  clock_rate_ghz: 1
  device_memory_size: 68719476736
  driver_version: "13.0.0"
  runtime_version: "13.0.0"
}}
platform_name: "CUDA"
device_description_str: "{device.reported}"
"""
