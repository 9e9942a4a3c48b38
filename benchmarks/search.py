"""What it takes to find every fused program of a space: CPU seconds beside those of Mirage.

    python benchmarks/search.py                    # everything
    python benchmarks/search.py --quick            # at sanity sizes
    python benchmarks/search.py rms_norm gqa       # of the first part, these programs alone
    python benchmarks/search.py --inputs           # one of the other parts
    python benchmarks/search.py --workers 0 1 2 8
    python benchmarks/search.py --prune z3

First each program is searched by one process, a fresh one, with nothing remembered from before.
Seconds are of CPU, user and system, with ranking and the verification of the ten best among them;
imports stand apart. What has to be found is looked for among all programs, and verified. Then come
all orders of a program's inputs, one program by several numbers of workers, and Mirage's own search
of a block, which asks z3, with one operator more from time to time until that takes too long, and
of kernels within Mirage's limits.

Beside ours stand the seconds of Mirage's C++ on one thread of a machine like this one, from a study
of 2026: as it was in November 2024, when it asked z3, and in April 2026, when it asked egg.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from types import MappingProxyType

from lib.figures import figure, spread
from lib.superoptimizer.invariance import equal_for_workers, equal_in_any_order
from lib.superoptimizer.z3_pruning import ask_z3
from msgspec import Struct
from search_process import Outcome, Task, searched

from aiosearch.superoptimizer.space import Space


class Line(Struct, frozen=True):
    """A search, what Mirage took for it, and what it should take."""

    task: Task
    asking_z3: str
    asking_egg: str
    floor: float
    aim: float


LINES = MappingProxyType(
    {
        "rms_norm": Line(
            Task("rms_norm", wanted="rms_norm"), "116 s", "9.0 s, verified 33.5 s", 3, 1
        ),
        "gated_mlp": Line(
            Task("gated_mlp", wanted="gated_mlp"), "144 s", "33 s, not verified", 10, 3
        ),
        "lora": Line(
            Task("lora", wanted="lora"), "not ended at 143 s", "not ended at 236 s", 60, 10
        ),
        "gqa": Line(
            Task("gqa", wanted="gqa"),
            "not ended at 263 s, none right",
            "not ended at 314 s, none right, with one custom kernel 123 s, not verified",
            60,
            10,
        ),
        "qk_norm_v": Line(
            Task("qk_norm_v", wanted="qk_norm_v"),
            "not ended at 103 s, none right",
            "not ended at 202 s, none right",
            120,
            20,
        ),
        "qk_norm_v, 11 operators in 2 kernels": Line(
            Task("qk_norm_v", Space(block_operators=11, kernels=2), wanted="qk_norm_v fused"),
            "not ended at 103 s, none right",
            "not ended at 202 s, none right",
            120,
            20,
        ),
    }
)
QUICK = ("rms_norm", "gated_mlp", "lora")


def main() -> None:
    options = _options()
    apart = options.inputs or options.workers or options.prune
    if not apart:
        names = options.names or (QUICK if options.quick else [])
        table(names, 1 if options.quick else options.repeats)
    everything = not apart and not options.names
    if everything or options.inputs:
        equal_in_any_order("lora", Space(kernels=1 if options.quick else 3))
    if everything or options.workers:
        name = "rms_norm" if options.quick else "gqa"
        equal_for_workers(name, options.workers or [0, 1, 2, 8])
    if everything or options.prune:
        ask_z3(options.length, options.seconds or (10 if options.quick else 150))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="programs, by default all")
    parser.add_argument("--quick", action="store_true", help="sanity sizes")
    parser.add_argument("--repeats", type=int, default=3, help="of each search of the first part")
    parser.add_argument("--inputs", action="store_true", help="all orders of the inputs alone")
    parser.add_argument("--workers", type=int, nargs="+", metavar="N", help="these workers alone")
    parser.add_argument("--prune", choices=["z3"], help="Mirage's search alone")
    parser.add_argument("--length", type=int, default=3, help="its first operators, loads apart")
    parser.add_argument("--seconds", type=float, help="of CPU, when a search there is given up")
    options = parser.parse_args()
    known = {line.task.name for line in LINES.values()}
    if unknown := set(options.names) - known:
        parser.error(f"no program {', '.join(sorted(unknown))}; there are {', '.join(known)}")
    return options


def table(names: Sequence[str], repeats: int) -> None:
    """Searches programs, by default all of them."""
    for title, line in LINES.items():
        if not names or line.task.name in names:
            runs = [searched(line.task) for _ in range(repeats)]
            _tell(title, line, runs)


def _tell(title: str, line: Line, runs: Sequence[Outcome]) -> None:
    middle = sorted(runs, key=lambda run: run.cpu)[len(runs) // 2]
    figure(
        f"every fused program: {title}",
        middle.cpu,
        "CPU s",
        target=line.aim,
        floor=line.floor,
        mirage_asking_z3=line.asking_z3,
        mirage_asking_egg=line.asking_egg,
        runs=spread([run.cpu for run in runs]),
        spent={what: round(taken, 3) for what, taken in middle.seconds.items()},
        start_up=round(middle.start_up, 3),
        mebibytes=round(middle.mebibytes),
        status=middle.status,
        kernel_graphs=middle.graphs,
        programs=middle.programs,
        **middle.sizes,
        asked_for_parts=middle.asked,
        pruned=middle.pruned,
        best_verified=middle.evidence,
        in_doubt=middle.doubts,
        not_accepted=len(middle.refused),
    )
    for one in middle.wanted:
        figure(
            f"{title}: {one.what}",
            one.programs,
            "programs",
            target="at least 1",
            found="yes" if one.evidence else "no",
            evidence=one.evidence,
        )


if __name__ == "__main__":
    main()
