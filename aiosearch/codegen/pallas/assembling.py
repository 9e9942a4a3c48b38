"""The process that compiles: reads an order, writes down what it made of it."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import msgspec

from . import dialect
from .cubin import Cubin, Machine, Order
from .thunks import is_graph, launches

_USED = re.compile(
    r"Function properties for (\w+)\s.*?(\d+) bytes spill stores.*?Used (\d+) registers", re.DOTALL
)


def assemble(order: Order) -> Cubin:
    """Compiles, and reads what was made of each kernel."""
    executable = _executable(order)
    folder = Path(order.folder)
    used = dict(_used(folder))
    return Cubin(tuple(_machines(folder, used)), executable, is_graph(folder))


def _executable(order: Order) -> bytes:
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
    given = [dialect.argument(one.dtype, one.shape, where) for one in order.arguments]
    staged = dialect.staged(space[order.function], given, order.device, order.units)
    compiled = staged.compile(compiler_options=order.options)
    return bytes(serialize_executable.serialize(compiled)[0])


def _used(folder: Path) -> Iterator[tuple[str, tuple[int, int]]]:
    """By kernel the registers and the bytes spilled, as ptxas says of assembly that XLA kept.

    From jax 0.11 on it keeps none of Triton's kernels.
    """
    for path in sorted(folder.glob("*.ptx")):
        found = re.search(r"\.target (\w+)", path.read_text())
        if found is not None:
            command = [_ptxas(), "-v", f"-arch={found[1]}", str(path), "-o", "/dev/null"]
            said = subprocess.run(command, capture_output=True, text=True, check=True)
            for name, spilled, registers in _USED.findall(said.stderr):
                yield name, (int(registers), int(spilled))


def _ptxas() -> str:
    spec = find_spec("nvidia.cu13")
    assert spec is not None
    assert spec.submodule_search_locations is not None
    return str(Path(next(iter(spec.submodule_search_locations))) / "bin" / "ptxas")


def _machines(folder: Path, used: Mapping[str, tuple[int, int]]) -> Iterator[Machine]:
    """The launches, as XLA lists them."""
    for name, blocks, threads, shared in launches(folder):
        registers, spilled = used.get(name, (None, None))
        yield Machine(name, registers, spilled, shared, blocks, threads)


if __name__ == "__main__":
    asked = msgspec.json.decode(sys.stdin.buffer.read(), type=Order)
    try:
        made = assemble(asked)
    except Exception as error:
        sys.exit(f"{type(error).__name__}: {' '.join(str(error).split())}")
    sys.stdout.buffer.write(msgspec.json.encode(made))
