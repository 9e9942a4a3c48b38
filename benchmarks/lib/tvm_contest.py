"""A tuned program beside what TVM's MetaSchedule makes of it in as many seconds.

TVM runs in a process of its own (`tvm_side.py`), under this interpreter where it is installed or
under another that has it. Both tune for the same wall time, one after the other, on the same cores;
then their winners and `jax.jit` of the function are timed in turns on the same arrays, each in the
process that its user would call it in. What TVM computes is compared with jax, which its own search
does not.
"""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

import jax
import numpy as np

from aiosearch.pool import usable_cores
from lib.optimizer.paired_timing import LEAST, Compared, judged, repeats, sample
from lib.peer_process import TVM, PeerError, PeerProcess, peer_process
from lib.programs.trial import farthest, in_float64

SIDE = Path(__file__).parent / "tvm_side.py"
SAMPLE_SECONDS = 0.01
MOST_ROUNDS = 41
ERROR = 1e-4
"""Of the largest value: what an output may be off, as sums in another order are."""


@dataclass
class TvmWinner:
    """What TVM found for a workload, in a process that still runs and is asked for times."""

    report: dict[str, Any]
    process: PeerProcess = field(repr=False)
    output: Any = field(default=None, repr=False)

    @property
    def trials_per_second(self) -> float:
        return float(self.report["trials"] / self.report["seconds"])

    def seconds(self, calls: int) -> float:
        """Seconds of a call, by so many of them."""
        return float(self.process.asked(str(calls)))


@contextmanager
def tuned_by_tvm(
    python: str, name: str, arrays: Sequence[Any], shape: Sequence[int], seconds: float
) -> Iterator[TvmWinner]:
    """Tunes a workload of `tuned_workloads` by TVM; raises `PeerError` where it cannot."""
    with TemporaryDirectory() as scratch:
        np.savez(Path(scratch) / "inputs.npz", *map(np.asarray, arrays))
        np.save(Path(scratch) / "shape.npy", np.array(shape, np.int64))
        cores = usable_cores()
        shapes = json.dumps([list(array.shape) for array in arrays])
        command = [python, str(SIDE), name, shapes, str(seconds), str(cores), scratch]
        threads = {"TVM_NUM_THREADS": str(cores)}
        with peer_process(TVM.name, command, Path(scratch), threads) as process:
            report = process.answer()
            if report["best"] is None:
                raise PeerError(f"none of {report['trials']} candidates ran")
            yield TvmWinner(report, process, np.load(Path(scratch) / "output.npy"))


@dataclass(frozen=True)
class Contest:
    """Three programs timed in turns: ours, TVM's, and `jax.jit` of the function."""

    tvm: Compared
    """How many times as fast as ours TVM's is."""
    jit: Compared
    """How many times as fast as ours `jax.jit` is."""
    wrong: tuple[str, ...]
    """Whose outputs are not those of jax in float64."""

    @property
    def ahead(self) -> tuple[float, float, float]:
        """How many times as fast as TVM's ours is, and between which bounds."""
        ratio = self.tvm.ratio
        return 1 / ratio.median, 1 / ratio.high, 1 / ratio.low

    @property
    def behind(self) -> bool:
        """Whether TVM's is faster beyond noise."""
        return self.tvm.ratio.low > 1 + self.tvm.noise


def contest(
    function: Callable[..., Any],
    ours: Callable[..., Any],
    winner: TvmWinner,
    arrays: Sequence[Any],
    seconds: float,
) -> Contest:
    """Times all for so many seconds at most, in an order that is drawn in each round."""
    calls = [_call(ours, arrays), _call(jax.jit(function), arrays)]
    counts = [repeats(call, SAMPLE_SECONDS) for call in calls]
    rough = min(winner.seconds(1) for _ in range(3))
    theirs = max(1, math.ceil(SAMPLE_SECONDS / rough))
    order, draw = ["ours", "tvm", "again", "jit"], random.Random(0)
    take = {
        "ours": lambda: sample(calls[0], counts[0]),
        "again": lambda: sample(calls[0], counts[0]),
        "jit": lambda: sample(calls[1], counts[1]),
        "tvm": lambda: winner.seconds(theirs),
    }
    rounds: list[dict[str, float]] = []
    ends = perf_counter() + seconds
    while len(rounds) < LEAST or (len(rounds) < MOST_ROUNDS and perf_counter() < ends):
        draw.shuffle(order)
        rounds.append({name: take[name]() for name in order})
    against = {
        name: judged([(row["ours"], row[name], row["again"]) for row in rounds])
        for name in ("tvm", "jit")
    }
    outputs = {"ours": np.asarray(calls[0]()), "tvm": winner.output}
    truth = in_float64(function, arrays)
    assert truth is not None
    wrong = tuple(
        name
        for name, output in outputs.items()
        if output.shape != truth[0].shape or not farthest([output], truth) <= ERROR
    )
    return Contest(against["tvm"], against["jit"], wrong)


def _call(function: Callable[..., Any], arrays: Sequence[Any]) -> Callable[[], Any]:
    """Waits by the array's own method, as a search does: `jax.block_until_ready` first looks for
    arrays in a tree, some microseconds of the 120 that the shortest of the programs take."""
    return lambda: function(*arrays).block_until_ready()
