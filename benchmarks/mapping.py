"""What mappings and plans reach: published scores, the search for them, and JAX programs by rows.

    python benchmarks/mapping.py [--published] [--quick]

With `--published` only scores, one line each with what was published. Otherwise also split sizes
that are found, and programs run by rows against one `jax.jit` in paired rounds on this machine:
the network of eight layers on 262,144 rows, a hundred sines of five million numbers, and the seven
kernels of Rodinia that Pattern-OPT maps. Before, bugs are seeded into programs that run by rows,
and those that verification accepts are counted; workers on other hosts are killed; and plans for
eight CPU devices (training, pipelines, budgets of memory, all shardings of a function) are made and
run by `lib.transformer` and `lib.meshes`. `--only` has a part of it, as `PARTS` names them.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

from lib.figures import cpu_seconds, figure, machine
from lib.optimizer.paired_timing import Compared, compared
from lib.placement_bugs import SUBJECTS, count_accepted
from lib.rodinia import cases

from aiosearch import solve
from aiosearch.mapper import Cluster, FaithfulModel, SplitSizes, Team, flatten, map_program
from aiosearch.mapper.costs import score
from aiosearch.mapper.published import (
    KERNELS,
    batch_classification,
    claix,
    jacobi,
    monte_carlo,
    multi_filter,
)
from aiosearch.mapper.splits import PatternSplit
from aiosearch.mapper.stair_climb import Mapping

SECONDS = 6.0
"""For how long schedules of a program are measured."""
FIRST, SECOND = Team(0, 0, 0, 24), Team(0, 0, 1, 24)


def place_batch(split: PatternSplit) -> Team:
    upper = split.starts[0] < 4 * 65536
    if split.name in ("normalize", "extract"):
        return FIRST if upper == (split.name == "normalize") else SECOND
    return SECOND


def place_jacobi(split: PatternSplit) -> Team:
    away = split.name.startswith(("sweep2", "sweep3")) and split.starts[0] == 0
    return SECOND if away else FIRST


def place_filters(split: PatternSplit) -> Team:
    if split.name == "laplacian":
        return SECOND if split.starts[0] < 4097 else FIRST
    return FIRST if split.name == "sobel" else SECOND


MAPPINGS: dict[str, tuple[Any, SplitSizes, Callable[[PatternSplit], Team], float]] = {
    "base_batch": (
        batch_classification, SplitSizes(65536, 65536), place_batch, 0.6727511482839811,
    ),
    "jacobi": (jacobi, SplitSizes(4096, 4096), place_jacobi, 0.43456649516955903),
    "base_multifilter": (multi_filter, SplitSizes(4096, 128), place_filters, 0.01902707234136348),
}  # fmt: skip
"""Published mappings: the program, split sizes, who runs what, the score."""

OPTIMA = {
    "batch": (1, 0.40006307962033366),
    "jacobi": (1, 0.43456649516955903),
    "monte": (1, 6.94444824),
    "multifilter": (1, 0.015023565427608772),
    "nn": (0, 0.0090829614),
}
"""By kernel: the lookahead, and the best score that is known for it."""

SIZES = {
    "batch": (batch_classification, 65536),
    "monte": (monte_carlo, 24),
    "jacobi": (lambda: jacobi(5), 2048),
}
"""By kernel: the size of splits at which halving no longer pays."""


def published_scores() -> None:
    model = FaithfulModel(claix())
    for name, (program, sizes, place, published) in MAPPINGS.items():
        levels = [level for level in flatten(program(), sizes) if level.placed]
        steps = [tuple((split, place(split)) for split in level.placed) for level in levels]
        exact(f"posterior score of {name}", score(model, steps), published)


def exact(name: str, value: float, published: float, **details: Any) -> None:
    """A figure with all its digits, which `figure` rounds."""
    line = {"figure": name, "value": value, "unit": "s", "published": published, **details}
    sys.stdout.write(json.dumps({**line, "equal": value == published, "machine": machine()}) + "\n")
    sys.stdout.flush()


def searched_scores(cluster: Cluster) -> None:
    for name, (lookahead, published) in OPTIMA.items():
        program, sizes = KERNELS[name]
        problem = Mapping(program=program(), cluster=cluster, sizes=sizes, lookahead=lookahead)
        begun = time.perf_counter()
        best = solve(problem, workers=0).best_cost
        seconds = time.perf_counter() - begun
        assert best is not None
        exact(
            f"search of {name}", best, published, lookahead=lookahead,
            reached=best <= published * (1 + 1e-8), seconds=round(seconds, 3),
            **problem.statistics(),
        )  # fmt: skip


async def split_sizes(cluster: Cluster) -> None:
    for name, (program, published) in SIZES.items():
        begun = time.perf_counter()
        mapped = await map_program(program(), cluster, lookahead=0)
        figure(
            f"split size of {name}", mapped.sizes.pattern, "indices", published=published,
            tried={trial.sizes.pattern: trial.score for trial in mapped.trials},
            seconds=round(time.perf_counter() - begun, 2),
        )  # fmt: skip


async def programs_by_rows(quick: bool) -> None:
    import jax
    import jax.numpy as jnp

    key = jax.random.PRNGKey(0)
    scale = 16 if quick else 1
    rows = 262_144 // scale

    def layer(width: int) -> tuple[jax.Array, jax.Array]:
        return jax.random.normal(key, (64, width)) / 8, jnp.zeros(width)

    def network(x: jax.Array, layers: list[tuple[jax.Array, jax.Array]]) -> jax.Array:
        for weight, bias in layers:
            x = jnp.tanh(x @ weight + bias)
        return x

    def taylor(x: jax.Array, layers: list[tuple[jax.Array, jax.Array]]) -> jax.Array:
        for weight, bias in layers:
            y = x @ weight + bias
            x = y - y**3 / 3 + 2 * y**5 / 15 - 17 * y**7 / 315
        return x

    def sines(x: jax.Array) -> jax.Array:
        for _ in range(100):
            x = jnp.sin(x)
        return x

    layers = [*(layer(64) for _ in range(7)), layer(10)]
    x = jax.random.normal(key, (rows, 64))
    bound = products_alone(x, layers)
    for name, function in (("tanh", network), ("Taylor series", taylor)):
        description = await by_rows(f"network, {name}", function, x, layers, target=5.0)
        figure(
            f"network, {name}: the most that any schedule could gain",
            description.original_seconds / bound, "times jax.jit",
            products_alone_ms=round(bound * 1e3, 2), cores=CORES,
            plan_over_bound=round(description.seconds / bound, 2),
        )  # fmt: skip
    await by_rows(
        "a hundred sines", sines, jax.random.normal(key, (5_000_000 // scale,)), target=1.8
    )


CORES = len(os.sched_getaffinity(0))


def products_alone(x: Any, layers: list[tuple[Any, Any]]) -> float:
    """Seconds that all cores together take for a network's products and nothing else, from blocks
    that stay in the cache: by CPU time, so that neither threads nor what else runs matter."""
    import jax
    from jax import lax

    blocks = x.reshape(-1, 512, x.shape[-1])

    def products(block: jax.Array) -> jax.Array:
        for weight, _ in layers:
            block = block @ weight
        return block

    run = jax.jit(lambda blocks: lax.map(products, blocks))
    return least_cpu(run, (blocks,)) / 1e3 / CORES


def least_cpu(function: Callable[..., Any], args: tuple[Any, ...]) -> float:
    """Milliseconds of CPU that all threads of this process take: what others do is not in it."""

    import jax

    def run() -> None:
        jax.block_until_ready(function(*args))

    run()
    return round(1e3 * min(cpu_seconds(run) for _ in range(3)), 2)


async def by_rows(name: str, function: Callable[..., Any], *args: Any, target: float) -> Any:
    """Places a function and gives what the plan says of itself."""
    import jax

    from aiosearch.mapper import place

    plan = await place(function, *args, seconds=SECONDS)
    description = plan.description
    compiled = jax.jit(function)
    cpu = {"jit_cpu_ms": least_cpu(compiled, args), "plan_cpu_ms": least_cpu(plan, args)}
    figure(
        f"{name} by rows", description.gain, "times jax.jit", target=target,
        jit_ms=round(description.original_seconds * 1e3, 2),
        plan_ms=round(description.seconds * 1e3, 2),
        schedule=str(description.schedule), evidence=description.evidence,
        reason=description.reason, **cpu,
    )  # fmt: skip
    return description


async def rodinia(quick: bool) -> None:
    """Each kernel by rows and by `optimize`; the faster of the two is what a user would take."""
    import jax

    from aiosearch.optimizer.optimization import optimize
    from aiosearch.optimizer.outcomes.results import Results

    gains = {}
    with tempfile.TemporaryDirectory() as folder:
        store = Results.open(Path(folder) / "results.sqlite")
        for name, (function, args) in cases(8 if quick else 1).items():
            description = await by_rows(f"Rodinia's {name}", function, *args, target=1.0)
            fast = await optimize(
                function, *args, effort="quick", target="cpu", results=store,
                seconds=None if quick else OPTIMIZING_SECONDS,
            )  # fmt: skip
            usual = jax.jit(function)
            race = raced(usual, fast, args)
            taken = race.ratio.median if fast.spliced.replacements else 1.0
            gains[name] = max(description.gain, taken)
            figure(
                f"Rodinia's {name} by optimize", race.ratio.median, "times jax.jit", target=1.0,
                **race.facts(), jit_cpu_ms=least_cpu(usual, args),
                cpu_ms=least_cpu(fast, args), programs=len(fast.spliced.replacements),
                right=alike(usual(*args), fast(*args)),
            )  # fmt: skip
        store.close()
    figure(
        "Rodinia's kernels that are 1.3 times as fast", sum(g >= 1.3 for g in gains.values()),
        "of 7", target=3, slower=sum(g < 0.97 for g in gains.values()),
        gains={name: round(gain, 2) for name, gain in gains.items()},
    )  # fmt: skip


OPTIMIZING_SECONDS = 60.0
"""For how long `optimize` may search a kernel of Rodinia."""


def raced(first: Callable[..., Any], second: Callable[..., Any], args: Any) -> Compared:
    import jax

    return compared(
        lambda: jax.block_until_ready(first(*args)),
        lambda: jax.block_until_ready(second(*args)),
        2.0,
    )


def alike(expected: Any, actual: Any) -> bool:
    """Whether results agree to rounding, by what is largest in each; whole numbers in all."""
    import jax
    import numpy as np

    pairs = zip(*map(jax.tree_util.tree_leaves, (expected, actual)), strict=True)
    return all(
        np.allclose(a, b, rtol=0, atol=1e-4 * float(np.abs(a).max()))
        if np.issubdtype(a.dtype, np.floating)
        else bool((np.asarray(a) == np.asarray(b)).all())
        for a, b in pairs
    )


def spearman(a: list[float], b: list[float]) -> float:
    """The correlation of ranks."""

    def ranks(values: list[float]) -> list[float]:
        order = sorted(range(len(values)), key=lambda at: values[at])
        places = [0.0] * len(values)
        for place, at in enumerate(order):
            places[at] = float(place)
        return places

    return statistics.correlation(ranks(a), ranks(b))


Program: TypeAlias = tuple[Callable[..., Any], tuple[Any, ...]]


def programs_of_plans(scale: int) -> dict[str, Program]:
    """Programs that run by rows, of which predictions are held against measurements."""
    import jax
    import jax.numpy as jnp

    key = jax.random.PRNGKey(0)

    def drawn(*shape: int) -> jax.Array:
        return jax.random.normal(key, shape)

    def layers(count: int) -> Callable[..., Any]:
        def run(x: Any, w: Any) -> Any:
            for _ in range(count):
                x = jnp.tanh(x @ w)
            return x

        return run

    def polynomial(x: Any) -> Any:
        y = x
        for _ in range(40):
            y = y * x + 0.5
        return y

    def norm(x: Any, gain: Any) -> Any:
        return (x - x.mean(-1, keepdims=True)) / jnp.sqrt(x.var(-1, keepdims=True) + 1e-5) * gain

    return {
        "two layers": (layers(2), (drawn(262_144 // scale, 64), drawn(64, 64) / 8)),
        "eight layers": (layers(8), (drawn(262_144 // scale, 64), drawn(64, 64) / 8)),
        "wide layers": (layers(3), (drawn(32_768 // scale, 256), drawn(256, 256) / 16)),
        "polynomial": (polynomial, (drawn(4_000_000 // scale),)),
        "copy": (lambda x: x * 2 + 1, (drawn(16_000_000 // scale),)),
        "norm": (norm, (drawn(65_536 // scale, 256), drawn(256))),
        "softmax": (lambda x: jax.nn.softmax(x), (drawn(65_536 // scale, 128),)),
    }


def predictions(quick: bool) -> None:
    """Seconds that the calibrated figures predict for plans, against those that they take."""
    from aiosearch.mapper import detect_cluster
    from aiosearch.mapper.calibration import RowPrediction, calibrate, predict_rows
    from aiosearch.mapper.rows.blocked import RowBlocks, RowRunner, RowSchedule
    from aiosearch.mapper.rows.choice import choose_rows
    from aiosearch.mapper.rows.equations import trace
    from aiosearch.mapper.rows.schedule_race import even_block, timed

    _, figures = calibrate(detect_cluster(gpus=False))
    programs = programs_of_plans(16 if quick else 1)
    plans: dict[str, tuple[RowRunner, tuple[Any, ...], RowPrediction]] = {}
    for name, (function, args) in programs.items():
        pulled = choose_rows(trace(function, args)[0])
        assert pulled is not None
        blocks = RowBlocks(pulled)
        for teams in (1, 2):
            for block in (even_block(blocks.rows // 256), even_block(blocks.rows // 32)):
                schedule = RowSchedule(teams, block, fence=True)
                runner = RowRunner(blocks, schedule)
                timed(runner, args)  # compiles
                prediction = predict_rows(pulled, schedule, blocks.rows, figures)
                plans[f"{name} {teams}x{block}"] = runner, args, prediction
    laps: dict[str, list[float]] = {name: [] for name in plans}
    cpu: dict[str, list[float]] = {name: [] for name in plans}
    # In turns, so that a load that comes and goes hits all alike; of each the least.
    for _ in range(5):
        for name, (runner, args, _) in plans.items():
            begun = time.process_time()
            laps[name].append(timed(runner, args))
            cpu[name].append(time.process_time() - begun)
    pairs = {
        name: {
            "predicted_ms": round(prediction.seconds * 1e3, 2),
            "measured_ms": round(min(laps[name]) * 1e3, 2),
            "predicted_cpu_ms": round(prediction.cpu_seconds * 1e3, 2),
            "cpu_ms": round(min(cpu[name]) * 1e3, 2),
            "binds": prediction.binding,
        }
        for name, (_, _, prediction) in plans.items()
    }
    # By CPU time as well, as on a machine that does other things two teams have no two cores.
    for kind, before, after in (
        ("seconds", "predicted_ms", "measured_ms"),
        ("seconds of CPU", "predicted_cpu_ms", "cpu_ms"),
    ):
        predicted = [float(pair[before]) for pair in pairs.values()]
        measured = [float(pair[after]) for pair in pairs.values()]
        errors = [abs(p / m - 1) for p, m in zip(predicted, measured, strict=True)]
        figure(
            f"rank correlation of predicted and measured {kind} of plans",
            spearman(predicted, measured), "", target=0.9, plans=len(measured),
        )  # fmt: skip
        figure(
            f"error of predicted {kind} of plans, median", statistics.median(errors),
            "of the measured", target=0.25, pairs=pairs,
        )  # fmt: skip


async def unlike_devices(quick: bool) -> None:
    """Two teams on a core each, of which one computes everything three times."""
    import jax
    import jax.numpy as jnp
    import numpy as np

    from aiosearch.mapper import TeamWorkers, WorkerCores

    cores = sorted(os.sched_getaffinity(0))
    rows = 20_011 if quick else 200_003  # primes
    x = np.asarray(jax.random.normal(jax.random.PRNGKey(0), (rows, 64)))
    w = np.full((64, 64), 0.02, np.float32)

    def network(x: Any, w: Any) -> Any:
        for _ in range(16):
            x = jnp.tanh(x @ w)
        return x

    async with TeamWorkers([WorkerCores((cores[0],))]) as alone:
        program = await alone.load(network, x, w, block=512, shares=[rows])
        laps = []
        for _ in range(5):
            await program(x, w)
            laps.append(program.seconds[0])
    teams = [WorkerCores((cores[0],)), WorkerCores((cores[-1],), repeats=3)]
    async with TeamWorkers(teams) as workers:
        program = await workers.load(network, x, w, block=512)
        together, ratios = [], []
        for _ in range(9):
            result = await program(x, w)
            slowest = max(program.seconds)
            # By speeds of the same moment, as what else runs is not the same for both cores.
            pairs = zip(program.shares, program.seconds, strict=True)
            ratios.append(slowest * sum(share / seconds for share, seconds in pairs) / rows)
            together.append(slowest)
        equal = bool(jnp.allclose(result, network(x, w), rtol=1e-4, atol=1e-5))
        figure(
            "unlike devices, speeds 1 to 3, against the ideal", statistics.median(ratios),
            "times the ideal time", target=1.1, rows=rows, shares=program.shares, equal=equal,
            alone_ms=round(min(laps) * 1e3, 1), together_ms=round(min(together) * 1e3, 1),
            least_over_ideal_of_alone=round(min(together) / (min(laps) * 0.75), 3),
        )  # fmt: skip


def sharded(quick: bool) -> None:
    """A transformer on a mesh of 64, planned; and on eight CPU devices, run."""
    import jax
    import jax.numpy as jnp
    from lib.transformer import arguments, transformer

    from aiosearch.mapper import shard

    make = lambda shape: jax.ShapeDtypeStruct(shape, jnp.bfloat16)  # noqa: E731 - an argument
    args = arguments(32, 4096, 14_336, 32_000, jax.ShapeDtypeStruct((64, 2048), jnp.int32), make)
    for mesh in ((64,), (8, 8)):
        begun = time.perf_counter()
        free = shard(transformer, *args, mesh=mesh)
        planned = time.perf_counter() - begun
        limit = free.argument_bytes // 16
        tight = shard(transformer, *args, mesh=mesh, memory=limit)
        limited = time.perf_counter() - begun - planned
        name = " x ".join(map(str, mesh))
        figure(f"32 layers on a mesh of {name}, planning", planned, "s", target=10.0)
        figure(f"32 layers on a mesh of {name}, gap", free.gap, "of the bound", target=0.01)
        figure(
            f"32 layers on a mesh of {name} within {limit:,} bytes, gap", tight.gap, "of the bound",
            target=0.01, held=tight.argument_bytes, seconds=round(limited, 2),
            collectives=len(tight.collectives), predicted_ms=round(tight.seconds * 1e3, 1),
            free_ms=round(free.seconds * 1e3, 1),
        )  # fmt: skip
    eight_devices("lib.transformer", *(["--quick"] if quick else []))


async def killed_hosts(times: int) -> None:
    """A host that shares a program is killed in the middle: how often that ends well."""
    import numpy as np
    from aiosearch_sockets import TcpListener

    from aiosearch.mapper import PlanError, TeamWorkers, WorkerCores
    from aiosearch.remote.links import Link

    def layers(x: Any, w: Any) -> Any:
        import jax.numpy as jnp

        for _ in range(8):
            x = jnp.tanh(x @ w)
        return x

    x = np.random.default_rng(0).standard_normal((50_021, 64)).astype(np.float32)
    w = np.full((64, 64), 0.02, np.float32)
    expected = np.asarray(layers(x, w))
    outcomes = {"said": 0, "computed again, right": 0, "wrong": 0, "over before": 0}
    core = min(os.sched_getaffinity(0))
    for number in range(times):
        joined: asyncio.Queue[Link] = asyncio.Queue()
        listener = TcpListener()
        await listener.start(joined.put_nowait)
        command = [sys.executable, "-m", "aiosearch.mapper.workers", "--connect", listener.address]
        host = await asyncio.create_subprocess_exec(*command)
        again = number % 2 == 1
        async with TeamWorkers([WorkerCores((core,))], links=[await joined.get()]) as workers:
            program = await workers.load(layers, x, w, shares=[25_000, 25_021])
            running = asyncio.create_task(program(x, w, again=again))
            await asyncio.sleep(0)  # all have been asked
            host.kill()
            try:
                result = await running
            except PlanError as error:
                outcomes["said"] += "is gone" in str(error)
            else:
                right = np.allclose(result, expected, rtol=1e-4, atol=1e-5)
                over = "computed again, right" if again else "over before"
                outcomes[over if right else "wrong"] += 1
        await host.wait()
        await listener.close()
    figure(
        "wrong answers of a program whose host was killed", outcomes["wrong"], "answers", target=0,
        killed=times, **outcomes,
    )  # fmt: skip


def proofs() -> None:
    """Plans that are proved equal to their function, for all shapes."""
    import jax
    import jax.numpy as jnp

    from aiosearch.mapper.rows.choice import choose_rows
    from aiosearch.mapper.rows.equations import trace
    from aiosearch.mapper.rows.proof import prove_rows

    named = dict(programs_of_plans(16))
    named |= {function.__name__: (function, args) for function, args in SUBJECTS}
    named |= cases(8)
    named["tanh of wide layers"] = (
        lambda x, w: jnp.tanh(jnp.tanh(x @ w) @ w.T), (jnp.ones((64, 8)), jnp.ones((8, 32))),
    )  # fmt: skip
    named["attention"] = (
        lambda q, k, v: jax.nn.softmax(jnp.einsum("bqd,bkd->bqk", q, k)) @ v,
        tuple(jnp.ones((8, 16, 4)) for _ in range(3)),
    )
    verdicts = {}
    for name, (function, args) in named.items():
        pulled = choose_rows(trace(function, args)[0])
        if pulled is None or pulled.share < 0.5:
            continue  # it runs as it is
        verdicts[name] = str(prove_rows(function, args, pulled))
    proved = sum(verdict.startswith("proved") for verdict in verdicts.values())
    figure(
        "plans by rows that are proved equal", proved / len(verdicts), "of the plans", target=0.9,
        proved=proved, plans=len(verdicts), verdicts=verdicts,
    )  # fmt: skip


def eight_devices(module: str, *options: str) -> None:
    """Runs a module on eight CPU devices, whose number is set before jax starts."""
    folder = os.path.dirname(os.path.abspath(__file__))
    subprocess.run([sys.executable, "-m", module, *options], check=True, cwd=folder)


MESHES = ("training", "pipelines", "devices", "budgets", "exhaustively", "enumerated")
PARTS = (
    "published", "sizes", "bugs", "proofs", "sharding", *MESHES, "killed", "unlike", "model",
    "rows", "rodinia",
)  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--published", action="store_true", help="scores only")
    parser.add_argument("--only", choices=PARTS, action="append", help="these parts only")
    parser.add_argument("--quick", action="store_true", help="sanity sizes")
    parser.add_argument("--bugs", type=int, default=1000, help="placement bugs that are seeded")
    options = parser.parse_args()
    parts = ["published"] if options.published else options.only or PARTS
    if "published" in parts:
        published_scores()
        searched_scores(claix())
    if "sizes" in parts:
        asyncio.run(split_sizes(claix()))
    if "bugs" in parts:
        counts = count_accepted(50 if options.quick else options.bugs)
        figure("placement bugs accepted", counts.pop("accepted"), "bugs", target=0, **counts)
    if "proofs" in parts:
        proofs()
    if "sharding" in parts:
        sharded(options.quick)
    if meshes := [part for part in parts if part in MESHES]:
        eight_devices("lib.meshes", *meshes, *(["--quick"] if options.quick else []))
    if "killed" in parts:
        asyncio.run(killed_hosts(2 if options.quick else 10))
    if "unlike" in parts:
        asyncio.run(unlike_devices(options.quick))
    if "model" in parts:
        predictions(options.quick)
    if "rows" in parts:
        asyncio.run(programs_by_rows(options.quick))
    if "rodinia" in parts:
        asyncio.run(rodinia(options.quick))


if __name__ == "__main__":
    main()
