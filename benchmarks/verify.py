"""How long the first two layers take on saved graphs and on right rewrites, without jax.

`uv run --group bench python benchmarks/verify.py`
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from lib.figures import figure

from aiosearch.equivalence import Verdict, verify
from aiosearch.tensor import Program
from aiosearch.tensor.mirage import MirageGraph, load_mugraphs, pairs
from aiosearch.tensor.programs import BUILTINS

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))

DATA = Path(__file__).parents[1] / "tests" / "data" / "mirage"
SAVED = (
    ("lora_bs1", "lora", True),
    ("norm_transformer_bs1", "ntrans", True),
    ("qknorm_gqa_bs1_three_wrong", "qk_norm_v", False),
)
TARGET_MS = 50.0


def main() -> None:
    saved()
    rewritten()
    assert "jax" not in sys.modules, "the first two layers must not need jax"


def saved() -> None:
    """Graphs that Mirage saved: the right ones accepted, the wrong ones refuted."""
    right: list[float] = []
    for name, program, good in SAVED:
        verdicts = [best(graph, program) for graph in graphs(DATA / f"{name}.json")]
        accepted = sum(verdict.status.accepted for verdict, _ in verdicts)
        proved = sum(verdict.status == "proved" for verdict, _ in verdicts)
        refuted = sum(verdict.status == "refuted" for verdict, _ in verdicts)
        figure(
            f"verify: {name}, {'accepted' if good else 'refuted'}",
            accepted if good else refuted,
            f"of {len(verdicts)} graphs",
            target=len(verdicts),
            proved=proved,
        )
        right += [ms for verdict, ms in verdicts if good]
    report("verify: fields and proof of one saved graph", right)


def graphs(path: Path) -> Iterator[MirageGraph]:
    for graph in load_mugraphs(path.read_bytes()):
        assert isinstance(graph, MirageGraph)
        yield graph


def best(graph: MirageGraph, program: str) -> tuple[Verdict, float]:
    """The verdict in the order of inputs that is accepted, if one is; and its time."""
    for pair in pairs(graph, BUILTINS[program]):
        verdict, ms = timed(pair.reference, pair.graph)
        if verdict.status.accepted:
            break
    return verdict, ms


def timed(a: Program, b: Program) -> tuple[Verdict, float]:
    """A verdict without floats, and the CPU time it took."""
    started = time.process_time()
    verdict = verify(a, b, floats=False)
    return verdict, (time.process_time() - started) * 1e3


def rewritten() -> None:
    """Right programs, at the sizes that they are written for: how many are proved for all."""
    from testkit.programs.rewrites import REWRITES

    times: list[float] = []
    proved = 0
    for rewrite in REWRITES:
        verdict, ms = timed(*rewrite.pair())
        times.append(ms)
        proved += verdict.status == "proved"
        if verdict.status != "proved":
            sys.stderr.write(f"{rewrite.name}: {verdict.status}; {verdict.proof}\n")
    figure("verify: right programs proved", proved / len(times), "share", target=0.9, of=len(times))
    report("verify: fields and proof of one right program", times)


def report(name: str, times: list[float]) -> None:
    figure(
        name,
        statistics.median(times),
        "ms of CPU, median",
        target=TARGET_MS,
        most=round(max(times), 1),
        of=len(times),
    )


if __name__ == "__main__":
    main()
