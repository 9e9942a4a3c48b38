"""Programs of other people that `benchmarks/cuda.py` is given by path; nothing of them is here.

**Rodinia.** An app is built by g++ with `cuda_by_fibers.h`, which runs each CUDA thread as a fiber,
and started on small inputs that are made here. It writes down what the first launches of each
kernel were passed, and all memory before and after. Our kernels are run on the memory before, and
have to leave what the program left: the same in whole numbers, up to rounding in floats.

**Polybench.** A file is built by gcc, and called with the arrays that its own `init_array` fills.

**stumpy.** Its tests of GPU code are run by pytest in a process in which `numba.cuda` is ours, and
in another one with Numba's simulator.
"""

from __future__ import annotations

import ctypes
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from aiosearch import cuda
from aiosearch.cuda.compiled.lowering import Choices
from aiosearch.cuda.host_functions import HostFunction
from aiosearch.cuda.interpreter.arithmetic import NUMPY, Array
from aiosearch.cuda.ir.types import ScalarType
from aiosearch.cuda.modules import CudaKernel, CudaModule
from aiosearch.cuda.numba.api import PythonLaunch

_HEADER = Path(__file__).parent / "cuda_by_fibers.h"
_TEXTS = (".cu", ".cpp", ".h", ".c")
_LAUNCHES = 3
"""Of each kernel, how many launches are compared."""
_SLACK = 1 << 16
"""Bytes on both sides of each piece of memory: srad_v2 reads a row before its first one."""
_TOLERANCE = 1e-4
_NUDGE = 5e-7
"""Some last bits of a float32: of a single one, the next rounding may leave nothing."""
_LONG = 5.0
"""What takes more seconds is timed once, its first call included."""


# --- Rodinia


@dataclass(frozen=True, slots=True)
class App:
    """A program: what it is built from, what it is started with, and which kernels it launches."""

    folder: str
    sources: tuple[str, ...]
    arguments: str
    """Alternatives of them, where copies of a program differ, with ` | ` between."""
    kernels: tuple[str, ...]
    """With the file that has each, relative to the folder: `opt1.cu:hotspotOpt1`."""
    most: int = 60
    """After so many launches the program is ended."""


APPS = (
    App(
        "backprop",
        ("backprop_cuda.cu", "backprop.c", "facetrain.c", "imagenet.c"),
        "1024",
        ("backprop_cuda.cu:bpnn_layerforward_CUDA", "backprop_cuda.cu:bpnn_adjust_weights_cuda"),
    ),
    App("bfs", ("bfs.cu",), "{data}/graph", ("bfs.cu:Kernel", "bfs.cu:Kernel2")),
    App(
        "b+tree",
        (
            "main.c",
            "kernel/kernel_gpu_cuda_wrapper.cu",
            "kernel/kernel_gpu_cuda_wrapper_2.cu",
            "util/timer/timer.c",
            "util/num/num.c",
            "util/cuda/cuda.cu",
        ),
        "file {data}/keys command {data}/command",
        (
            "kernel/kernel_gpu_cuda_wrapper.cu:findK",
            "kernel/kernel_gpu_cuda_wrapper_2.cu:findRangeK",
        ),
    ),
    App(
        "cfd",
        ("euler3d.cu",),
        "{data}/mesh",
        (
            "euler3d.cu:cuda_initialize_variables",
            "euler3d.cu:cuda_compute_step_factor",
            "euler3d.cu:cuda_compute_flux",
            "euler3d.cu:cuda_time_step",
        ),
    ),
    App(
        "hotspot",
        ("hotspot.cu",),
        "64 2 4 {data}/temperature {data}/power {data}/out",
        ("hotspot.cu:calculate_temp",),
    ),
    App(
        "hotspot3D",
        ("3D.cu",),
        "64 4 3 {data}/power3d {data}/temperature3d {data}/out 1"
        " | 64 4 3 {data}/power3d {data}/temperature3d {data}/out",
        ("3D.cu:hotspotOpt1",),
    ),
    App(
        "lud",
        ("cuda/lud.cu", "cuda/lud_kernel.cu", "common/common.c"),
        "-s 64",
        (
            "cuda/lud_kernel.cu:lud_diagonal",
            "cuda/lud_kernel.cu:lud_perimeter",
            "cuda/lud_kernel.cu:lud_internal",
        ),
    ),
    App("myocyte", ("main.cu",), "2 1 0", ("main.cu:kernel",)),
    App("myocyte", ("main.cu",), "2 8 1", ("main.cu:solver_2",)),
    App(
        "nw",
        ("needle.cu",),
        "64 10",
        ("needle.cu:needle_cuda_shared_1", "needle.cu:needle_cuda_shared_2"),
    ),
    App(
        "particlefilter",
        ("ex_particle_CUDA_naive_seq.cu",),
        "-x 32 -y 32 -z 4 -np 300",
        ("ex_particle_CUDA_naive_seq.cu:kernel",),
    ),
    App(
        "particlefilter",
        ("ex_particle_CUDA_float_seq.cu",),
        "-x 32 -y 32 -z 4 -np 300",
        (
            "ex_particle_CUDA_float_seq.cu:likelihood_kernel",
            "ex_particle_CUDA_float_seq.cu:sum_kernel",
            "ex_particle_CUDA_float_seq.cu:normalize_weights_kernel1",
            "ex_particle_CUDA_float_seq.cu:normalize_weights_kernel2",
            "ex_particle_CUDA_float_seq.cu:find_index_kernel",
        ),
    ),
    App("pathfinder", ("pathfinder.cu",), "1000 20 4", ("pathfinder.cu:dynproc_kernel",)),
    App(
        "streamcluster",
        ("streamcluster_cuda_cpu.cpp", "streamcluster_cuda.cu"),
        "2 5 16 1024 1024 100 none {data}/out 1",
        ("streamcluster_cuda.cu:kernel_compute_cost",),
    ),
    App(
        "srad_v1",
        ("main.cu",),
        "2 0.5 48 64",
        (
            "main.cu:extract",
            "main.cu:prepare",
            "main.cu:reduce",
            "main.cu:srad",
            "main.cu:srad2",
            "main.cu:compress",
        ),
    ),
    App(
        "srad_v2",
        ("srad.cu",),
        "64 64 0 31 0 31 0.5 2",
        ("srad.cu:srad_cuda_1", "srad.cu:srad_cuda_2"),
    ),
)
"""Those that Polygeist's authors compare with OpenMP."""


@dataclass(slots=True)
class RecordedLaunch:
    """What a program wrote down of a launch."""

    kernel: str
    grid: tuple[int, ...]
    block: tuple[int, ...]
    arguments: list[tuple[str, bytes]] = field(default_factory=list)
    before: dict[int, bytes] = field(default_factory=dict)
    after: dict[int, bytes] = field(default_factory=dict)
    symbols: dict[str, bytes] = field(default_factory=dict)


def rodinia(root: Path, scratch: Path) -> Iterator[tuple[str, str]]:
    """Of each kernel, its name and what is wrong with it, which is nothing for a right one."""
    folder = root / "cuda" if (root / "cuda").is_dir() else root
    make_inputs(scratch / "data")
    for number, app in enumerate(APPS):
        if not (folder / app.folder).is_dir():
            for kernel in app.kernels:
                yield f"{app.folder}/{kernel}", f"not there: {folder / app.folder}"
            continue
        environment = {"AIO_LAUNCHES": str(_LAUNCHES), "AIO_MOST": str(app.most)}
        try:
            work = scratch / f"app{number}"
            copy = built_by_fibers(folder, app, work)
            launches = list(_launches(traced(copy, work, app.arguments, environment)))
        except subprocess.CalledProcessError as error:
            launches = []
            sys.stderr.write(f"{app.folder}: not built or not run by g++: {said(error)}\n")
        for kernel in app.kernels:
            yield f"{app.folder}/{kernel}", _replayed(folder / app.folder, kernel, launches)


def said(error: subprocess.CalledProcessError) -> str:
    """The first lines of what a compiler had against a text."""
    return " ".join(error.stderr.decode(errors="replace").strip().splitlines()[:3])


def copied(folder: Path, name: str, work: Path, edits: Sequence[tuple[str, str]] = ()) -> Path:
    """A copy of a program's folder beside the inputs, with parts of its text replaced."""
    copy = work / "x" / name
    shutil.copytree(folder / name, copy)
    for path in copy.rglob("*"):
        if path.suffix in _TEXTS and path.is_file():
            text = path.read_bytes().decode(errors="replace")
            text = re.sub(
                r"(\w+)\s*<<<(.*?)>>>\s*\(", r'aio_kernel("\1", \1, \2)(', text, flags=re.DOTALL
            )
            for before, after in edits:
                text = text.replace(before, after)
            path.write_text(text)
    (work / "data").symlink_to(work.parent / "data")
    return copy


def hooks(copy: Path, kept: Sequence[str] = ()) -> list[str]:
    """Options without which a program calls macros that one copy of Rodinia checks itself with."""
    paths = (item for item in copy.rglob("*") if item.suffix in _TEXTS and item.is_file())
    texts = (item.read_bytes().decode(errors="replace") for item in paths)
    names = {name for text in texts for name in re.findall(r"\bMY_[A-Z_]+(?=\()", text)}
    return [f"-D{item}(...)=(void)0" for item in sorted(names - set(kept))]


CLOCKS = ("MY_START_CLOCK", "MY_STOP_CLOCK")
_CXX = ("g++", "-x", "c++", "-std=c++17", "-fpermissive", "-include", str(_HEADER))


def built_by_fibers(
    folder: Path, app: App, work: Path, edits: Sequence[tuple[str, str]] = ()
) -> Path:
    """Builds `work/program` by g++, and gives the folder that it is run in."""
    copy = copied(folder, app.folder, work, edits)
    for name in ("cuda.h", "cuda_runtime.h", "cutil.h", "helper_cuda.h", "helper_timer.h"):
        (work / name).write_text("")  # `cuda_by_fibers.h` stands for them
    options = [f"-I{work}"]
    options += [f"-I{item}" for item in (copy, copy / "common", folder.parent / "common")]
    objects = []
    for place, source in enumerate(app.sources):
        objects.append(str(work / f"{place}.o"))
        kind = ["gcc", *hooks(copy)] if source.endswith(".c") else [*_CXX, *hooks(copy, CLOCKS)]
        command = [*kind, "-O1", "-w", *options, "-c", str(copy / source), "-o", objects[-1]]
        subprocess.run(command, check=True, capture_output=True, cwd=(copy / source).parent)
    subprocess.run(
        ["g++", *objects, "-o", str(work / "program"), "-lm"], check=True, capture_output=True
    )
    return copy


def traced(copy: Path, work: Path, alternatives: str, environment: dict[str, str]) -> bytes:
    """What a program wrote down, with the first arguments with which it launched anything."""
    trace = work / "trace"
    for arguments in alternatives.format(data=work / "data").split(" | "):
        subprocess.run(
            [str(work / "program"), *arguments.split()],
            check=False,  # what a program returns says nothing
            capture_output=True,
            cwd=copy,
            env={**os.environ, "AIO_TRACE": str(trace), **environment},
            timeout=300,
        )
        if trace.exists():
            break
    return trace.read_bytes() if trace.exists() else b""


def records(data: bytes) -> Iterator[tuple[str, list[str], bytes]]:
    """The words, the items and the bytes behind them that `cuda_by_fibers.h` writes."""
    place = 0
    while place < len(data):
        end = data.index(b"\n", place)
        word, *items = data[place:end].decode().split()
        place = end + 1
        size = int(items[-1]) if word in _WITH_BYTES else 0
        yield word, items, data[place : place + size]
        place += size


_WITH_BYTES = ("argument", "before", "after", "symbol", "put")


def _launches(data: bytes) -> Iterator[RecordedLaunch]:
    launch = RecordedLaunch("", (), ())
    for word, items, content in records(data):
        match word, items:
            case "launch", [name, *sizes]:
                shape = tuple(map(int, sizes))
                launch = RecordedLaunch(name, shape[:3], shape[3:])
            case "argument", [kind, _]:
                launch.arguments.append((kind, content))
            case "before" | "after", [base, _]:
                memory = launch.before if word == "before" else launch.after
                memory[int(base)] = content
            case "symbol", [name, _]:
                launch.symbols[name] = content
            case "end", []:
                yield launch


def loaded(folder: Path, kernel: str, choices: Choices) -> tuple[CudaModule, CudaKernel]:
    """A kernel `file:name` of a program in a folder, and its module."""
    file, _, name = kernel.partition(":")
    include = [folder, *folder.rglob("*/"), folder.parents[1] / "common"]
    folders = [item for item in include if item.is_dir()]
    module = cuda.load(folder / file, include=folders, choices=choices)
    return module, module[name]


def _replayed(folder: Path, kernel: str, launches: Sequence[RecordedLaunch]) -> str:
    """Runs the recorded launches of a kernel by ours; says what is wrong, or nothing."""
    try:
        # Rounded as g++ does; myocyte's exponentials make much of a product that is rounded less.
        module, ours = loaded(folder, kernel, Choices(contract=False))
    except cuda.CudaError as error:
        return f"not understood: {error}"
    own = [item for item in launches if item.kernel == kernel.partition(":")[2]]
    if not own:
        return "not compared: the program by g++ did not launch it"
    for launch in own:
        wrong = compared_launch(module, ours, launch)
        if wrong:
            return wrong
    return ""


class DeviceMemory:
    """What a program had allocated, at other addresses, with slack on both sides."""

    def __init__(self, before: dict[int, bytes]) -> None:
        self._before = before
        self._arrays = {
            base: np.zeros(len(data) + 2 * _SLACK, np.uint8) for base, data in before.items()
        }
        self.types: dict[int, np.dtype[Any]] = {}
        """Of what lies at an address, as far as kernels were passed it."""
        self.reset()

    def reset(self, nudge: float = 0.0) -> None:
        """Puts in what was there before, with each float another one by `nudge` of it."""
        for base, data in self._before.items():
            there = self.bytes(base, len(data))
            there[:] = np.frombuffer(data, np.uint8)
            dtype = self.types.get(base, there.dtype)
            if nudge and dtype.kind == "f":
                floats = there[: len(data) // dtype.itemsize * dtype.itemsize].view(dtype)
                floats *= 1 + nudge * (1 - 2 * (np.arange(floats.size) % 2)).astype(dtype)

    def left(self) -> dict[int, Array]:
        """What the floats are now."""
        return {
            base: self.bytes(base, len(data)).view(dtype).copy()
            for base, data in self._before.items()
            if (dtype := self.types.get(base)) is not None
            and dtype.kind == "f"
            and not len(data) % dtype.itemsize
        }

    def _base(self, pointer: int) -> int | None:
        sizes = self._before.items()
        return next((base for base, data in sizes if base <= pointer < base + len(data)), None)

    def bytes(self, pointer: int, size: int) -> Array:
        """The bytes at an address of the program's."""
        base = self._base(pointer)
        if base is None:
            raise LookupError(f"nothing was allocated at {pointer}")
        begin = _SLACK + pointer - base
        return self._arrays[base][begin : begin + size]

    def values(self, kernel: CudaKernel, launch: RecordedLaunch) -> list[int | float | bool]:
        """What a launch was passed, with addresses in this memory."""
        values: list[int | float | bool] = []
        parameters = kernel.function.parameters
        for parameter, (kind, data) in zip(parameters, launch.arguments, strict=True):
            if kind == "s":
                raise LookupError("a struct is passed")
            if kind == "n":
                values.append(np.frombuffer(data, NUMPY[parameter.value.type])[0].item())
                continue
            pointer = int.from_bytes(data, "little")
            base = self._base(pointer)
            if base is None:
                values.append(0)
                continue
            values.append(self._arrays[base].ctypes.data + _SLACK + pointer - base)
            if parameter.element is not None:
                self.types.setdefault(base, NUMPY[parameter.element])
        return values

    def wrong(self, after: dict[int, bytes], undecided: Mapping[int, Array] = {}) -> str:
        """What is not as the program left it, or nothing.

        By addresses, `undecided` says of which elements rounding decides what they are.
        """
        for base, data in after.items():
            dtype = self.types.get(base, np.dtype(np.uint8))
            whole = len(data) // dtype.itemsize * dtype.itemsize
            theirs = np.frombuffer(data[:whole], dtype)
            result = self.bytes(base, whole).view(dtype)
            if dtype.kind == "f":
                finite = np.abs(theirs[np.isfinite(theirs)])
                scale = _TOLERANCE * float(finite.max(initial=0.0)) * 0.05
                same = _close(result, theirs, scale) | undecided.get(base, np.False_)
            else:
                same = result == theirs
            if not same.all():
                place = int(np.argmin(same))
                return (
                    f"wrong: {int((~same).sum())} of {same.size} elements of {dtype}, first"
                    f" {result[place]!r} for {theirs[place]!r} at {place}"
                )
        return ""


def set_symbols(module: CudaModule, kernel: CudaKernel, values: dict[str, bytes]) -> None:
    """Sets those of a program's `__constant__` variables that a kernel reads."""
    own = module.symbols.of(kernel.function)
    for name, data in values.items():
        if name in own:
            own[name][:] = np.frombuffer(data, np.uint8)


def compared_launch(module: CudaModule, kernel: CudaKernel, launch: RecordedLaunch) -> str:
    """Runs a launch by our kernel; says what is wrong with what it leaves, or nothing."""
    memory = DeviceMemory(launch.before)
    set_symbols(module, kernel, launch.symbols)
    try:
        values = memory.values(kernel, launch)
        kernel[launch.grid, launch.block].run(values)
        wrong = memory.wrong(launch.after)
        if not wrong:
            return ""
        # The first step of myocyte's solver passes 1e30, so that the last bits of what it begins
        # with decide how far off it was, which is an output too. Such elements tell nothing.
        left = memory.left()
        memory.reset(_NUDGE)
        kernel[launch.grid, launch.block].run(values)
        undecided = {
            base: ~_close(nudged, left[base], 0.0) for base, nudged in memory.left().items()
        }
        memory.reset()
        kernel[launch.grid, launch.block].run(values)
    except (cuda.CudaError, LookupError) as error:
        return f"not run: {error}"
    wrong = memory.wrong(launch.after, undecided)
    if not wrong:
        count = sum(int(mask.sum()) for mask in undecided.values())
        sys.stderr.write(f"{kernel.function.name}: rounding decides {count} elements\n")
    return wrong


def _close(x: Array, y: Array, atol: float) -> Array:
    return np.isclose(x, y, rtol=_TOLERANCE, atol=atol, equal_nan=True)


@dataclass(frozen=True, slots=True)
class InputSizes:
    """How large the inputs are that are made for the programs."""

    nodes: int = 600
    keys: int = 3000
    ranges: int = 12
    cells: int = 300
    side: int = 64
    layers: int = 4


def make_inputs(data: Path, sizes: InputSizes = InputSizes()) -> None:
    """Inputs in the formats that the programs read."""
    draw = np.random.default_rng(0)

    def written(name: str, lines: Iterable[object]) -> None:
        path = data / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join(map(str, lines)) + "\n")

    nodes, degree = sizes.nodes, 4
    edges = draw.integers(0, nodes, nodes * degree).tolist()
    costs = draw.integers(1, 9, nodes * degree).tolist()
    graph = [nodes, *(f"{node * degree} {degree}" for node in range(nodes)), 0, len(edges)]
    written("graph", [*graph, *(f"{edge} {cost}" for edge, cost in zip(edges, costs, strict=True))])
    keys = draw.permutation(sizes.keys)
    written("keys", [keys.size, *keys.tolist()])
    written("command", [f"j {sizes.ranges} 30", f"k {5 * sizes.ranges // 3}"])
    # Neighbours are near, as in a mesh, and faces small, so that nothing overflows in many steps.
    cells = sizes.cells
    near = np.arange(1, cells + 1)[:, None] + draw.integers(-40, 41, (cells, 4))
    near = np.where(draw.random(near.shape) < 0.1, draw.integers(-2, 0, near.shape), near)
    near = np.where((near < -2) | (near == 0) | (near > cells), -1, near)
    faces, areas = 0.01 * draw.normal(size=(cells, 4, 3)), draw.uniform(0.5, 1.5, cells)
    sides = np.concatenate([near[..., None], faces], -1).reshape(cells, -1)
    line = " ".join(["%.5f", *["%d %.5f %.5f %.5f"] * 4])
    rows = np.concatenate([areas[:, None], sides], 1).tolist()
    written("mesh", [cells, *(line % tuple(row) for row in rows)])
    square = sizes.side**2
    for name, low, high, count in (
        ("temperature", 320, 340, square),
        ("power", 0, 0.01, square),
        ("temperature3d", 320, 340, square * sizes.layers),
        ("power3d", 0, 0.01, square * sizes.layers),
        ("myocyte/y.txt", 0.05, 0.9, 91),
        ("myocyte/params.txt", 0.1, 2.0, 18),
    ):
        written(name, [f"{value:.6f}" for value in draw.uniform(low, high, count).tolist()])
    pixels = draw.integers(1, 255, 502 * 458)
    written("srad/image.pgm", ["P2", "458 502", "255", *pixels.tolist()])


# --- Polybench


def polybench(
    root: Path, scratch: Path, quick: bool
) -> Iterator[tuple[str, str, dict[str, float]]]:
    """Of each kernel, its name, what is wrong (nothing if it is right), and milliseconds."""
    for path in sorted(root.rglob("*.c")):
        if path.parent.name == "utilities":
            continue
        yield _polybench_kernel(root, path, scratch, quick)


def _polybench_kernel(
    root: Path, path: Path, scratch: Path, quick: bool
) -> tuple[str, str, dict[str, float]]:
    size = "MEDIUM_DATASET" if quick else "LARGE_DATASET"
    include = [path.parent, root / "utilities"]
    try:
        module = cuda.load(path, include=include, defines=[size])
        name = next(item for item in module.source.hosts if item.startswith("kernel_"))
        ours = module.host(name)
    except (cuda.CudaError, StopIteration) as error:
        return path.stem, f"not understood: {error}", {}
    parameters = ours.function.parameters
    whole = [item.name for item in parameters if item.value.type.is_integer]
    sizes = "".join(f"int aio_{item} = {item.upper()};\n" for item in whole)
    theirs = _built(root, path, scratch, size, sizes, "fast")
    known: dict[str, Any] = {
        item: ctypes.c_int.in_dll(theirs, f"aio_{item}").value for item in whole
    }
    rows = max(known.values())
    for item in parameters:
        if item.name in known:
            continue
        if item.value.type is not ScalarType.PTR:
            known[item.name] = np.zeros(1, NUMPY[item.value.type])
        elif item.element is not None:
            dtype = NUMPY[item.element]
            known[item.name] = np.zeros((rows, max(item.stride // dtype.itemsize, 1)), dtype)
    theirs["init_array"](*(_passed(known[item]) for item in _initialized(path)))
    arguments = [
        known[item.name]
        if item.value.type is ScalarType.PTR or item.name in whole
        else known[item.name].reshape(-1)[0].item()
        for item in parameters
    ]
    # Whether they are the same is asked where neither rounds a product and a sum only once, as
    # gramschmidt's matrix is singular up to what that makes of it.
    exact = cuda.load(path, include=include, defines=[size], choices=Choices(contract=False))
    theirs_exactly = _built(root, path, scratch, size, sizes, "off")
    wrong, _ = raced(exact.host(name), theirs_exactly[name], arguments, 0)
    return path.stem, wrong, raced(ours, theirs[name], arguments, 3)[1]


def _built(
    root: Path, path: Path, scratch: Path, size: str, sizes: str, contraction: str
) -> ctypes.CDLL:
    """A program as a library of gcc's, with its sizes as variables."""
    text = scratch / f"{path.stem}.c"
    library = scratch / f"{path.stem}.{contraction}.so"
    # Its functions are static, and the headers that it includes are to stay as they are.
    text.write_text(
        "#include <stdio.h>\n#include <unistd.h>\n#include <string.h>\n#include <math.h>\n"
        "#include <stdlib.h>\n#include <polybench.h>\n"
        f'#define static\n#include "{path}"\n{sizes}'
    )
    include = (path.parent, root / "utilities")
    subprocess.run(
        [
            "gcc", "-O3", "-march=native", f"-ffp-contract={contraction}", "-shared", "-fPIC", "-w",
            f"-D{size}", "-DPOLYBENCH_USE_SCALAR_LB", *(f"-I{item}" for item in include),
            str(text), str(root / "utilities" / "polybench.c"), "-o", str(library), "-lm",
        ],
        check=True,
    )  # fmt: skip
    return ctypes.CDLL(str(library))


def _initialized(path: Path) -> Iterator[str]:
    """The names of what a program's `init_array` takes, which its kernel calls the same."""
    text = path.read_bytes().decode(errors="replace")
    match = re.search(r"init_array\s*\((.*?)\)\s*\{", text, re.DOTALL)
    listed = "" if match is None else match[1]
    for item in re.split(r",(?![^()]*\))", listed):
        array = re.search(r"POLYBENCH_\dD\s*\(\s*(\w+)", item)
        yield array[1] if array else re.findall(r"\w+", item)[-1]


def _passed(value: Any, type: ScalarType = ScalarType.F64) -> Any:
    """A value as ctypes passes it, numbers with a point as this type."""
    if isinstance(value, np.ndarray):
        return value.ctypes.data_as(ctypes.c_void_p)
    if isinstance(value, float):
        return ctypes.c_float(value) if type is ScalarType.F32 else ctypes.c_double(value)
    return ctypes.c_int(value)


def raced(
    ours: HostFunction, theirs: Any, arguments: Sequence[Any], rounds: int
) -> tuple[str, dict[str, float]]:
    """What is wrong with what a nest leaves, beside the same by gcc, and the best milliseconds."""
    before = [item.copy() if isinstance(item, np.ndarray) else item for item in arguments]
    types = [item.value.type for item in ours.function.parameters]
    passed = [_passed(item, type) for item, type in zip(arguments, types, strict=True)]
    results: dict[str, list[Any]] = {}
    best = {"ours": np.inf, "gcc": np.inf}
    for turn in range(rounds + 1):
        for name, run in (("gcc", lambda: theirs(*passed)), ("ours", lambda: ours(*arguments))):
            for array, original in zip(arguments, before, strict=True):
                if isinstance(array, np.ndarray):
                    array[...] = original
            start = time.perf_counter()
            run()
            seconds = time.perf_counter() - start
            if turn == 0:
                results[name] = [np.copy(item) for item in arguments]
            if turn or seconds > _LONG:
                best[name] = min(best[name], seconds * 1e3)
        if max(best.values()) < np.inf and best["gcc"] > _LONG * 1e3:
            break
    for array, original in zip(arguments, before, strict=True):
        if isinstance(array, np.ndarray):
            array[...] = original
    for place, (first, second) in enumerate(zip(results["ours"], results["gcc"], strict=True)):
        relative = 1e-4 if first.dtype == np.float32 else 1e-6
        finite = np.abs(second[np.isfinite(second)])
        scale = relative * 1e-3 * float(finite.max(initial=0.0))
        same = np.isclose(first, second, rtol=relative, atol=scale, equal_nan=True)
        if not same.all():
            return f"wrong: {int((~same).sum())} elements of argument {place}", best
    return "", best


# --- stumpy


@dataclass(frozen=True, slots=True)
class TestRun:
    """Of a test: how it ended, its seconds, and those of them that were spent in launches."""

    outcome: str
    seconds: float
    launches: float
    reason: str


def stumpy(root: Path, quick: bool) -> tuple[dict[str, TestRun], dict[str, TestRun]]:
    """The tests of GPU code with our `numba.cuda`, and as many as its simulator does in time.

    Each file of tests has its share of the time. Of ours, a file whose tests do not come to an end
    counts as a test that fails.

    Raises LookupError that says what is missing; nothing is installed.
    """
    if not (root / "stumpy" / "gpu_stump.py").is_file():
        raise LookupError(f"{root} is no checkout of stumpy: stumpy/gpu_stump.py is not in it")
    required = ("numba", "scipy", "pandas", "polars", "pytest")
    missing = [item for item in required if importlib.util.find_spec(item) is None]
    if missing:
        raise LookupError(
            f"stumpy's tests need {', '.join(missing)}, not installed in {sys.prefix}:"
            f" pip install {' '.join(missing)}"
        )
    tests = sorted(item.name for item in (root / "tests").glob("test_gpu_*.py"))
    tests = tests[-1:] if quick else tests
    ours: dict[str, TestRun] = {}
    simulated: dict[str, TestRun] = {}
    for name in tests:
        ours |= tested(root, "ours", name, 1200 / len(tests))
        runs = tested(root, "simulator", name, (60 if quick else 900) / len(tests))
        simulated |= {test: run for test, run in runs.items() if test != name}
    return ours, simulated


def tested(root: Path, who: str, file: str, seconds: float) -> dict[str, TestRun]:
    """The tests of a file that end in so many seconds; where one does not, the file is one more."""
    paths = os.pathsep.join([str(root), *sys.path])
    environment = {**os.environ, "PYTHONPATH": paths, "PYTHONHASHSEED": "0"}
    if who == "simulator":
        environment["NUMBA_ENABLE_CUDASIM"] = "1"
    process = subprocess.Popen(
        [sys.executable, "-m", "lib.cuda_projects", who, file],
        cwd=root / "tests",
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    runs: dict[str, TestRun] = {}
    assert process.stdout is not None
    timer = threading.Timer(seconds, process.kill)  # a test that hangs writes no line to wait for
    timer.start()
    try:
        for line in process.stdout:
            if line.startswith("AIO"):
                name, *listed = json.loads(line[3:])
                runs[name] = TestRun(*listed)
        code = process.wait()
    finally:
        timer.cancel()
        process.kill()
        process.wait()
    if code not in (0, 1):  # of pytest: all passed, some failed
        reason = f"ended with {code} after {len(runs)} tests; it had {seconds:.0f} s"
        runs[file] = TestRun("failed", 0.0, 0.0, reason)
    return runs


class _Reports:
    """A plugin of pytest that prints a line for each test, and times what is launched in it."""

    def __init__(self, launch: type[Any]) -> None:
        self._spent = 0.0
        original = launch.__call__

        def timed(kernel: Any, *arguments: Any) -> Any:
            start = time.perf_counter()
            try:
                return original(kernel, *arguments)
            finally:
                self._spent += time.perf_counter() - start

        setattr(launch, "__call__", timed)  # noqa: B010  # a method of a class that is Any

    def pytest_runtest_setup(self, item: Any) -> None:
        self._spent = 0.0

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.when == "call" or report.outcome != "passed":
            reason = str(report.longrepr or "")[-600:]
            line = [report.nodeid, report.outcome, report.duration, self._spent, reason]
            assert sys.__stdout__ is not None
            sys.__stdout__.write(f"AIO{json.dumps(line)}\n")
            sys.__stdout__.flush()


def _run_tests(who: str, file: str) -> None:
    """Runs tests of stumpy in this process, whose folder is that of the tests."""
    import pytest

    options = ["-p", "no:cacheprovider", "-p", "no:terminal", "-W", "ignore", file]
    if who == "ours":
        with cuda.patched():
            sys.exit(pytest.main(options, [_Reports(PythonLaunch)]))
    from numba.cuda.simulator.kernel import FakeCUDAKernel

    sys.exit(pytest.main(options, [_Reports(FakeCUDAKernel)]))


if __name__ == "__main__":
    _run_tests(sys.argv[1], sys.argv[2])
