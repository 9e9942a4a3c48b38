"""The tuner: searches on recorded spaces, wrong kernels, faults, agreement, speed of the loop.

    python benchmarks/tuning.py --only replay

**replay**: the share of a space's points that an algorithm measures until it is within 5 % of the
best, on the spaces that `record_space.py` wrote; target 0.10. **mutants**: of a thousand wrong
kernels (zeros, stale and unwritten outputs, a missing mask, a race, a shorter type, an overwritten
input) how many pass the numbers gate; target 0. **agreement**: ten cold tunes of each recorded
kernel, timed with noise; how many winners differ, target 0.05, and how many of those are no tie.
**faults**: candidates that crash, hang, take all memory, and spaces without a valid point; how many
searches end without an answer; target 0. **rate**: points tried in a second, all stages together.
**portfolio**: three configurations for many shapes, over each shape's own best; target 1.05.
**workloads**, **operators**: programs whose kernels are the code generator's, over the faster of
`jax.jit` of the function and of the program that was captured, in one race; `--seconds` for each.
Where TVM is installed (`uv sync --group tvm`), or `--tvm` names a Python that has it, its
MetaSchedule tunes the same for as long on the same cores, and the winners of both are timed in
turns on the same arrays; so is the rate of its loop beside ours. **models**: a transformer of
twelve layers and a block of a ResNet, all regions of each within `--seconds` (600 where nothing is
said), over `jax.jit` of the function, with what the search had reached at some moments.
**modules**: the same space with each module left out in turn, and how much slower the best of two
thousand drawn points is predicted. **ablation**: the best point of one search with what each module
chose taken back, or the nearest point without it, all in the rounds of one race. **sparse**:
products with a sparse matrix over the best of what JAX has for it. **records**: what it costs to
write measurements down and to look records up. `--program` names one workload, operator or model,
of those that were chosen.
"""

from __future__ import annotations

import argparse
import asyncio
import math
import os
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from random import Random
from statistics import median
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from lib import tuning_stores
from lib.figures import figure
from lib.optimizer.paired_timing import compared
from lib.peer_process import TVM, PeerError, interpreter
from lib.tuned_kernels import KERNELS, softmax
from lib.tuned_programs import models, programs, rate_beside_tvm
from lib.tuned_workloads import MODELS, OPERATORS, WORKLOADS, Workload, types
from lib.tuning_faults import FAULTS, none_fits, troubled

from aiosearch.measure import Act, MockExecutor, Ratio
from aiosearch.tuner import (
    RecordedSpace,
    RecordTable,
    RequirementFailed,
    Sampler,
    SearchSpace,
    Trace,
    Tunable,
    TuningBudget,
    TuningReport,
    TuningSession,
    replay,
    tune,
    tune_portfolio,
)
from aiosearch.tuner.final_race import LOOSE
from aiosearch.tuner.gates import NumbersGate, Rejection
from aiosearch.tuner.kernels import KernelCall
from aiosearch.tuner.schedules.modules import SKIP
from aiosearch.tuner.schedules.programs import FORM, LIBRARY, tunable_program
from aiosearch.tuner.schedules.sparse import blocked_rows, tunable_sddmm, tunable_spmm
from aiosearch.tuner.schedules.tile_modules import STANDARD, TileModule
from aiosearch.tuner.timing import device_executor

ChoiceT = TypeVar("ChoiceT")
RECORDED = Path(__file__).parent / "recorded"
SEEDS = 10
ABLATED = ("matmul 512", "conv2d", "dense bias gelu", "softmax")
ABLATION_ROUNDS = 61
ALGORITHMS = ("evolution", "best-first", "random", "exhaustive")


def replays(quick: bool) -> None:
    """Each algorithm on each recorded space, with ten seeds."""
    shares: dict[str, list[float]] = {name: [] for name in ALGORITHMS}
    for path in sorted(RECORDED.glob("*.json")):
        recorded = RecordedSpace.load(path)
        for name in ALGORITHMS:
            runs = [replay(recorded, name, seed=seed) for seed in range(2 if quick else SEEDS)]
            share = median(run.share for run in runs)
            shares[name].append(share)
            figure(
                f"share of measurements to within 5 %, {path.stem}, {name}",
                share,
                "of points",
                points=len(recorded.points),
                measurements=sorted(run.measurements for run in runs),
                target=0.10 if name == "evolution" else None,
            )
    for name, values in shares.items():
        if values:
            figure(
                f"share of measurements to within 5 %, {name}",
                median(values),
                "of points",
                kernels=len(values),
                worst=max(values),
                target=0.10 if name == "evolution" else None,
            )


def mutants(quick: bool) -> None:
    """Wrong kernels in NumPy, a seventh of them of each kind, past the gate one by one."""
    each = 10 if quick else 143
    accepted: dict[str, int] = {}
    for kind, make in MUTANTS.items():
        accepted[kind] = sum(asyncio.run(_passes(make(Random(seed)))) for seed in range(each))
    right = asyncio.run(_passes(_row_sums))
    figure(
        "wrong kernels that pass the numbers gate",
        sum(accepted.values()),
        "kernels",
        of=each * len(MUTANTS),
        by_kind=accepted,
        right_one_passes=right,
        target=0,
    )


Kernel = Callable[[Sequence[Any]], tuple[Any, ...]]


def _row_sums(inputs: Sequence[Any]) -> tuple[Any, ...]:
    """The right one: a product and its sums, in blocks of 8 columns."""
    x, y = inputs
    blocks = (x * y).reshape(x.shape[0], -1, 8)
    return (blocks.sum(-1, dtype=x.dtype).sum(-1, dtype=x.dtype),)


def _zeros(random: Random) -> Kernel:
    """All zeros, or those of some rows."""
    rows = random.choice((slice(None), slice(random.randrange(48), None), slice(0, None, 2)))

    def kernel(inputs: Sequence[Any]) -> tuple[Any, ...]:
        (out,) = _row_sums(inputs)
        out[rows] = 0
        return (out,)

    return kernel


def _stale(random: Random) -> Kernel:
    """What the last call should have given."""
    last: list[Any] = []

    def kernel(inputs: Sequence[Any]) -> tuple[Any, ...]:
        (out,) = _row_sums(inputs)
        last.append(out)
        return (last[-2] if len(last) > 1 else out,)

    return kernel


def _unwritten(random: Random) -> Kernel:
    """Some rows are what lay in memory: NaN, as the gate left it."""
    row = random.randrange(64)

    def kernel(inputs: Sequence[Any]) -> tuple[Any, ...]:
        (out,) = _row_sums(inputs)
        out[row:] = np.nan
        return (out,)

    return kernel


def _unmasked(random: Random) -> Kernel:
    """The last columns are left out, or taken twice."""
    width, twice = random.randrange(1, 9), random.random() < 0.5

    def kernel(inputs: Sequence[Any]) -> tuple[Any, ...]:
        x, y = inputs
        tail = (x * y)[:, -width:].sum(-1)
        (out,) = _row_sums(inputs)
        return (out + tail if twice else out - tail,)

    return kernel


def _racing(random: Random) -> Kernel:
    """Now and then a block's sum is lost: in half of the calls, in one row."""

    def kernel(inputs: Sequence[Any]) -> tuple[Any, ...]:
        (out,) = _row_sums(inputs)
        if random.random() < 0.5:
            row = random.randrange(len(out))
            x, y = inputs
            out[row] -= (x * y)[row, :8].sum()
        return (out,)

    return kernel


def _short(random: Random) -> Kernel:
    """Products, or sums, in a shorter type."""
    import ml_dtypes

    dtype = random.choice((np.float16, ml_dtypes.bfloat16))
    rounds_inputs = random.random() < 0.5

    def kernel(inputs: Sequence[Any]) -> tuple[Any, ...]:
        x, y = inputs
        if rounds_inputs:
            x, y = (part.astype(dtype).astype(np.float32) for part in (x, y))
            return _row_sums((x, y))
        return ((x * y).sum(-1).astype(dtype).astype(np.float32),)

    with np.errstate(all="ignore"):
        return kernel


def _overwriting(random: Random) -> Kernel:
    """Right the first time; and it leaves another input behind."""
    factor = random.choice((0.0, 2.0, -1.0))

    def kernel(inputs: Sequence[Any]) -> tuple[Any, ...]:
        outputs = _row_sums(inputs)
        inputs[0][:] *= np.float32(factor)
        return outputs

    return kernel


MUTANTS: Mapping[str, Callable[[Random], Kernel]] = {
    "zeros": _zeros,
    "stale": _stale,
    "unwritten": _unwritten,
    "missing mask": _unmasked,
    "race": _racing,
    "shorter type": _short,
    "overwritten input": _overwriting,
}


def _sums(x: jax.Array, y: jax.Array) -> jax.Array:
    return (x * y).sum(-1)


def _sums_space(s: Sampler, x: Any, y: Any) -> None:
    s.categorical("block", (1, 2))


def _sums_kernel(x: jax.Array, y: jax.Array, *, block: int = 1) -> jax.Array:
    return _sums(x, y)


async def _passes(mutant: Kernel) -> bool:
    """Whether the gate lets a kernel through."""
    kernel = Tunable(_sums_kernel, _sums_space, _sums, RecordTable())
    spec = jax.ShapeDtypeStruct((64, 128), jnp.float32)
    call = KernelCall((spec, spec))
    exact = lambda inputs: ((inputs[0] * inputs[1]).sum(-1),)  # noqa: E731
    names = {"reference": exact, "precise": exact, "mutant": mutant}
    acts = {name: Act(outputs=outputs) for name, outputs in names.items()}
    from aiosearch.tuner.kernels import candidate

    async with MockExecutor(acts) as executor:
        compiled = {}
        for name in ("reference", "mutant"):
            text = candidate(_sums, call, {}, name=name)
            compiled[name] = await executor.compile(text)
        with np.errstate(all="ignore"):
            gate = await NumbersGate.prepare(executor, kernel, call, compiled["reference"], 0)
            assert not isinstance(gate, Rejection)
            return await gate.admit(compiled["mutant"]) is None


def agreement(quick: bool) -> None:
    """Cold tunes of recorded kernels under noise, through the whole pipeline."""
    entries = differing = apart = 0
    by_kernel: dict[str, int] = {}
    for path in sorted(RECORDED.glob("*.json")):
        recorded = RecordedSpace.load(path)
        for noise in (0.01, 0.05):
            tunes = 3 if quick else SEEDS
            reports = [asyncio.run(_tuned(recorded, path.stem, noise, at)) for at in range(tunes)]
            winners = [point.record for point in reports]
            entries += len(winners)
            usual = max(winners, key=lambda one: sum(w.decisions == one.decisions for w in winners))
            for record in winners:
                if record.decisions != usual.decisions:
                    differing += 1
                    by_kernel[path.stem] = by_kernel.get(path.stem, 0) + 1
                    ratio = _recorded_ratio(recorded, record.decisions, usual.decisions)
                    apart += ratio > 1 + LOOSE
    figure(
        "winners that differ between cold tunes",
        differing / max(1, entries),
        "of entries",
        entries=entries,
        no_ties=apart,
        by_kernel=by_kernel,
        target=0.05,
    )


def _recorded_ratio(recorded: RecordedSpace, first: Any, second: Any) -> float:
    from aiosearch.tuner.space.traces import point_key

    a, b = (recorded.outcomes[point_key(each)].seconds or math.inf for each in (first, second))
    return max(a, b) / min(a, b)


async def _tuned(recorded: RecordedSpace, name: str, noise: float, seed: int) -> TuningReport:
    kernel, types = KERNELS[name]
    call = KernelCall(types())
    with tempfile.TemporaryDirectory() as scratch:
        os.environ["XDG_CACHE_HOME"] = scratch
        kernel.table = RecordTable(Path(scratch) / "table.json")
        reference = Act(seconds=1.0, outputs=_one, compile_seconds=0.0)
        acts = {
            key: Act(seconds=point.seconds or 1.0, outputs=_one, compile_seconds=0.0)
            for key, point in recorded.outcomes.items()
        }
        acts |= {"reference": reference, "precise": reference}
        async with MockExecutor(acts, noise=noise, seed=seed) as executor:
            trials = len(recorded.points) + 1  # as the usual minute allows for some hundred
            return await tune(kernel, *call.arguments, executor=executor, trials=trials, seed=seed)


def _one(inputs: Sequence[Any]) -> tuple[Any, ...]:
    return (np.ones(3, np.float32),)


def faults(quick: bool, count: int) -> None:
    """Real processes: among four points one has a fault, drawn by the seed."""
    count = 2 if quick else count
    unanswered: dict[str, int] = {}
    for fault in (*FAULTS, "no valid point"):
        unanswered[fault] = sum(not asyncio.run(_survives(fault)) for _ in range(count))
    figure(
        "searches that a fault leaves without an answer",
        sum(unanswered.values()),
        "searches",
        of=count * len(unanswered),
        by_fault=unanswered,
        target=0,
    )


async def _survives(fault: str) -> bool:
    from aiosearch.measure import Allowance, JaxExecutor, Way

    kernel = none_fits if fault == "no valid point" else troubled
    allowance = Allowance(compile_seconds=8, run_seconds=4, memory_mb=2048)
    with tempfile.TemporaryDirectory() as scratch:
        os.environ["XDG_CACHE_HOME"] = scratch
        kernel.table = RecordTable(Path(scratch) / "table.json")
        x = jax.ShapeDtypeStruct((64, 64), jnp.float32)
        options: dict[str, Any] = {} if kernel is none_fits else {"fault": fault}
        async with JaxExecutor(allowance=allowance, compilers=1, ways=(Way.HOT,)) as executor:
            report = await tune(kernel, x, executor=executor, trials=4, **options)
    return report.record.winner == "reference" or report.record.configuration["block"] != 8


def rate(quick: bool, python: str | None) -> None:
    """A search of a real kernel, from the first compilation to the last race."""
    seconds = 20.0 if quick else 60.0
    with tempfile.TemporaryDirectory() as scratch:
        os.environ["XDG_CACHE_HOME"] = scratch
        softmax.table = RecordTable(Path(scratch) / "table.json")
        _, types = KERNELS["softmax"]
        report = asyncio.run(tune(softmax, *types(), seconds=seconds))
    figure(
        "points tried in a second, whole loop",
        report.trials / report.seconds,
        "1/s",
        trials=report.trials,
        speedup=report.speedup,
        correlations=list(report.correlations),
        target=0.9,
    )
    # TVM has no kernel of Pallas; both tune the program, which ours prints as machine code.
    if python is not None:
        rate_beside_tvm(python, "softmax", WORKLOADS["softmax"], seconds)


def portfolio(quick: bool) -> None:
    """Softmax of 42 shapes, three configurations."""
    rows = (256, 512) if quick else (64, 128, 256, 384, 512, 768, 1024)
    columns = (64, 128) if quick else (32, 64, 128, 192, 256, 512)
    calls = [(jax.ShapeDtypeStruct((m, n), jnp.float32),) for m in rows for n in columns]
    with tempfile.TemporaryDirectory() as scratch:
        os.environ["XDG_CACHE_HOME"] = scratch
        softmax.table = RecordTable(Path(scratch) / "table.json")
        found = asyncio.run(_portfolio(calls, 10 if quick else 24))
    figure(
        "three configurations over each shape's own best, the worst",
        found.worst,
        "x",
        mean=found.mean,
        shapes=len(calls),
        configurations=len(found.configurations),
        target=1.05,
    )


async def _portfolio(calls: Sequence[Sequence[Any]], trials: int) -> Any:
    async with device_executor() as executor:
        return await tune_portfolio(
            softmax, calls, configurations=3, trials=trials, executor=executor
        )


def ablation(quick: bool) -> None:
    """The best point that a model predicts of many drawn, with each module left out in turn."""
    for name in ("matmul 512", "dense bias gelu", "softmax"):
        whole = _best_predicted(WORKLOADS[name], STANDARD, quick)
        for module in STANDARD:
            others = [each for each in STANDARD if each is not module]
            best, points = _best_predicted(WORKLOADS[name], others, quick)
            figure(
                f"predicted time without {module.__name__}, {name}",
                best / whole[0],
                "of that with all",
                drawn=points,
            )


def _best_predicted(
    workload: Workload, modules: Sequence[TileModule], quick: bool
) -> tuple[float, int]:
    kernel = tunable_program(workload[0], modules=modules)
    space, random = kernel.search_space(KernelCall(types(workload))), Random(0)
    drawn = [space.sample(random) for _ in range(100 if quick else 2000)]
    seeds = kernel.seeds(KernelCall(types(workload)))
    ours = [each.derived["predicted"] for each in (*drawn, *seeds) if each.derived]
    return 2.0 ** min(ours), len(ours)


def timed_ablation(group: Mapping[str, Workload], trials: int) -> None:
    """The best point of one search, with what each module chose taken back, in one race.

    A search for each composition compares searches, of which each is lucky in its own way. Here all
    run in the same rounds and differ in one module alone, so that some percent have an interval. It
    is what a module is worth at the best point, and not what others would make up for without it.
    """
    for name, workload in group.items():
        ratios, idle, moved, illegal = asyncio.run(_without_each_module(workload, trials))
        for module, ratio in ratios.items():
            figure(
                f"measured time without {module}, {name}",
                ratio.median,
                "of that with all",
                interval=[ratio.low, ratio.high],
                told=not ratio.low <= 1 <= ratio.high,
                others_moved=module in moved,
            )
        figure(
            f"modules that chose nothing, {name}", len(idle), "modules", names=idle, illegal=illegal
        )


async def _without_each_module(
    workload: Workload, trials: int
) -> tuple[dict[str, Ratio], list[str], list[str], list[str]]:
    """How long the best point takes without each module over with all; the modules that leave it as
    it is, those without which others had to choose something else, and those without which nothing
    near is legal.
    """
    call, names = KernelCall(types(workload)), [module.__name__ for module in STANDARD]
    with tempfile.TemporaryDirectory() as scratch:
        os.environ["XDG_CACHE_HOME"] = scratch
        kernel = tunable_program(workload[0], table=Path(scratch) / "table.json")
        budget = TuningBudget(trials=trials)
        async with device_executor() as executor:
            session = TuningSession(kernel, call, executor, budget)
            async with session.opened():
                await session.advance(budget)
                best = next(
                    entry.trace
                    for entry in session.fastest()
                    if entry.trace.decisions[FORM] != LIBRARY
                )
                points, moved, illegal = {"": best}, list[str](), list[str]()
                for name in names:
                    try:
                        points[name] = _taken_back(session.space, best, name)
                    except RequirementFailed:
                        near = _near_without(name, workload, call, session.space, best)
                        if near is None:
                            illegal.append(name)
                        else:
                            points[name] = near
                            moved.append(name)
                printed = {
                    name: kernel.original.printed(call, point.decisions)
                    for name, point in points.items()
                }
                changed = {name for name, text in printed.items() if text != printed[""]}
                idle = [name for name in names if name not in changed and name not in illegal]
                chosen = {name: points[name] for name in ("", *names) if name in {"", *changed}}
                kept, race = await session.raced(chosen, ABLATION_ROUNDS)
    assert race is not None
    ratios = {name: race.speedup(0, over=at) for at, name in enumerate(kept) if name}
    told = {name: ratio for name, ratio in ratios.items() if ratio is not None}
    return told, idle, moved, illegal


def _taken_back(
    space: SearchSpace, best: Trace, module: str, others: Mapping[str, Any] | None = None
) -> Trace:
    """A point without what a module chose; what then falls to others has its default. The `others`
    choose as in the best point where nothing else is said.
    """
    skipped = {site.name: SKIP for site in best.sites if site.name.endswith(f".{module}")}
    decisions = {**(best.decisions if others is None else others), **skipped}
    return space.run(lambda site: decisions.get(site.name, site.first()))[0]


def _near_without(
    module: str, workload: Workload, call: KernelCall, space: SearchSpace, best: Trace
) -> Trace | None:
    """The point nearest to the best one in the space without a module, as a point of the whole."""
    others = [each for each in STANDARD if each.__name__ != module]
    near = tunable_program(workload[0], modules=others).search_space(call).repair(best, Random(0))
    return None if near is None else _taken_back(space, best, module, near.decisions)


def sparse(quick: bool, seconds: float) -> None:
    """Products of random sparse matrices, over the faster of the plain form and JAX's own types."""
    rows, columns, width = (256, 256, 32) if quick else (2048, 1024, 128)
    random = np.random.default_rng(0)
    for side in (1, 8):
        mask = random.random((rows // side, columns // side)) < 1 / 64
        dense = np.kron(mask, np.ones((side, side))) * random.normal(size=(rows, columns))
        matrix = dense.astype(np.float32)
        places = np.nonzero(matrix)
        offsets = np.searchsorted(places[0], np.arange(rows + 1))
        held = blocked_rows(offsets, places[1], matrix[places], block=(side, side))
        other = random.normal(size=(columns, width)).astype(np.float32)
        blocks, left = other.reshape(-1, side, width), random.normal(size=(rows, width))
        factors = left.astype(np.float32).reshape(-1, side, width)
        _sparse_figure(f"spmm, blocks of {side}", tunable_spmm, (*held, blocks), seconds, matrix)
        _sparse_figure(
            f"sddmm, blocks of {side}", tunable_sddmm, (held[0], factors, blocks), seconds
        )


def _sparse_figure(
    name: str, make: Callable[..., Any], arguments: Any, seconds: float, matrix: Any = None
) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        os.environ["XDG_CACHE_HOME"] = scratch
        kernel = make(table=str(Path(scratch) / "table.json"))
        arrays = tuple(map(jnp.asarray, arguments))
        report = asyncio.run(tune(kernel, *arrays, seconds=seconds))
        tuned, plain = jax.jit(kernel), jax.jit(kernel.reference)
        races = {"plain": _race(plain, tuned, arrays)}
        if matrix is not None:
            from jax.experimental.sparse import BCSR

            dense = arrays[2].reshape(matrix.shape[1], -1)
            product = jax.jit(lambda a, b: a @ b)
            other = lambda: jax.block_until_ready(product(jnp.asarray(matrix), dense))  # noqa: E731
            bcsr = BCSR.fromdense(jnp.asarray(matrix))
            ours = lambda: jax.block_until_ready(tuned(*arrays))  # noqa: E731
            races["dense"] = compared(other, ours, 2.0)
            theirs = lambda: jax.block_until_ready(product(bcsr, dense))  # noqa: E731
            races["BCSR"] = compared(theirs, ours, 2.0)
        least = min(races, key=lambda key: races[key].base)
        figure(
            f"tuned sparse product over the best of jax, {name}",
            races[least].ratio.median,
            "x",
            best_of_jax=least,
            **races[least].facts(),
            others={key: round(race.ratio.median, 3) for key, race in races.items()},
            decisions={
                key: value for key, value in report.record.decisions.items() if value != SKIP
            },
            trials=report.trials,
            checked=report.record.checked,
        )


def _race(first: Any, second: Any, arrays: Any) -> Any:
    return compared(
        lambda: jax.block_until_ready(first(*arrays)),
        lambda: jax.block_until_ready(second(*arrays)),
        2.0,
    )


def stores(quick: bool) -> None:
    """Writing measurements down, alone and two at once, and tables of a thousand records."""
    count = 200 if quick else tuning_stores.COUNT
    with tempfile.TemporaryDirectory() as scratch:
        os.environ["XDG_CACHE_HOME"] = scratch
        alone = tuning_stores.appended(0, count)
        plain = tuning_stores.appended_plainly(Path(scratch) / "lines.jsonl", count)
        figure("a measurement is written down", 1e6 * alone, "us", plain_line=round(1e6 * plain, 1))
        both = tuning_stores.appended_at_once(2, count)
        figure("a measurement, two processes at once", 1e6 * max(both), "us")
        for number in range(1, 4 if quick else 100):
            tuning_stores.appended(number, 500)
        spent, lines = tuning_stores.recalled(50 if not quick else 2)
        figure("what a search has measured is read", 1e3 * spent, "ms", lines=lines)
        read, found, put = tuning_stores.table(Path(scratch) / "table.json", 1000)
        figure("a record is looked up", 1e6 * found, "us", first_time_ms=1e3 * read, records=1000)
        figure("a record is put into a table", 1e3 * put, "ms", records=1000)


def main() -> None:
    names = (
        "replay", "mutants", "agreement", "faults", "rate", "portfolio", "workloads", "operators",
        "models", "modules", "ablation", "sparse", "records",
    )  # fmt: skip
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", action="append", choices=names, default=[])
    parser.add_argument("--quick", action="store_true", help="a sanity size")
    parser.add_argument("--each", type=int, default=100, help="faults of each kind")
    parser.add_argument("--seconds", type=float, help="for each program (60) and model (600)")
    parser.add_argument("--trials", type=int, default=32, help="of the search before an ablation")
    parser.add_argument(
        "--program", action="append", choices=(*WORKLOADS, *OPERATORS, *MODELS), default=[],
        help="of the workloads, operators and models",
    )  # fmt: skip
    parser.add_argument(
        "--tvm",
        metavar="PYTHON",
        help="a Python that has TVM, as its wheels are large; default: this one, if it has",
    )
    arguments = parser.parse_args()
    seconds = 8.0 if arguments.quick else arguments.seconds or 60.0
    model_seconds = 20.0 if arguments.quick else arguments.seconds or 600.0
    python = None
    try:
        python = interpreter(TVM, arguments.tvm)
    except PeerError as error:
        if arguments.tvm is not None:
            parser.error(str(error))
        sys.stderr.write(f"{error}\n")
    chosen = arguments.program

    def of(group: Mapping[str, ChoiceT], usual: Sequence[str] = ()) -> dict[str, ChoiceT]:
        return {name: group[name] for name in group if name in (chosen or usual or group)}

    commands: dict[str, Callable[[], None]] = {
        "replay": lambda: replays(arguments.quick),
        "mutants": lambda: mutants(arguments.quick),
        "agreement": lambda: agreement(arguments.quick),
        "faults": lambda: faults(arguments.quick, arguments.each),
        "rate": lambda: rate(arguments.quick, python),
        "portfolio": lambda: portfolio(arguments.quick),
        "workloads": lambda: programs(of(WORKLOADS), "workloads", seconds, arguments.quick, python),
        "operators": lambda: programs(of(OPERATORS), "operators", seconds, arguments.quick, python),
        "models": lambda: models(of(MODELS), model_seconds, arguments.quick),
        "modules": lambda: ablation(arguments.quick),
        "ablation": lambda: timed_ablation(
            of(WORKLOADS, ABLATED[:1] if arguments.quick else ABLATED),
            6 if arguments.quick else arguments.trials,
        ),
        "sparse": lambda: sparse(arguments.quick, seconds),
        "records": lambda: stores(arguments.quick),
    }
    for name in arguments.only or names:
        commands[name]()


if __name__ == "__main__":
    main()
