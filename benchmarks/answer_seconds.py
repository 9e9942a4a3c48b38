"""How long an answer takes: seconds and CPU seconds of `optimize`, and the steps of its proofs.

`uv run --group bench python benchmarks/answer_seconds.py [--what all] [--effort quick] [NAME ...]`

Of the forty functions of `corpus.py`, each from nothing and in a process of its own, as a console
script is: median, nine tenths and most. On a machine that does other things too, the CPU seconds of
the process and its children are what counts. The README's first command, as the console script runs
it (`--what command`): until it says how many times as fast something is that is proved, until it
ends, and when it is called once more. Then the losses with their gradients of
`benchmarks/models.py`, and the attention block and the focal loss that once took minutes: how many
steps the largest proof of a rewriting takes, and the CPU seconds of generating all candidates.
Figures go to standard output, a table for people to standard error.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from corpus import CORPUS
from lib.figures import figure
from lib.programs import formulas
from lib.programs.formulas import normal

import aiosearch
from aiosearch.equivalence import ProofWork, verify
from aiosearch.optimizer.algebra import improve
from aiosearch.optimizer.candidates.generation import CandidateQuestion, generate_candidates
from aiosearch.optimizer.effort import BUDGETS, Effort
from aiosearch.optimizer.outcomes.results import Results
from aiosearch.optimizer.trace.traced import cut
from aiosearch.pool import usable_cores
from aiosearch.tensor import Program
from aiosearch.tensor.files import to_json

MOST = {"median": 12.0, "90 %": 30.0, "most": 60.0}
"""The seconds to an answer, quick, on two cores that do nothing else."""
LIMIT = 600.0
"""The seconds after which a process is given up."""


@dataclass(frozen=True)
class Loss:
    """A function of which rewritings are proved, and its arguments."""

    function: Any
    arguments: tuple[Any, ...]


def losses() -> dict[str, Loss]:
    rng = np.random.default_rng(0)
    made = {
        make.__name__: Loss(*make(rng))
        for make in (formulas.mlp_loss, formulas.encoder_loss, formulas.bert_loss)
    }
    block = (normal(rng, 64, 32), *(normal(rng, 32) for _ in range(2)), normal(rng, 32, 96))
    labels = jnp.asarray(rng.integers(0, 2, (256, 128)), jnp.float32)
    return made | {
        "attention_block_gradient": Loss(jax.grad(_block), block),
        "sigmoid_focal_loss": Loss(_focal, (normal(rng, 256, 128), labels)),
    }


def _block(x: jax.Array, gain: jax.Array, shift: jax.Array, w: jax.Array) -> jax.Array:
    mean = x.mean(-1, keepdims=True)
    variance = ((x - mean) ** 2).mean(-1, keepdims=True)
    h = (x - mean) * jax.lax.rsqrt(variance + 1e-6) * gain + shift
    q, k, v = jnp.split(h @ w, 3, axis=-1)
    attended = jax.nn.softmax(q @ k.T / np.sqrt(q.shape[-1])) @ v
    return ((x + attended) ** 2).sum()


def _focal(logits: jax.Array, labels: jax.Array) -> jax.Array:
    p = jax.nn.sigmoid(logits)
    entropy = -labels * jax.nn.log_sigmoid(logits) - (1 - labels) * jax.nn.log_sigmoid(-logits)
    right = p * labels + (1 - p) * (1 - labels)
    weight = 0.25 * labels + 0.75 * (1 - labels)
    return weight * entropy * (1 - right) ** 2.0


def main() -> None:
    options = _options()
    if options.alone:
        optimize_alone(options.alone, options.effort)
        return
    names = options.names
    if options.what in ("all", "losses"):
        for name, loss in losses().items():
            if not names or name in names:
                proved(name, loss, Effort(options.effort))
    if options.what in ("all", "command") and not names:
        first_command(options.effort)
    if options.what in ("all", "corpus"):
        answered([name for name in CORPUS if not names or name in names], options.effort)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="these alone")
    parser.add_argument("--what", default="all", choices=["all", "command", "corpus", "losses"])
    parser.add_argument("--effort", default="quick", choices=[effort.value for effort in Effort])
    parser.add_argument("--alone", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if unknown := set(options.names) - {*CORPUS, *losses()}:
        parser.error(f"no function {', '.join(sorted(unknown))}")
    return options


def proved(name: str, loss: Loss, effort: Effort) -> None:
    """The proofs of the largest region's rewritings, and the generation of all candidates."""
    subjects = cut(loss.function, *loss.arguments).subjects
    budget, tested, most = BUDGETS[effort], 0, 0
    largest = max((subject.program for subject in subjects), key=_size)
    rewritten = improve(largest, seconds=60.0, nodes=40, most=budget.forms)
    for program in rewritten:
        work = ProofWork(budget.proof_steps)
        tested += verify(largest, program, floats=False, work=work).status != "proved"
        most = max(most, work.spent)
    before = time.process_time()
    for subject in subjects:
        question = CandidateQuestion(
            to_json(subject.program), budget, 0, False, subject.constant, usable_cores()
        )
        generate_candidates(question, lambda text: None)
    figure(
        f"answer seconds: generation of {name}",
        time.process_time() - before,
        "s of CPU",
        operators=_size(largest),
        rewritten=len(rewritten),
        not_proved=tested,
        steps=most,
    )


def _size(program: Program) -> int:
    return sum(1 for _ in program.terms())


def first_command(effort: str) -> None:
    """The README's first command, twice: the second time it is remembered."""
    with tempfile.TemporaryDirectory() as folder:
        runs = [timed_command(effort, folder) for _ in range(2)]
    (first_gain, first), (_, second) = runs
    sys.stderr.write(f"first gain after {first_gain} s, all {first:.1f} s, again {second:.1f} s\n")
    if first_gain is not None:
        figure("first command: a gain is on the screen", first_gain, "s", target=10.0)
    figure("first command: seconds", first, "s", target=30.0)
    figure("first command: seconds, once more", second, "s")


def timed_command(effort: str, cache: str) -> tuple[float | None, float]:
    """Seconds until the console script says how many times as fast something is, and in all."""
    command = [sys.executable, "-m", "aiosearch", "optimize", "rms_norm", "--effort", effort]
    environment = {**os.environ, "XDG_CACHE_HOME": cache, "PYTHONUNBUFFERED": "1"}
    started, first = time.monotonic(), None
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if first is None and "times as fast" in line:
                first = time.monotonic() - started
    if process.returncode:
        raise SystemExit(f"{' '.join(command[1:])} ended with {process.returncode}")
    return first, time.monotonic() - started


def answered(names: Sequence[str], effort: str) -> None:
    """The seconds of each function, and the figures over all."""
    taken: dict[str, tuple[float, float]] = {}
    for name in names:
        seconds = alone(name, effort)
        if seconds is None:
            sys.stderr.write(f"{name:32} no answer in {LIMIT:g} s\n")
            seconds = LIMIT, LIMIT
        taken[name] = seconds
        sys.stderr.write(f"{name:32} {seconds[0]:7.1f} s {seconds[1]:7.1f} s of CPU\n")
    if not taken:
        return
    for place, unit in enumerate(("s", "s of CPU")):
        each = sorted(seconds[place] for seconds in taken.values())
        shown = {
            "median": statistics.median(each),
            "90 %": each[min(len(each) - 1, int(0.9 * len(each)))],
            "most": each[-1],
        }
        for what, seconds_ in shown.items():
            target = {} if place else {"target": MOST[what]}
            figure(f"answer seconds: {effort}, {what}", seconds_, unit, of=len(each), **target)


def alone(name: str, effort: str) -> tuple[float, float] | None:
    """Seconds, and CPU seconds with those of children, of one optimization in a fresh process."""
    command = [sys.executable, __file__, "--alone", name, "--effort", effort]
    started, before = time.monotonic(), os.times()
    try:
        subprocess.run(command, check=True, timeout=LIMIT, stdout=subprocess.DEVNULL)
    except subprocess.TimeoutExpired:
        return None
    after = os.times()
    cpu = sum(after[place] - before[place] for place in (2, 3))
    return time.monotonic() - started, cpu


def optimize_alone(name: str, effort: str) -> None:
    case = CORPUS[name]
    with (
        tempfile.TemporaryDirectory() as folder,
        Results.open(Path(folder) / "results.sqlite") as store,
    ):
        aiosearch.optimize_sync(case.function, *case.values(), effort=effort, results=store)


if __name__ == "__main__":
    main()
