"""CUDA kernels on this processor: their times, what the decisions of the lowering are worth, and
whether generated programs and seeded faults come out as they should.

    python benchmarks/cuda.py [--quick] [--only PART] [--programs 1000] [--first 0] [--rodinia PATH]
                              [--polybench PATH] [--stumpy PATH] [--torch PYTHON]

Times are CPU times, the best of several rounds that all arms take in turns. The paths are checkouts
of other people's programs, of which nothing is here; `lib/cuda_projects.py` says what is done with
them. What is wrong or not understood is named on stderr. With `--only projects`, nothing else is
run. The step of ResNet-50 is timed beside PyTorch's where that is installed, or `--torch` names a
Python that has it. Needs the extra `cuda`.
"""

from __future__ import annotations

import argparse
import ctypes
import functools
import importlib.util
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from lib import cuda_projects, rodinia_openmp
from lib.figures import figure, versions
from lib.peer_process import TORCH, PeerError, interpreter

from aiosearch import cuda
from aiosearch.cuda.checker import check, read
from aiosearch.cuda.compiled.lowering import Choices
from aiosearch.cuda.passes.minimum_cut import Policy

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "support"))
from barrierprograms import program  # shared with the tests

LOOPS = Path(__file__).parent.parent / "tests" / "support" / "loops.c"
BLOCK = Path(__file__).parent.parent / "tests" / "support" / "block.cu"
KERNELS = Path(__file__).parent / "kernels.cu"
ROUNDS = 7
TARGETS = {"compute": 10.0, "matmul": 34.4, "total": 10.0}
"""CPU milliseconds at full size."""
ABLATIONS = {
    "every value stored across barriers": Choices(policy=Policy.STORE),
    "no barrier taken out": Choices(eliminates=False),
    "one row of threads at a time": Choices(rows=1),
    "vectors of four": Choices(lanes=4),
}
OTHERS_ABLATE = ("every value stored across barriers", "no barrier taken out")
"""These were ablated by Polygeist's authors, too, who lost time without them."""
LOOP_ABLATIONS = {
    "no affine part": Choices(affine=False),
    "no region merging": Choices(merges=False),
}
"""For loop nests of plain C. Without the affine part, one thread runs a nest as it stands; without
regions, threads are woken for each launch."""
PARTS = (
    "kernels",
    "launches",
    "loops",
    "block",
    "resnet",
    "starts",
    "faults",
    "generated",
    "polygeist",
    "projects",
)
Case = tuple[tuple[Any, ...], list[Any], Callable[[list[Any]], bool]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="a sanity size")
    parser.add_argument("--only", choices=PARTS, help="one part of it")
    parser.add_argument("--programs", type=int, default=1000, help="generated ones")
    parser.add_argument("--first", type=int, default=0, help="seed of those for Polygeist")
    parser.add_argument("--images", type=int, default=2, help="of a step of ResNet-50")
    parser.add_argument("--side", type=int, default=64, help="of these images, in pixels")
    parser.add_argument("--rodinia", type=Path, metavar="PATH", help="a checkout with cuda/")
    parser.add_argument("--polybench", type=Path, metavar="PATH", help="PolyBench/C")
    parser.add_argument("--stumpy", type=Path, metavar="PATH", help="a checkout of stumpy")
    parser.add_argument(
        "--torch",
        metavar="PYTHON",
        help="a Python that has PyTorch, as its wheels are large; default: this one, if it has",
    )
    arguments = parser.parse_args()
    torch = None
    if arguments.only in (None, "resnet"):
        try:
            torch = interpreter(TORCH, arguments.torch)
        except PeerError as error:
            if arguments.torch is not None:
                parser.error(str(error))
            sys.stderr.write(f"{error}\n")
    count = 20 if arguments.quick else arguments.programs
    parts: dict[str, Callable[[], None]] = {
        "kernels": lambda: _kernels(arguments.quick),
        "launches": lambda: _launches(arguments.quick),
        "loops": lambda: _loops(arguments.quick),
        "block": lambda: _block(arguments.quick),
        "resnet": lambda: _resnet(arguments.quick, arguments.images, arguments.side, torch),
        "starts": _starts,
        "faults": _faults,
        "generated": lambda: _generated(count),
        "polygeist": lambda: _polygeist(range(arguments.first, arguments.first + count)),
        "projects": lambda: _projects(arguments),
    }
    for name in PARTS:
        if arguments.only in (None, name):
            parts[name]()


def _projects(arguments: argparse.Namespace) -> None:
    """What is given by path; each that is not is skipped with a sentence."""
    for name, run in (("rodinia", _rodinia), ("polybench", _polybench), ("stumpy", _stumpy)):
        path = getattr(arguments, name)
        if path is None:
            sys.stderr.write(f"--{name} PATH is not given: nothing of it is run\n")
        elif not path.is_dir():
            sys.stderr.write(f"--{name}: {path} is no folder\n")
        else:
            run(path.resolve(), arguments.quick)


def _rodinia(root: Path, quick: bool) -> None:
    """How many kernels are translated, and which of those that are run do as g++'s do."""
    _translated("rodinia", root, "*.cu")
    if shutil.which("g++") is None:
        sys.stderr.write("g++ is not here: kernels of rodinia are not compared with it\n")
        return
    with tempfile.TemporaryDirectory() as scratch:
        results = dict(cuda_projects.rodinia(root, Path(scratch)))
    for name, wrong in results.items():
        if wrong:
            sys.stderr.write(f"{name}: {wrong}\n")
    right = sum(not wrong for wrong in results.values())
    figure("cuda: kernels of rodinia's programs right", right, "kernels", target=35,
           kernels=len(results))  # fmt: skip
    if not (root / "openmp").is_dir():
        sys.stderr.write(f"{root} has no openmp/: rodinia is not compared with loops by hand\n")
        return
    with tempfile.TemporaryDirectory() as scratch:
        compared = []
        for item in rodinia_openmp.compared(root, Path(scratch), quick):
            if item.wrong:
                sys.stderr.write(f"{item.name}: {item.wrong}\n")
                continue
            compared.append(item)
            for place, unit in enumerate(("ms", "CPU ms")):
                figure(f"cuda: rodinia {item.name}", round(item.ours[place] * 1e3, 3), unit,
                       openmp=round(item.openmp[place] * 1e3, 3),
                       native=round(item.native[place] * 1e3, 3),
                       ratio=round(item.openmp[place] / item.ours[place], 3))  # fmt: skip
    for place, what in enumerate(("wall", "CPU") if compared else ()):
        ratios = [item.openmp[place] / item.ours[place] for item in compared]
        native = [item.native[place] / item.ours[place] for item in compared]
        figure(f"cuda: rodinia, geometric mean by {what} time", _mean(ratios),
               "times its OpenMP versions", target=None if place else 1.3,
               native=round(_mean(native), 3), programs=len(ratios))  # fmt: skip


def _polybench(root: Path, quick: bool) -> None:
    """Each kernel of Polybench on all cores, beside one thread of gcc on the same text."""
    if shutil.which("gcc") is None:
        sys.stderr.write("gcc is not here: polybench is only translated\n")
        _translated("polybench", root, "*.c")
        return
    right, ratios = 0, []
    with tempfile.TemporaryDirectory() as scratch:
        for name, wrong, times in cuda_projects.polybench(root, Path(scratch), quick):
            right += not wrong
            if wrong:
                sys.stderr.write(f"{name}: {wrong}\n")
            else:
                ratios.append(times["gcc"] / times["ours"])
                figure(f"cuda: polybench {name}", times["ours"], "ms", gcc=round(times["gcc"], 3),
                       ratio=round(ratios[-1], 3))  # fmt: skip
    figure("cuda: kernels of polybench right", right, "kernels", target=30)
    if ratios:
        figure("cuda: polybench, geometric mean", _mean(ratios), "times one thread of gcc",
               target=None if quick else 1.5, kernels=len(ratios))  # fmt: skip


def _mean(ratios: Sequence[float]) -> float:
    return float(np.exp(np.mean(np.log(ratios))))


def _stumpy(root: Path, quick: bool) -> None:
    """The tests of stumpy's GPU code without a GPU, beside the same in Numba's simulator."""
    try:
        ours, simulated = cuda_projects.stumpy(root, quick)
    except LookupError as error:
        sys.stderr.write(f"--stumpy: {error}\n")
        return
    for name, run in ours.items():
        if run.outcome == "failed":
            sys.stderr.write(f"{name}: {run.reason}\n")
    passed = sum(run.outcome == "passed" for run in ours.values())
    seconds = round(sum(run.seconds for run in ours.values()), 1)
    figure("cuda: tests of stumpy's GPU code that pass", passed, "tests", target=len(ours),
           tests=len(ours), seconds=seconds)  # fmt: skip
    both = [name for name, run in simulated.items() if run.outcome == "passed" and name in ours]
    for what, target in (("seconds", None), ("launches", 50)):
        sums = [sum(getattr(runs[name], what) for name in both) for runs in (ours, simulated)]
        if both and sums[0]:
            label = "a test" if what == "seconds" else "launches"
            figure(f"cuda: stumpy, {label} in numba's simulator", sums[1] / sums[0],
                   "times as long", target=target, tests=len(both), ours=round(sums[0], 3),
                   simulator=round(sums[1], 3), compared=versions("numba"))  # fmt: skip


def _cases(quick: bool) -> dict[str, Case]:
    """For each kernel its shape, its arguments, and whether these are right afterwards."""
    draw = np.random.default_rng(0)
    side, many = (128, 1 << 16) if quick else (1024, 16 << 20)
    half = many // 2
    x, a, b = (draw.random(size, np.float32) for size in (many, side * side, side * side))
    a, b = a.reshape(side, side), b.reshape(side, side)
    bytes_drawn = draw.integers(0, 256, many).astype(np.uint8)
    tiles = side // 32
    inner = -(-side // 12)

    def heated(args: list[Any]) -> bool:
        grid = np.zeros((side + 4, side + 4), np.float64)
        grid[2:-2, 2:-2] = a
        for _ in range(2):
            after = grid.copy()
            around = grid[:-2, 1:-1] + grid[2:, 1:-1] + grid[1:-1, :-2] + grid[1:-1, 2:]
            after[1:-1, 1:-1] += 0.1 * (around - 4 * grid[1:-1, 1:-1])
            outside = np.ones_like(after, bool)
            outside[2:-2, 2:-2] = False
            after[outside] = 0
            grid = after
        return bool(np.allclose(args[1], grid[2:-2, 2:-2], atol=1e-4))

    return {
        "compute": (
            (half // 256, 256),
            [x[:half], np.zeros(half, np.float32), half],
            lambda args: bool(np.isfinite(args[1]).all() and args[1].any()),
        ),
        "matmul": (
            ((tiles, tiles), (32, 32)),
            [np.zeros((side, side), np.float32), a, b, side],
            lambda args: bool(np.allclose(args[0], a @ b, rtol=1e-3)),
        ),
        "total": (
            (many // 256, 256),
            [x, np.zeros(many // 256, np.float32)],
            lambda args: bool(np.allclose(args[1], x.reshape(-1, 256).sum(1), rtol=1e-4)),
        ),
        "heat": (
            ((inner, inner), (16, 16)),
            [a, np.zeros((side, side), np.float32), side, 2, 0.1],
            heated,
        ),
        "layer": (
            ((side // 16, side // 16), (16, 16)),
            [a[0], b, np.zeros((side // 16, side), np.float32), side],
            lambda args: bool(
                np.allclose(args[2], (b * a[0][:, None]).reshape(-1, 16, side).sum(1), rtol=1e-4)
            ),
        ),
        "histogram": (
            (64, 256),
            [bytes_drawn, np.zeros(256, np.int32), many],
            lambda args: bool((args[1] % 1 == 0).all() and args[1].sum() % many == 0),
        ),
        "warps": (
            (many // 256, 256),
            [x, np.zeros(many // 32, np.float32)],
            lambda args: bool(np.allclose(args[1], x.reshape(-1, 32).sum(1), rtol=1e-4)),
        ),
    }


def _kernels(quick: bool) -> None:
    """Each kernel, beside itself with one decision taken otherwise, where that changes its code."""
    compared = versions("llvmlite", "libclang")
    arms = {"": Choices(), **ABLATIONS}
    modules = {name: cuda.load(KERNELS, choices=choices) for name, choices in arms.items()}
    longer: dict[str, list[float]] = {name: [] for name in ABLATIONS}
    for kernel, (shape, arguments, right) in _cases(quick).items():
        launches = {name: module[kernel][shape] for name, module in modules.items()}
        texts = {name: launch.lower().emitted.text for name, launch in launches.items()}
        launches = {
            name: launch
            for name, launch in launches.items()
            if not name or texts[name] != texts[""]
        }
        for name, launch in launches.items():
            launch(*arguments)
            if not right(arguments):
                raise SystemExit(f"{kernel} is wrong {name and f'with {name}'}")
        runs = {name: functools.partial(launch, *arguments) for name, launch in launches.items()}
        best = _best(runs, 2 if quick else ROUNDS)
        local = best.pop("")
        target = None if quick else TARGETS.get(kernel)
        figure(f"cuda: {kernel}", local * 1e3, "CPU ms", target=target, compared=compared)
        for name, chosen_arm in best.items():
            longer[name].append(chosen_arm / local)
            figure(f"cuda: {kernel}, {name}", longer[name][-1], "times as long", compared=compared)
    for name, ratios in longer.items():
        figure(f"cuda: kernels, {name}", _mean(ratios) if ratios else None, "times as long",
               target=1.0 if name in OTHERS_ABLATE else None, kernels=len(ratios),
               compared=compared)  # fmt: skip


def _launches(quick: bool) -> None:
    """What larger pieces of work are worth: launches as one, blocks as one, and XLA's call."""
    many = 1 << 16 if quick else 16 << 20
    x = np.random.default_rng(0).random(many, np.float32)
    y = np.zeros_like(x)
    hosts = {
        name: cuda.load(KERNELS, choices=Choices(fuses=fuses)).chain
        for name, fuses in (("launches as one", True), ("one by one", False))
    }
    runs = {name: functools.partial(host, x, y, many) for name, host in hosts.items()}
    best = _best(runs, 2 if quick else ROUNDS)
    if not np.allclose(y, np.clip(x * 2 - 0.5, 0, 1), atol=1e-6):
        raise SystemExit("the chain is wrong")
    figure("cuda: a chain of three launches", best["launches as one"] * 1e3, "CPU ms")
    ratio = best["one by one"] / best["launches as one"]
    figure("cuda: the chain, one by one", ratio, "times as long")
    _merged(quick)
    launches = {
        blocks: cuda.load(KERNELS, choices=Choices(blocks=blocks)).small_blocks[many // 8, 8]
        for blocks in (1, 2, 4, 8)
    }
    times = _best(
        {str(count): functools.partial(item, x, y) for count, item in launches.items()},
        2 if quick else ROUNDS,
    )
    figure("cuda: blocks of 8 threads", times["1"] * 1e3, "CPU ms")
    for count in ("2", "4", "8"):
        ratio = times[count] / times["1"]
        figure(f"cuda: blocks of 8 threads, {count} as one", ratio, "times as long")
    _inside_of_jax(x)


def _merged(quick: bool) -> None:
    """Launches in a loop, with threads that are woken once, and for each launch, on two sizes."""
    rounds, times = (2, 20) if quick else (ROUNDS, 500)
    for many in (1 << 12, 1 << 16):
        arrays = [np.random.default_rng(0).random(many, np.float32) for _ in range(2)]
        results, runs = {}, {}
        for name, merges in (("", True), ("no region merging", False)):
            host = cuda.load(KERNELS, choices=Choices(merges=merges)).repeated
            copies = [item.copy() for item in arrays]
            host(*copies, many, times)
            results[name] = copies[0].copy()
            runs[name] = functools.partial(host, *copies, many, times)
        if not np.array_equal(*results.values()):
            raise SystemExit("launches in a loop are wrong")
        best = _best(runs, rounds, time.perf_counter)
        figure(f"cuda: {2 * times} launches of {many} threads in a loop", best[""] * 1e3, "ms")
        ratio = best["no region merging"] / best[""]
        figure(f"cuda: launches of {many} threads, no region merging", ratio, "times as long",
               target=1.0)  # fmt: skip


def _inside_of_jax(x: Any) -> None:
    """A kernel inside of `jax.jit`, beside what XLA makes of the same arithmetic."""
    import jax
    import jax.numpy as jnp

    compute = cuda.jit(cuda.load(KERNELS).compute)[-(-x.size // 256), 256]
    result = jax.ShapeDtypeStruct(x.shape, x.dtype)  # type: ignore[no-untyped-call]  # jax's

    @jax.jit
    def ours(values: Any) -> Any:
        return compute(values, result, x.size)

    @jax.jit
    def theirs(values: Any) -> Any:
        s = jnp.zeros_like(values)
        for _ in range(32):
            s = s * values + 0.5
        return jnp.sqrt(s * s + values)

    values = jnp.asarray(x)
    if not np.allclose(ours(values), theirs(values), rtol=1e-4):
        raise SystemExit("the kernel inside of jax.jit is wrong")
    runs = {
        "ours": lambda: ours(values).block_until_ready(),
        "theirs": lambda: theirs(values).block_until_ready(),
    }
    best = _best(runs, ROUNDS)
    figure("cuda: compute inside of jax.jit", best["ours"] * 1e3, "CPU ms",
           compared=versions("jax"), jax=round(best["theirs"] * 1e3, 3))  # fmt: skip


def _best(
    runs: dict[str, Callable[[], Any]],
    rounds: int,
    clock: Callable[[], float] = time.process_time,
) -> dict[str, float]:
    """The least seconds of each, of CPU if no clock is given, all in turns behind a first call."""
    best = dict.fromkeys(runs, np.inf)
    for run in runs.values():
        run()
    for _ in range(rounds):
        for name, run in runs.items():
            start = clock()
            run()
            best[name] = min(best[name], clock() - start)
    return best


def _starts() -> None:
    """From text to the end of a first call, and again from code that was compiled before."""
    factor = time.time_ns() % 10**9  # so that no run finds what another compiled
    text = f"__global__ void times(float *a) {{ a[threadIdx.x] *= {factor}; }}\n"
    array = np.ones(32, np.float32)
    for name in ("cuda: first call of a small kernel", "cuda: the same text again"):
        start = time.process_time()
        cuda.load(text)["times"][1, 32](array)
        figure(name, (time.process_time() - start) * 1e3, "CPU ms")


FAULTY = {
    "race": (
        "s[t] = a[t]; b[g] = s[(t + {0}) % 64];",
        "s[t / {0}] = a[t]; __syncthreads(); b[g] = s[t / {0}];",
        "s[t] = a[t]; __syncthreads(); float x = s[(t + {0}) % 64]; s[t] = x;",
        "b[t % {0}] = a[t];",
        "s[t] = 0; if (t == {0}) atomicAdd(&s[t - 1], 1.0f);",
        "for (int i = 0; i < 3; i++) {{ s[t] = i; __syncthreads(); b[g] += s[(t + {0}) % 64]; }}",
    ),
    "divergent-barrier": (
        "if (t < {0}) __syncthreads();",
        "for (int i = 0; i < t % {0}; i++) __syncthreads();",
        "while (t > {0}) {{ t -= {0}; __syncthreads(); }}",
        "switch (t % {0}) {{ case 1: __syncthreads(); }}",
    ),
    "out-of-bounds": (
        "b[g + {0}] = a[t];",
        "s[t] = a[g - {0}];",
        "s[t + {0}] = 1;",
        "int own[4]; own[t % 4 + {0}] = t; b[g] = own[0];",
    ),
    "uninitialized-read": (
        "if (t != {0}) s[t] = 1; __syncthreads(); b[g] = s[t];",
        "int own[80]; own[0] = t; b[g] = own[{0}];",
    ),
}
"""Kernels with a fault each, which a number from 2 up makes others of."""
NUMBERS = range(2, 15)


def _faults() -> None:
    """Seeded faults, of which each has to be found in its line; and the same without them."""
    collected = seeded = false = 0
    head = "__global__ void k(float *a, float *b) {\n  __shared__ float s[64];\n"
    head += "  int t = threadIdx.x, g = blockIdx.x * 64 + t;\n"
    launch = read("k[2, 64](f32[128], zeros(f32[128]))")
    for kind, bodies in FAULTY.items():
        for body in bodies:
            for number in NUMBERS:
                text = f"{head}{body.format(number)}\n}}\n"
                findings = check(cuda.load(text), launch)
                seeded += 1
                collected += any(item.kind == kind and item.at.line == 4 for item in findings)
    clean = "s[t] = a[t]; __syncthreads(); b[g] = s[(t + {0}) % 64];"
    for number in NUMBERS:
        false += len(check(cuda.load(f"{head}{clean.format(number)}\n}}\n"), launch))
    figure("cuda: seeded faults found with their line", collected / seeded, "of them", target=0.95,
           seeded=seeded)  # fmt: skip
    figure("cuda: false alarms in right kernels", false, "findings", target=0)


def _generated(count: int) -> None:
    """Random programs with barriers, compiled in ways of their own and interpreted: the same bits.

    A program that cannot be compiled is a difference, too, and named.
    """
    differences = 0
    for seed in range(count):
        try:
            same = _is_the_same(seed)
        except Exception as error:
            sys.stderr.write(f"program {seed}: {type(error).__name__}: {error}\n")
            same = False
        differences += not same
    figure("cuda: generated programs that differ from the interpreter", differences, "programs",
           target=0, programs=count)  # fmt: skip


def _polygeist(seeds: range) -> None:
    """Random programs with barriers, taken apart by Polygeist's passes and interpreted by us.

    Those for which its rewriting does not end are counted apart: they say nothing of ours.
    """
    if importlib.util.find_spec("enzyme_ad") is None:
        sys.stderr.write("enzyme-ad is not here (`uv sync --group enzyme`, on Python 3.11): nothing"
                         " is compared with Polygeist's passes\n")  # fmt: skip
        return
    import polygeist  # imports jaxlib's MLIR

    counts = {
        method: dict.fromkeys(("same", "endless", "different"), 0) for method in polygeist.METHODS
    }
    for seed in seeds:
        for method, result in polygeist.differing(seed).items():
            kind = "different" if result else "same"
            if result == polygeist.ENDLESS:
                kind = "endless"
            counts[method][kind] += 1
            if result:
                sys.stderr.write(f"program {seed}, {method}: {result}\n")
    for method, kinds in counts.items():
        figure(f"cuda: generated programs that differ from Polygeist's, {method}",
               kinds["different"], "programs", target=0, programs=len(seeds), first=seeds.start,
               not_ended=kinds["endless"], compared=versions("enzyme-ad"))  # fmt: skip


def _is_the_same(seed: int) -> bool:
    generated = program(seed)
    arms = (
        Choices(contract=False),
        Choices(contract=False, policy=Policy.STORE, eliminates=False),
        Choices(contract=False, blocks=generated.grid),
    )
    results = []
    for choices in (None, *arms):
        draw = np.random.default_rng(seed)
        array = draw.integers(0, 1000, generated.elements).astype(np.uint32)
        numbers = draw.integers(0, 16, generated.elements).astype(np.float32)
        module = cuda.load(generated.text, choices=choices or arms[0])
        launch = module["generated"][generated.grid, generated.block]
        (launch.interpret if choices is None else launch)(array, numbers, 7)
        results.append((array, numbers))
    return all(
        np.array_equal(first, second, equal_nan=first.dtype.kind == "f")
        for result in results[1:]
        for first, second in zip(results[0], result, strict=True)
    )


def _translated(name: str, folder: Path, pattern: str) -> None:
    """How many kernels of a folder are translated, and why others are not.

    In a folder of C, the functions whose names begin with `kernel` are meant.
    """
    done, refused = 0, []
    for path in sorted(folder.rglob(pattern)):
        try:
            module = cuda.load(path, include=_folders(path, folder))
        except cuda.CudaError as error:
            refused.append(f"{path}: {error}")
            continue
        hosts = [item for item in module.source.hosts if item.startswith("kernel")]
        for kernel in module.kernels if pattern == "*.cu" else hosts:
            try:
                module.source.function(kernel)
                done += 1
            except cuda.CudaError as error:
                refused.append(f"{kernel}: {error}")
    for line in refused:
        sys.stderr.write(f"{line}\n")
    figure(f"cuda: kernels of {name} translated", done, "kernels", refused=len(refused))


def _loops(quick: bool) -> None:
    """Loop nests of plain C on all cores, beside one thread of gcc on the same text."""
    size, steps = (60, 2) if quick else (700, 10)
    module = cuda.load(LOOPS, defines=[f"N={size}"])
    compiler = shutil.which("gcc")
    if compiler is None:
        sys.stderr.write("gcc is not here: loop nests are not compared with it\n")
        return
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder, "loops.so")
        command = [compiler, "-O3", "-march=native", "-ffp-contract=fast", "-shared", "-fPIC"]
        subprocess.run([*command, f"-DN={size}", LOOPS, "-o", library], check=True)
        theirs = ctypes.CDLL(str(library))
        ratios = [
            _nest(module.host(name), theirs[name], size, steps) for name in module.source.hosts
        ]
    figure("cuda: loop nests, geometric mean", _mean(ratios), "times one thread of gcc",
           target=None if quick else 1.5, nests=len(ratios))  # fmt: skip
    modules = {
        name: cuda.load(LOOPS, defines=[f"N={size}"], choices=choices)
        for name, choices in {"": Choices(), **LOOP_ABLATIONS}.items()
    }
    longer: dict[str, list[float]] = {name: [] for name in LOOP_ABLATIONS}
    for nest in module.source.hosts:
        hosts = {name: item.host(nest) for name, item in modules.items()}
        seconds = _seconds(hosts, _nest_arguments(hosts[""], size, steps), 2 if quick else 5)
        for name, ratios_of in longer.items():
            ratios_of.append(seconds[name] / seconds[""])
    for name, ratios_of in longer.items():
        figure(f"cuda: loop nests, {name}", _mean(ratios_of), "times as long",
               nests=len(ratios_of), most=round(max(ratios_of), 2),
               least=round(min(ratios_of), 2))  # fmt: skip


def _seconds(hosts: dict[str, Any], arguments: list[Any], rounds: int) -> dict[str, float]:
    """The least seconds of each on the same values, all taking turns behind a first call."""
    best = dict.fromkeys(hosts, np.inf)
    for turn in range(rounds + 1):
        for name, host in hosts.items():
            copies = [item.copy() if isinstance(item, np.ndarray) else item for item in arguments]
            start = time.perf_counter()
            host(*copies)
            if turn:
                best[name] = min(best[name], time.perf_counter() - start)
    return best


def _nest_arguments(function: Any, size: int, steps: int) -> list[Any]:
    """Matrices and vectors that no nest overflows with, drawn."""
    draw = np.random.default_rng(0)
    arguments: list[Any] = []
    for parameter in function.function.parameters:
        if parameter.stride == 8 * size:
            arguments.append(draw.random((size, size)) + size * np.eye(size))
        elif parameter.stride:
            arguments.append(draw.random(size))
        else:
            arguments.append(steps if parameter.value.type.is_integer else 0.5)
    return arguments


def _nest(function: Any, theirs: Any, size: int, steps: int) -> float:
    """How much faster a nest is than gcc's; its results have to be the same up to rounding."""
    arguments = _nest_arguments(function, size, steps)
    name = function.function.name
    wrong, best = cuda_projects.raced(function, theirs, arguments, 3)
    if wrong:
        raise SystemExit(f"the nest {name} is {wrong}")
    ratio = best["gcc"] / best["ours"]
    figure(f"cuda: {name}", best["ours"], "ms", gcc=round(best["gcc"], 3), ratio=round(ratio, 3))
    return ratio


def _block(quick: bool) -> None:
    """A training step of a residual block in CUDA, with cuDNN's calls, beside the same in JAX."""
    import jax
    import jax.numpy as jnp

    count, c, side = (2, 4, 6) if quick else (16, 64, 28)
    draw = np.random.default_rng(0)
    shape = (count, c, side, side)
    x, target = (draw.standard_normal(shape).astype(np.float32) for _ in range(2))
    weights = (0.05 * draw.standard_normal((c, c, 3, 3))).astype(np.float32)
    layer = (weights, np.ones(c, np.float32), np.zeros(c, np.float32))
    params = np.concatenate([item.reshape(-1) for item in (*layer, *layer)])
    grads, work = np.zeros_like(params), np.zeros((8, x.size), np.float32)
    saved, running, loss = (np.zeros(size, np.float32) for size in (4 * c, 4 * c, 1))
    step = cuda.load(BLOCK).step

    def normalized(value: Any, layer: Any) -> Any:
        value = jax.lax.conv(value, layer[0], (1, 1), "SAME")
        mean, spread = (f((0, 2, 3), keepdims=True) for f in (value.mean, value.var))
        value = (value - mean) / jnp.sqrt(spread + 1e-5)
        return value * layer[1][:, None, None] + layer[2][:, None, None]

    def loss_of(layers: Any) -> Any:
        first = jax.nn.relu(normalized(x, layers[0]))
        return ((jax.nn.relu(normalized(first, layers[1]) + x) - target) ** 2).mean()

    @jax.jit
    def descended(layers: Any) -> Any:
        slopes = jax.grad(loss_of)(layers)
        return jax.tree.map(lambda value, slope: value - 0.01 * slope, layers, slopes)

    layers = (layer, layer)
    arguments = (count, c, side, x, target, params, grads, work, saved, running, loss, 0.01)
    step(*arguments)
    expected = jax.tree.leaves(descended(layers))
    if not np.allclose(params, np.concatenate([np.ravel(item) for item in expected]), atol=1e-4):
        raise SystemExit("the step of the block is wrong")
    runs = {
        "cuda": lambda: step(*arguments),
        "jax": lambda: jax.block_until_ready(descended(layers)),
    }
    best = _best(runs, 2 if quick else 5)
    figure("cuda: a training step of a residual block", best["cuda"] * 1e3, "CPU ms",
           compared=versions("jax"), jax=round(best["jax"] * 1e3, 3))  # fmt: skip


def _resnet(quick: bool, count: int, side: int, torch: str | None) -> None:
    from lib.resnet import measure  # imports JAX

    try:
        measure(quick, count, side, torch)
    except PeerError as error:
        raise SystemExit(str(error)) from None


def _folders(path: Path, root: Path) -> Sequence[Path]:
    """The folders between a file and the root, where its headers may be."""
    return [item for item in path.parents if item == root or root in item.parents]


if __name__ == "__main__":
    main()
