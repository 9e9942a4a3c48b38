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
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from aiosearch import cuda
from aiosearch.cuda.compiled.lowering import Choices
from aiosearch.cuda.host_functions import HostFunction
from aiosearch.cuda.interpreter.arithmetic import NUMPY
from aiosearch.cuda.ir.types import ScalarType
from aiosearch.cuda.numba.api import PythonLaunch

_HEADER = Path(__file__).parent / "cuda_by_fibers.h"
_LAUNCHES = 3
"""Of each kernel, how many launches are compared."""
_SLACK = 1 << 16
"""Bytes on both sides of each piece of memory: srad_v2 reads a row before its first one."""
_TOLERANCE = 1e-4
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
class _Launch:
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
    _make_inputs(scratch / "data")
    for number, app in enumerate(APPS):
        if not (folder / app.folder).is_dir():
            for kernel in app.kernels:
                yield f"{app.folder}/{kernel}", f"not there: {folder / app.folder}"
            continue
        try:
            launches = list(_traced(folder, app, scratch / f"app{number}"))
        except subprocess.CalledProcessError as error:
            reason = error.stderr.decode(errors="replace").strip().splitlines()[:3]
            launches = []
            sys.stderr.write(f"{app.folder}: not built or not run by g++: {''.join(reason)}\n")
        for kernel in app.kernels:
            yield f"{app.folder}/{kernel}", _replayed(folder / app.folder, kernel, launches)


def _traced(folder: Path, app: App, work: Path) -> Iterator[_Launch]:
    """Builds a program by g++, runs it, and reads what it wrote down."""
    copy, hooks = work / "x" / app.folder, set[str]()
    shutil.copytree(folder / app.folder, copy)
    for path in copy.rglob("*"):
        if path.suffix in (".cu", ".cpp", ".h", ".c") and path.is_file():
            text = path.read_bytes().decode(errors="replace")
            text = re.sub(
                r"(\w+)\s*<<<(.*?)>>>\s*\(", r'aio_kernel("\1", \1, \2)(', text, flags=re.DOTALL
            )
            path.write_text(text)
            # One copy of the programs has macros for its own measurements.
            hooks.update(re.findall(r"\bMY_[A-Z_]+(?=\()", text))
    shutil.copytree(work.parent / "data", work / "data")
    for name in ("cuda.h", "cuda_runtime.h", "cutil.h", "helper_cuda.h", "helper_timer.h"):
        (work / name).write_text("")  # `cuda_by_fibers.h` stands for them
    options = [f"-I{work}"]
    options += [f"-I{item}" for item in (copy, copy / "common", folder.parent / "common")]
    options += [f"-D{item}(...)=(void)0" for item in sorted(hooks)]
    objects = []
    for place, source in enumerate(app.sources):
        objects.append(str(work / f"{place}.o"))
        kind = (
            ["gcc"]
            if source.endswith(".c")
            else ["g++", "-x", "c++", "-std=c++17", "-fpermissive", "-include", str(_HEADER)]
        )
        command = [*kind, "-O1", "-w", *options, "-c", str(copy / source), "-o", objects[-1]]
        subprocess.run(command, check=True, capture_output=True, cwd=(copy / source).parent)
    subprocess.run(
        ["g++", *objects, "-o", str(work / "program"), "-lm"], check=True, capture_output=True
    )
    trace = work / "trace"
    alternatives = app.arguments.format(data=work / "data").split(" | ")
    environment = {
        **os.environ,
        "AIO_TRACE": str(trace),
        "AIO_LAUNCHES": str(_LAUNCHES),
        "AIO_MOST": str(app.most),
    }
    for arguments in alternatives:
        subprocess.run(
            [str(work / "program"), *arguments.split()],
            check=False,  # what a program returns says nothing
            capture_output=True,
            cwd=copy,
            env=environment,
            timeout=300,
        )
        if trace.exists():
            break
    return _launches(trace.read_bytes() if trace.exists() else b"")


def _launches(data: bytes) -> Iterator[_Launch]:
    place, launch = 0, _Launch("", (), ())
    while place < len(data):
        end = data.index(b"\n", place)
        word, *items = data[place:end].decode().split()
        place = end + 1
        match word, items:
            case "launch", [name, *sizes]:
                shape = tuple(map(int, sizes))
                launch = _Launch(name, shape[:3], shape[3:])
            case "argument", [kind, size]:
                launch.arguments.append((kind, data[place : place + int(size)]))
                place += int(size)
            case "before" | "after", [base, size]:
                memory = launch.before if word == "before" else launch.after
                memory[int(base)] = data[place : place + int(size)]
                place += int(size)
            case "symbol", [name, size]:
                launch.symbols[name] = data[place : place + int(size)]
                place += int(size)
            case "end", []:
                yield launch


def _replayed(folder: Path, kernel: str, launches: Sequence[_Launch]) -> str:
    """Runs the recorded launches of a kernel by ours; says what is wrong, or nothing."""
    file, _, name = kernel.partition(":")
    path = folder / file
    include = [folder, *folder.rglob("*/"), folder.parents[1] / "common"]
    try:
        # Rounded as g++ does; myocyte's exponentials make much of a product that is rounded less.
        choices = Choices(contract=False)
        folders = [item for item in include if item.is_dir()]
        module = cuda.load(path, include=folders, choices=choices)
        ours = module[name]
    except cuda.CudaError as error:
        return f"not understood: {error}"
    own = [item for item in launches if item.kernel == name]
    if not own:
        return "not compared: the program by g++ did not launch it"
    for launch in own:
        wrong = _compared(module, ours, launch)
        if wrong:
            return wrong
    return ""


def _compared(module: Any, kernel: Any, launch: _Launch) -> str:
    memory = {}
    for base, data in launch.before.items():
        padded = np.zeros(len(data) + 2 * _SLACK, np.uint8)
        padded[_SLACK : _SLACK + len(data)] = np.frombuffer(data, np.uint8)
        memory[base] = padded
    for name, data in launch.symbols.items():
        if name in module.symbols.of(kernel.function):
            module.symbols.arrays[name][:] = np.frombuffer(data, np.uint8)
    values: list[int | float | bool] = []
    types: dict[int, np.dtype[Any]] = {}
    for parameter, (kind, data) in zip(kernel.function.parameters, launch.arguments, strict=True):
        if kind == "s":
            return "not compared: a struct is passed"
        if kind == "n":
            values.append(np.frombuffer(data, NUMPY[parameter.value.type])[0].item())
            continue
        pointer = int.from_bytes(data, "little")
        base = next((b for b in memory if b <= pointer < b + len(launch.before[b])), None)
        if base is None:
            values.append(0)
            continue
        values.append(memory[base].ctypes.data + _SLACK + pointer - base)
        if parameter.element is not None:
            types.setdefault(base, NUMPY[parameter.element])
    try:
        kernel[launch.grid, launch.block].run(values)
    except cuda.CudaError as error:
        return f"not run: {error}"
    for base, data in launch.after.items():
        dtype = types.get(base, np.dtype(np.uint8))
        whole = len(data) // dtype.itemsize * dtype.itemsize
        theirs = np.frombuffer(data[:whole], dtype)
        result = memory[base][_SLACK : _SLACK + whole].view(dtype)
        if dtype.kind == "f":
            finite = np.abs(theirs[np.isfinite(theirs)])
            scale = _TOLERANCE * float(finite.max(initial=0.0)) * 0.05
            same = np.isclose(result, theirs, rtol=_TOLERANCE, atol=scale, equal_nan=True)
        else:
            same = result == theirs
        if not same.all():
            place = int(np.argmin(same))
            return (
                f"wrong: {int((~same).sum())} of {same.size} elements of {dtype}, first"
                f" {result[place]!r} for {theirs[place]!r} at {place}"
            )
    return ""


def _make_inputs(data: Path) -> None:
    """Small inputs in the formats that the programs read."""
    draw = np.random.default_rng(0)

    def written(name: str, lines: Sequence[object]) -> None:
        path = data / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join(map(str, lines)) + "\n")

    nodes, degree = 600, 4
    edges = draw.integers(0, nodes, nodes * degree)
    graph = [nodes, *(f"{node * degree} {degree}" for node in range(nodes)), 0, edges.size]
    written("graph", [*graph, *(f"{edge} {draw.integers(1, 9)}" for edge in edges)])
    keys = draw.permutation(3000)
    written("keys", [keys.size, *keys])
    written("command", ["j 12 30", "k 20"])
    mesh: list[object] = [300]
    for _ in range(300):
        sides = [
            f"{draw.choice([-1, -2, *draw.integers(1, 301, 6)])} "
            + " ".join(f"{value:.5f}" for value in draw.normal(size=3))
            for _ in range(4)
        ]
        mesh.append(f"{draw.uniform(0.5, 1.5):.5f} {' '.join(sides)}")
    written("mesh", mesh)
    for name, low, high, count in (
        ("temperature", 320, 340, 64 * 64),
        ("power", 0, 0.01, 64 * 64),
        ("temperature3d", 320, 340, 64 * 64 * 4),
        ("power3d", 0, 0.01, 64 * 64 * 4),
        ("myocyte/y.txt", 0.05, 0.9, 91),
        ("myocyte/params.txt", 0.1, 2.0, 18),
    ):
        written(name, [f"{value:.6f}" for value in draw.uniform(low, high, count)])
    pixels = draw.integers(1, 255, 502 * 458)
    written("srad/image.pgm", ["P2", "458 502", "255", *pixels])


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
    ours = _tested(root, "ours", tests, 1200)
    return ours, _tested(root, "simulator", tests, 60 if quick else 900)


def _tested(root: Path, who: str, tests: Sequence[str], seconds: float) -> dict[str, TestRun]:
    paths = os.pathsep.join([str(root), *sys.path])
    environment = {**os.environ, "PYTHONPATH": paths, "PYTHONHASHSEED": "0"}
    if who == "simulator":
        environment["NUMBA_ENABLE_CUDASIM"] = "1"
    process = subprocess.Popen(
        [sys.executable, "-m", "lib.cuda_projects", who, *tests],
        cwd=root / "tests",
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    runs: dict[str, TestRun] = {}
    assert process.stdout is not None
    end = time.monotonic() + seconds
    try:
        for line in process.stdout:
            if line.startswith("AIO"):
                name, *listed = json.loads(line[3:])
                runs[name] = TestRun(*listed)
            if time.monotonic() > end:
                break
    finally:
        process.kill()
        process.wait()
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


def _run_tests(who: str, tests: Sequence[str]) -> None:
    """Runs tests of stumpy in this process, whose folder is that of the tests."""
    import pytest

    options = ["-p", "no:cacheprovider", "-p", "no:terminal", "-W", "ignore", *tests]
    if who == "ours":
        with cuda.patched():
            sys.exit(pytest.main(options, [_Reports(PythonLaunch)]))
    from numba.cuda.simulator.kernel import FakeCUDAKernel

    sys.exit(pytest.main(options, [_Reports(FakeCUDAKernel)]))


if __name__ == "__main__":
    _run_tests(sys.argv[1], sys.argv[2:])
