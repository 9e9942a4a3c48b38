"""Rodinia's CUDA programs on this processor beside their OpenMP versions, written by hand.

A checkout of the suite that has both, with clocks around what is measured, is given by path. The
CUDA program is run once by fibers, and writes down what it asks of the device between its clocks:
launches, copies, and memory before. That is done again by ours, with the result compared. The
OpenMP program, by gcc -O3 as the suite builds it and by gcc -O3 -march=native, is run as it is on
the same inputs; its clocks tell wall time and CPU time of the same part. All take turns, and of
OpenMP the better counts of threads that spin and threads that sleep while they wait.
"""

from __future__ import annotations

import itertools
import os
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np

from aiosearch import cuda
from aiosearch.cuda.compiled.lowering import Choices

from .cuda_projects import (
    APPS,
    CLOCKS,
    App,
    DeviceMemory,
    InputSizes,
    RecordedLaunch,
    built_by_fibers,
    copied,
    hooks,
    loaded,
    make_inputs,
    records,
    said,
    set_symbols,
    traced,
)

_HEADER = Path(__file__).parent / "openmp_clocks.h"
_REGIONS = 3
"""Of a program that stops its clock more often, so many are compared."""
SIZES = InputSizes(nodes=1 << 18, keys=100_000, ranges=1500, cells=60_000, side=512, layers=8)


@dataclass(frozen=True, slots=True)
class OpenMpProgram:
    """The OpenMP version of an app, and with which arguments both do the same work."""

    folder: str
    sources: tuple[str, ...]
    arguments: str
    kernel: str
    """One of the CUDA program's, by which its app is chosen."""
    cuda_arguments: str
    """Alternatives of them, as those of an `App`."""
    options: tuple[str, ...] = ()
    edits: tuple[tuple[str, str], ...] = ()
    """Parts of both texts to replace, as of a number of steps that is no argument."""


_CHIP3D = "{data}/power3d {data}/temperature3d {data}/out"
_FILTER = "-x 128 -y 128 -z 10 -np 10000"
PROGRAMS = (
    OpenMpProgram(
        "backprop",
        ("backprop.c", "backprop_kernel.c", "facetrain.c", "imagenet.c"),
        "131072",
        "bpnn_adjust_weights_cuda",
        "131072",
    ),
    OpenMpProgram("bfs", ("bfs.cpp",), "{data}/graph", "Kernel2", "{data}/graph"),
    OpenMpProgram(
        "b+tree",
        (
            "main.c",
            "kernel/kernel_cpu.c",
            "kernel/kernel_cpu_2.c",
            "util/timer/timer.c",
            "util/num/num.c",
        ),
        "file {data}/keys command {data}/command",
        "findK",
        "file {data}/keys command {data}/command",
    ),
    OpenMpProgram(
        "cfd",
        ("euler3d_cpu.cpp",),
        "{data}/mesh",
        "cuda_compute_flux",
        "{data}/mesh",
        ("-Dblock_length=8",),
        (("iterations 2000", "iterations 10"),),
    ),
    OpenMpProgram(
        "hotspot",
        ("hotspot_openmp.cpp",),
        "512 512 32 2 {data}/temperature {data}/power {data}/out",
        "calculate_temp",
        "512 2 32 {data}/temperature {data}/power {data}/out",
    ),
    OpenMpProgram(
        "hotspot3D",
        ("3D.c",),
        f"512 8 20 {_CHIP3D}",
        "hotspotOpt1",
        f"512 8 20 {_CHIP3D} 1 | 512 8 20 {_CHIP3D}",
    ),
    OpenMpProgram(
        "lud",
        ("omp/lud.c", "omp/lud_omp.c", "common/common.c"),
        "-s 1024",
        "lud_internal",
        "-s 1024",
        ("-Icommon",),
    ),
    OpenMpProgram("myocyte", ("main.c",), "4 256 1 2", "solver_2", "4 256 1"),
    OpenMpProgram("nw", ("needle.cpp",), "2048 10 2", "needle_cuda_shared_1", "2048 10"),
    OpenMpProgram(
        "particlefilter", ("ex_particle_OPENMP_seq.c",), _FILTER, "likelihood_kernel", _FILTER
    ),
    OpenMpProgram(
        "pathfinder", ("pathfinder.cpp",), "100000 100", "dynproc_kernel", "100000 100 2"
    ),
    OpenMpProgram(
        "streamcluster",
        ("streamcluster_omp.cpp",),
        "2 3 256 16384 16384 1000 none {data}/out 1",
        "kernel_compute_cost",
        "2 3 256 16384 16384 1000 none {data}/out 1",
    ),
    OpenMpProgram("srad/srad_v1", ("main.c",), "2 0.5 1024 1024 2", "extract", "2 0.5 1024 1024"),
    OpenMpProgram(
        "srad/srad_v2",
        ("srad.cpp",),
        "1024 1024 0 127 0 127 2 0.5 2",
        "srad_cuda_1",
        "1024 1024 0 127 0 127 0.5 2",
    ),
)
"""The fourteen apps that Polygeist's authors compare."""

Seconds = tuple[float, float]
"""By wall, and of CPU by all threads."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """Of a program: what is wrong, or the best times of both."""

    name: str
    wrong: str = ""
    ours: Seconds = (0.0, 0.0)
    openmp: Seconds = (0.0, 0.0)
    native: Seconds = (0.0, 0.0)
    """OpenMP's with the instructions of this machine, which the suite does not ask for."""


@dataclass(slots=True)
class _Region:
    """What a CUDA program did between its clocks."""

    name: str
    before: dict[int, bytes] = field(default_factory=dict)
    after: dict[int, bytes] = field(default_factory=dict)
    symbols: dict[str, bytes] = field(default_factory=dict)
    steps: list[RecordedLaunch | tuple[str, tuple[int, ...], bytes]] = field(default_factory=list)
    """Launches, and copies by their names, numbers and bytes."""


def compared(root: Path, scratch: Path, quick: bool) -> Iterator[Comparison]:
    """Each program beside its OpenMP version."""
    make_inputs(scratch / "data", SIZES)
    for number, program in enumerate(PROGRAMS):
        try:
            yield _compared(root, program, scratch / f"program{number}", 2 if quick else 6)
        except subprocess.CalledProcessError as error:
            yield Comparison(program.folder, f"not built or not run: {said(error)}")
        except (LookupError, OSError, cuda.CudaError) as error:
            yield Comparison(program.folder, f"not compared: {error}")


def _compared(root: Path, program: OpenMpProgram, work: Path, rounds: int) -> Comparison:
    app = next(
        item for item in APPS if any(name.endswith(f":{program.kernel}") for name in item.kernels)
    )
    (work / "cuda").mkdir(parents=True)
    for kind in ("openmp", "native"):
        (work / kind).mkdir()
    (work / "data").symlink_to(work.parent / "data")
    measured = _openmp(root, program, work / "openmp", ())
    natively = _openmp(root, program, work / "native", ("-march=native",))
    copy = built_by_fibers(root / "cuda", app, work / "cuda", program.edits)
    trace = traced(copy, work / "cuda", program.cuda_arguments, {"AIO_REGIONS": str(_REGIONS)})
    names = list(measured())
    regions = [item for item in _regions(trace) if item.name in {name for name, _ in names}]
    if not regions:
        raise LookupError("the program by g++ stopped none of the clocks of the OpenMP version")
    exact = [_Replay(root, app, region, Choices(contract=False)) for region in regions]
    wrong = ""
    for replay, region in zip(exact, regions, strict=True):
        replay()
        wrong = wrong or replay.memory.wrong(region.after)
    if wrong:
        return Comparison(program.folder, wrong)
    replays = [_Replay(root, app, region, Choices()) for region in regions]
    del exact
    ours, theirs, native = [], [], []
    for turn in range(rounds + 1):
        theirs.append(_summed(regions, measured()))
        native.append(_summed(regions, natively()))
        times = [replay.timed() for replay in replays]
        if turn:  # kernels are compiled in the first turn, which the others do not wait for
            ours.append((sum(item[0] for item in times), sum(item[1] for item in times)))
    return Comparison(program.folder, "", _least(ours), _least(theirs), _least(native))


def _least(times: Sequence[Seconds]) -> Seconds:
    return min(item[0] for item in times), min(item[1] for item in times)


def _summed(regions: Sequence[_Region], measured: Sequence[tuple[str, Seconds]]) -> Seconds:
    """The times of as many regions of each name as were recorded."""
    wall = cpu = 0.0
    for name in dict.fromkeys(item.name for item in regions):
        count = sum(item.name == name for item in regions)
        times = [item for other, item in measured if other == name][:count]
        wall, cpu = wall + sum(item[0] for item in times), cpu + sum(item[1] for item in times)
    return wall, cpu


def _openmp(
    root: Path, program: OpenMpProgram, work: Path, machine: Sequence[str]
) -> Callable[[], list[tuple[str, Seconds]]]:
    """Builds the OpenMP version; what is given runs it, and tells what its clocks said."""
    copy = copied(root / "openmp", program.folder, work, program.edits)
    options = ["-O3", *machine, "-fopenmp", "-w", "-include", str(_HEADER)]
    options += [*hooks(copy, CLOCKS), *program.options]
    objects = []
    for place, source in enumerate(program.sources):
        objects.append(str(work / f"{place}.o"))
        compiler = ["gcc", "-std=gnu17", "-fcommon"] if source.endswith(".c") else ["g++"]
        command = [*compiler, *options, "-c", source, "-o", objects[-1]]
        subprocess.run(command, check=True, capture_output=True, cwd=copy)
    command = ["g++", "-fopenmp", *objects, "-o", str(work / "program"), "-lm"]
    subprocess.run(command, check=True, capture_output=True)
    arguments = program.arguments.format(data=work / "data").split()
    clocks = work / "clocks"
    environment = {**os.environ, "OMP_NUM_THREADS": "2", "AIO_CLOCKS": str(clocks)}
    policies = itertools.cycle(("active", "passive"))

    def run() -> list[tuple[str, Seconds]]:
        clocks.unlink(missing_ok=True)
        environment["OMP_WAIT_POLICY"] = next(policies)
        subprocess.run(
            [str(work / "program"), *arguments],
            check=False,  # what a program returns says nothing
            capture_output=True,
            cwd=copy,
            env=environment,
            timeout=300,
        )
        if not clocks.exists():
            raise LookupError("the OpenMP version stopped none of its clocks")
        lines = [line.rsplit(",", 2) for line in clocks.read_text().splitlines()]
        return [(name.strip(), (float(wall), float(cpu))) for name, wall, cpu in lines]

    return run


def _regions(trace: bytes) -> Iterator[_Region]:
    region = _Region("")
    for word, items, content in records(trace):
        match word, items:
            case "region", names:
                region = _Region(" ".join(names))
            case "before" | "after", [base, _]:
                memory = region.before if word == "before" else region.after
                memory[int(base)] = content
            case "symbol", [name, _]:
                region.symbols[name] = content
            case "launch", [name, *sizes]:
                shape = tuple(map(int, sizes))
                region.steps.append(RecordedLaunch(name, shape[:3], shape[3:]))
            case "argument", [kind, _]:
                launch = region.steps[-1]
                assert isinstance(launch, RecordedLaunch)
                launch.arguments.append((kind, content))
            case "put" | "copy" | "fill", numbers:
                region.steps.append((word, tuple(map(int, numbers)), content))
            case "end", []:
                yield region


class _Replay:
    """A region done again by ours, as often as it is called."""

    def __init__(self, root: Path, app: App, region: _Region, choices: Choices) -> None:
        self.memory = DeviceMemory(region.before)
        folder = root / "cuda" / app.folder
        kernels = {
            name.partition(":")[2]: loaded(folder, name, choices)
            for name in app.kernels
            if any(
                isinstance(step, RecordedLaunch) and step.kernel == name.partition(":")[2]
                for step in region.steps
            )
        }
        for module, kernel in kernels.values():
            set_symbols(module, kernel, region.symbols)
        self._steps: list[Callable[[], object]] = []
        launches = {}
        for step in region.steps:
            if not isinstance(step, RecordedLaunch):
                self._steps.append(self._copy(*step))
                continue
            if step.kernel not in kernels:
                raise LookupError(f"{step.kernel} is launched, which is not among the app's")
            kernel = kernels[step.kernel][1]
            key = (step.kernel, step.grid, step.block)
            launch = launches.setdefault(key, kernel[step.grid, step.block])
            self._steps.append(partial(launch.run, self.memory.values(kernel, step)))

    def _copy(self, word: str, numbers: tuple[int, ...], content: bytes) -> Callable[[], object]:
        """A copy between host and device, or within the device."""
        target, *others = numbers
        size = others[-1]
        to = self.memory.bytes(target, size) if target else np.empty(size, np.uint8)
        if word == "fill":
            return partial(to.fill, others[0] & 255)
        put = word == "put"
        source = np.frombuffer(content, np.uint8) if put else self.memory.bytes(others[0], size)
        return partial(np.copyto, to, source)

    def __call__(self) -> None:
        for step in self._steps:
            step()

    def timed(self) -> Seconds:
        """The seconds of a run on the memory as it was before."""
        self.memory.reset()
        wall, cpu = time.perf_counter(), time.process_time()
        self()
        return time.perf_counter() - wall, time.process_time() - cpu
