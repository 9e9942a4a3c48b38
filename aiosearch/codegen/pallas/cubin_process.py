"""The process that compiles a printed module to a cubin, and reads registers, spills and launches.

It reads a `CompileRequest` as JSON from its input and writes a `Cubin` to its output.
"""

from __future__ import annotations

import math
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from . import dialect
from .cubin import CompiledKernel, CompileRequest, Cubin

_LAUNCH = re.compile(
    r"kCustomKernel .*?(\w+) grid: \[(\d+), (\d+), (\d+)\] threads: \[(\d+), \d+, \d+\]"
    r"\s+shared_memory: (\d+) bytes"
)
_THUNK = re.compile(r"^\d+: (k\w+)", re.MULTILINE)


class CubinLaunch(NamedTuple):
    """How a kernel is launched."""

    name: str
    blocks: int
    threads: int
    shared_bytes: int


def launches(folder: Path) -> Iterator[CubinLaunch]:
    """The launches of all kernels in the order of XLA's thunks, as it dumps them to `folder`."""
    for path in folder.glob("*thunk_sequence.txt"):
        for name, x, y, z, threads, shared in _LAUNCH.findall(path.read_text()):
            yield CubinLaunch(name, int(x) * int(y) * int(z), int(threads), int(shared))


def is_graph(folder: Path) -> bool | None:
    """Whether all that runs is one graph, which the GPU replays without the host; None where
    nothing is listed.
    """
    listings = [path.read_text() for path in folder.glob("*thunk_sequence*.txt")]
    graphs = [_THUNK.findall(text) == ["kCommandBuffer"] for text in listings]
    return any(graphs) if graphs else None


_MOSAIC_LAUNCH = re.compile(
    r"gpu\.launch .*?blocks\(.*?\) in \((.*?)\) threads\(.*?\) in \((.*?)\)"
    r" dynamic_shared_memory_size %c(\d+)_i32"
)
_CONSTANT = re.compile(r"= %c(\d+)")
_MOSAIC_NAME = re.compile(r"(\w+)_\d+\.before_layout_inference")


def mosaic_kernels(folder: Path) -> Iterator[CompiledKernel]:
    """The kernels of Mosaic in the order in which they were lowered, as it dumps their launches and
    what ptxas says of each to `folder`."""
    listed = folder.glob("*.before_layout_inference.txt")
    # The number behind a kernel's name counts the kernels of the process.
    for path in sorted(listed, key=lambda path: int(path.name.split(".")[0].rpartition("_")[2])):
        name, launch = _MOSAIC_NAME.match(path.name), _MOSAIC_LAUNCH.search(path.read_text())
        if name is not None and launch is not None:
            usage = _PTXAS_USAGE.search(_ptxas_log(folder, name[1]))
            spilled, registers = (int(usage[2]), int(usage[3])) if usage else (None, None)
            blocks, threads = (
                math.prod(map(int, _CONSTANT.findall(sizes))) for sizes in launch.groups()[:2]
            )
            yield CompiledKernel(name[1], registers, spilled, int(launch[3]), blocks, threads)


def _ptxas_log(folder: Path, kernel: str) -> str:
    """What ptxas said of a kernel; the number behind its name there counts what was compiled, in
    another order than that of lowering."""
    numbered = re.compile(rf"{re.escape(kernel)}_\d+\.ptxas")
    logs = [path for path in folder.glob("*.ptxas") if numbered.fullmatch(path.name)]
    return logs[0].read_text() if logs else ""


_PTXAS_USAGE = re.compile(
    r"Function properties for (\w+)\s.*?(\d+) bytes spill stores.*?Used (\d+) registers", re.DOTALL
)


def assemble(order: CompileRequest) -> Cubin:
    """Compiles `order`, and reads what was made of each kernel."""
    executable = _executable(order)
    folder = Path(order.folder)
    used = dict(_ptxas_usage(folder))
    return Cubin(tuple(_compiled_kernels(folder, used)), executable, is_graph(folder))


def _executable(order: CompileRequest) -> bytes:
    import numpy as np
    from jax.experimental import serialize_executable, topologies
    from jax.sharding import Mesh, NamedSharding, PartitionSpec

    space: dict[str, Any] = {}
    exec(compile(order.text, f"<{order.function}>", "exec"), space)
    described = topologies.get_topology_desc(
        platform=dialect.PLATFORM, target_config=order.target, topology="1x1x1"
    )
    mesh = Mesh(np.array(described.devices), ("only",))
    whole: Any = PartitionSpec
    where = NamedSharding(mesh, whole())
    arguments = [
        dialect.argument(argument.dtype, argument.shape, where) for argument in order.arguments
    ]
    staged = dialect.staged(space[order.function], arguments, order.device, order.units)
    compiled = staged.compile(compiler_options=order.options)
    return bytes(serialize_executable.serialize(compiled)[0])


def _ptxas_usage(folder: Path) -> Iterator[tuple[str, tuple[int, int]]]:
    """By kernel the registers and the bytes spilled, as ptxas says of assembly that XLA kept.

    From jax 0.11 on it keeps none of Triton's kernels.
    """
    for path in sorted(folder.glob("*.ptx")):
        target = re.search(r"\.target (\w+)", path.read_text())
        if target is not None:
            command = [_ptxas(), "-v", f"-arch={target[1]}", str(path), "-o", "/dev/null"]
            said = subprocess.run(command, capture_output=True, text=True, check=True)
            for name, spilled, registers in _PTXAS_USAGE.findall(said.stderr):
                yield name, (int(registers), int(spilled))


def _ptxas() -> str:
    spec = find_spec("nvidia.cu13")
    assert spec is not None
    assert spec.submodule_search_locations is not None
    return str(Path(next(iter(spec.submodule_search_locations))) / "bin" / "ptxas")


def _compiled_kernels(
    folder: Path, used: Mapping[str, tuple[int, int]]
) -> Iterator[CompiledKernel]:
    """The launches, as XLA lists them of Triton's kernels and Mosaic of its own."""
    yield from mosaic_kernels(folder)
    for name, blocks, threads, shared in launches(folder):
        registers, spilled = used.get(name, (None, None))
        yield CompiledKernel(name, registers, spilled, shared, blocks, threads)


if __name__ == "__main__":
    asked = msgspec.json.decode(sys.stdin.buffer.read(), type=CompileRequest)
    try:
        assembled = assemble(asked)
    except Exception as error:
        sys.exit(f"{type(error).__name__}: {' '.join(str(error).split())}")
    sys.stdout.buffer.write(msgspec.json.encode(assembled))
