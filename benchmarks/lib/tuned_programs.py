"""Programs and whole models that are tuned: over `jax.jit`, and beside TVM where it is there."""

from __future__ import annotations

import asyncio
import math
import os
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from aiosearch.measure.ratios import wins
from aiosearch.tuner import (
    TunableProgram,
    TuningProgress,
    TuningReport,
    tune,
    tune_function_sync,
)
from aiosearch.tuner.schedules.programs import tunable_program
from lib.figures import figure
from lib.optimizer.agreement import leaves
from lib.optimizer.paired_timing import compared
from lib.peer_process import PeerError
from lib.programs.trial import farthest, in_float64
from lib.tuned_workloads import Model, Workload, types
from lib.tvm_contest import ERROR, Contest, contest, tuned_by_tvm


def programs(
    group: Mapping[str, Workload],
    title: str,
    seconds: float,
    quick: bool,
    python: str | None,
) -> None:
    """Each program tuned for so long, over the best that JAX has for it in the same race; and
    beside TVM, where `python` has it."""
    ratios, contests = [], {}
    for name, workload in list(group.items())[: 2 if quick else None]:
        with tuned_program(workload, seconds) as (kernel, report):
            ratios.append(over_jax(name, report))
            if python is not None:
                try:
                    contests[name] = beside_tvm(python, name, workload, kernel, report, seconds)
                except PeerError as error:
                    figure(f"tuned program over TVM's, {name}", None, "x", failed=str(error))
    figure(
        f"tuned programs over jax, {title}, geometric mean", mean(ratios), "x", least=min(ratios)
    )
    if not contests:
        return
    aheads = {name: contest.ahead[0] for name, (contest, _) in contests.items()}
    figure(
        f"tuned programs over TVM's, {title}, geometric mean",
        mean(aheads.values()),
        "x",
        budget=seconds,
        least=min(aheads.values()),
        wrong=[name for name, (contest, _) in contests.items() if contest.wrong],
    )
    behind = [name for name, (contest, _) in contests.items() if contest.behind]
    figure(
        f"tuned programs behind TVM's beyond noise, {title}",
        len(behind),
        "programs",
        of=len(contests),
        budget=seconds,
        names=behind,
        target=0,
    )
    rates = [rate for _, rate in contests.values()]
    figure(
        f"trials in a second over TVM's, {title}, geometric mean",
        mean(rates),
        "x",
        least=min(rates),
        target=3,
    )


def mean(ratios: Iterable[float]) -> float:
    """The geometric one."""
    logs = [math.log(ratio) for ratio in ratios]
    return math.exp(sum(logs) / len(logs))


def over_jax(name: str, report: TuningReport) -> float:
    """Prints what the last race of a tuned program says, and gives its ratio."""
    # The winner, the captured program as XLA compiles it, and the function as it was written.
    times = {str(options): spent for options, spent in report.finalists}
    plain = [times[key] for key in ("{'form': 'library'}", "{'reference': True}") if key in times]
    winner = report.finalists[0][1]
    ratio = min(plain) / winner
    figure(
        f"tuned program over the best of jax, {name}",
        ratio,
        "x",
        seconds=winner,
        jax=min(plain),
        interval=report.record.speedup,
        form=report.configuration.get("form"),
        checked=report.record.checked,
        trials=report.trials,
        trials_per_second=report.trials / report.seconds,
        rejected=dict(report.rejected),
        correlations=list(report.correlations[-3:]),
        target=1.0,
    )
    return ratio


def beside_tvm(
    python: str,
    name: str,
    workload: Workload,
    kernel: TunableProgram,
    report: TuningReport,
    seconds: float,
) -> tuple[Contest, float]:
    """Has TVM tune the same, times both winners in turns, and prints that; gives the ratio of the
    rates too."""
    arrays, shape = drawn(workload)
    with tuned_by_tvm(python, name, arrays, shape, seconds) as winner:
        raced = contest(workload[0], jax.jit(kernel), winner, arrays, 15.0)
    middle, low, high = raced.ahead
    figure(
        f"tuned program over TVM's, {name}",
        middle,
        "x",
        budget=seconds,
        interval=[low, high],
        noise=raced.tvm.noise,
        behind=raced.behind,
        seconds={"ours": raced.tvm.base, "tvm": raced.tvm.other, "jax.jit": raced.jit.other},
        wrong=list(raced.wrong),
        rounds=raced.tvm.rounds,
        tvm=winner.report,
        target=1.0,
    )
    rate = report.trials / report.seconds / winner.trials_per_second
    figure(
        f"trials in a second over TVM's, {name}",
        rate,
        "x",
        ours=[report.trials, report.seconds],
        tvm=[winner.report["trials"], winner.report["seconds"]],
        target=3,
    )
    return raced, rate


def drawn(workload: Workload) -> tuple[list[jax.Array], Sequence[int]]:
    """Arrays to run a workload on, and the shape of what it gives."""
    random = np.random.default_rng(0)
    arrays = [jnp.asarray(random.standard_normal(shape), jnp.float32) for shape in workload[1]]
    return arrays, jax.eval_shape(workload[0], *types(workload)).shape


@contextmanager
def tuned_program(
    workload: Workload, seconds: float, **options: Any
) -> Iterator[tuple[TunableProgram, TuningReport]]:
    """A program that was tuned with an empty cache, as long as its table is there."""
    with tempfile.TemporaryDirectory() as scratch:
        os.environ["XDG_CACHE_HOME"] = scratch
        kernel = tunable_program(workload[0], table=Path(scratch) / "table.json", **options)
        yield kernel, asyncio.run(tune(kernel, *types(workload), seconds=seconds))


def models(group: Mapping[str, Model], seconds: float, quick: bool) -> None:
    """Whole functions within one budget each."""
    for name, make in list(group.items())[: 1 if quick else None]:
        tuned_model(name, *make(), seconds)


def tuned_model(name: str, function: Callable[..., Any], arguments: Any, seconds: float) -> None:
    """Tunes a whole function, times it in turns with `jax.jit` of the original, and prints that.

    What was reached at a moment follows from the best so far of the regions, as often as they run.
    Only the end is measured as a whole.
    """
    seen: list[tuple[float, TuningProgress]] = []
    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as scratch:
        os.environ["XDG_CACHE_HOME"] = scratch
        tuned = tune_function_sync(
            function,
            *arguments,
            seconds=seconds,
            table=Path(scratch) / "table.json",
            on_progress=lambda progress: seen.append((time.monotonic() - begun, progress)),
        )
        spent = time.monotonic() - begun
        original, fast = jax.jit(function), jax.jit(tuned)
        race = compared(
            lambda: jax.block_until_ready(original(*arguments)),
            lambda: jax.block_until_ready(fast(*arguments)),
            seconds=20.0,
        )
        truth, outputs = in_float64(function, arguments), leaves(fast(*arguments))
        error = farthest(outputs, truth or leaves(original(*arguments)))
    weights = {region.report.record.kernel: region.weight for region in tuned.regions}
    moments = [at for at in (15, 30, 60, 120, 180, 300, 600) if at < spent]
    figure(
        f"tuned model over jax.jit, {name}",
        race.ratio.median,
        "x",
        budget=seconds,
        spent=spent,
        faster=wins(race.ratio, race.noise),
        error=error,
        right=error <= ERROR,
        **race.facts(),
        regions=[
            {
                "kernel": region.report.record.kernel,
                "weight": region.weight,
                "alone": region.report.speedup,
                "trials": region.report.trials,
                "replaced": region.replaced,
                "checked": region.report.record.checked,
            }
            for region in tuned.regions
        ],
        trials=sum(region.report.trials for region in tuned.regions),
        so_far={at: reached(seen, weights, race.base, at) for at in moments},
        left_alone=list(tuned.left_alone),
        target=1.0,
    )


def reached(
    seen: Sequence[tuple[float, TuningProgress]],
    weights: Mapping[str, float],
    whole: float,
    at: int,
) -> float:
    """How many times as fast the whole should be with the best that the regions had by then."""
    latest = {progress.kernel: progress for moment, progress in seen if moment <= at}
    before = after = 0.0
    for kernel, progress in latest.items():
        before += weights.get(kernel, 0.0) * progress.baseline
        after += weights.get(kernel, 0.0) * (progress.best or progress.baseline)
    # What is no region takes what it took. On a loud machine regions alone may take longer than the
    # whole did, and there is nothing else then.
    others = max(0.0, whole - before)
    return round((others + before) / (others + after), 3) if latest else 1.0


def rate_beside_tvm(python: str, name: str, workload: Workload, seconds: float) -> None:
    """How many points both try in a second."""
    with tuned_by_tvm(python, name, *drawn(workload), seconds) as winner:
        theirs = winner.report
    with tuned_program(workload, seconds) as (_, report):
        figure(
            f"trials in a second over TVM's, {name} as a program",
            report.trials / report.seconds / (theirs["trials"] / theirs["seconds"]),
            "x",
            ours=[report.trials, report.seconds],
            tvm=theirs,
            target=3,
        )
