"""What kill -9 costs a search that keeps a journal, and what the journal costs the search.

    python benchmarks/resume.py [--seconds 30] [--trials 12] [--quick]

The whole process group is killed at a random moment and the search taken up again. Every expansion
is counted outside the processes, so the work done twice is known to the node.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import resource
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from random import Random
from typing import Any

import msgspec
from lib.engine.counted_tree import Tallied, expanded
from lib.figures import figure, spread

from aiosearch import Search
from aiosearch.events import AnyEvent, WorkReported

WORKERS = 2
ALLOWED_SHARE = 0.05
ALLOWED_SECONDS = 0.5
"""Of every worker."""


class Request(msgspec.Struct):
    """One run: the whole search, or as much of it as it is let."""

    folder: str
    branching: int
    order: str = "depth-first"
    journal: bool = True
    resume: bool = False
    until_open: int = 0
    """Stop when so many subtrees are open; 0 for never."""


class Outcome(msgspec.Struct):
    """What a run that came to its end reports."""

    opening: float
    """Seconds until the search was open: the journal read, the workers started."""
    first_report: float
    """Seconds until a worker had explored something and said so."""
    seconds: float
    nodes: int
    open: int
    busy: float
    cpu: float
    """CPU seconds of host and workers."""


async def search(request: Request) -> Outcome:
    folder = Path(request.folder)
    started = time.perf_counter()
    reports: list[float] = []

    def listen(event: AnyEvent) -> None:
        if isinstance(event, WorkReported):
            reports.append(time.perf_counter() - started)

    async with Search(
        problem(request.branching, folder),
        order=request.order,
        workers=WORKERS,
        journal=folder / "journal" if request.journal else None,
        resume=request.resume,
        cache=None,
        on=listen,
        progress_seconds=3600,
    ) as opened:
        opening = time.perf_counter() - started
        if not request.until_open:
            await opened.wait()
        while not reports or opened.statistics().open < request.until_open:
            await asyncio.sleep(0.02)
    found = opened.statistics()
    busy = sum(worker.busy for worker in found.workers)
    return Outcome(opening, min(reports), found.seconds, found.nodes, found.open, busy, cpu())


def problem(branching: int, folder: Path) -> Tallied:
    """A binomial tree like T3, whose size is chosen by the number of the root's children."""
    chance = 0.124875
    return Tallied("binomial", branching, seed=42, chance=chance, many=8, folder=str(folder))


def cpu() -> float:
    who = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    return sum(used.ru_utime + used.ru_stime for used in map(resource.getrusage, who))


def start(request: Request) -> subprocess.Popen[bytes]:
    command = [sys.executable, __file__, "--child", msgspec.json.encode(request).decode()]
    return subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True)


def finish(process: subprocess.Popen[bytes]) -> Outcome:
    output, _ = process.communicate()
    if process.returncode:
        raise SystemExit(f"a run ended with status {process.returncode}")
    return msgspec.json.decode(output, type=Outcome)


def kill(process: subprocess.Popen[bytes]) -> None:
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()


def interrupted(branching: int, moments: list[float]) -> tuple[Outcome, int, int]:
    """Kills a search after so many seconds of each run; gives its end, expansions and kills."""
    kills = 0
    with tempfile.TemporaryDirectory() as folder:
        for moment in moments:
            process = start(Request(folder, branching, resume=Path(folder, "journal").exists()))
            try:
                process.wait(moment)
                outcome = finish(process)
                break
            except subprocess.TimeoutExpired:
                kill(process)
                kills += 1
        else:
            outcome = finish(start(Request(folder, branching, resume=True)))
        return outcome, expanded(Path(folder)), kills


def show_repeated(name: str, runs: list[tuple[Outcome, int, int]], whole: Outcome) -> None:
    """Work done twice for each kill, in shares of the whole search."""
    shares = [(times - run.nodes) / run.nodes / kills for run, times, kills in runs if kills]
    allowed = max(ALLOWED_SHARE, WORKERS * ALLOWED_SECONDS / whole.busy)
    figure(
        f"work repeated after kill -9, the worst of {len(shares)}: {name}",
        max(shares),
        "share of the search",
        target=round(allowed, 4),
        seconds=spread([share * whole.busy for share in shares]),
        kills=sum(kills for _, _, kills in runs),
        search_seconds=round(whole.seconds, 2),
        nodes=whole.nodes,
        same_nodes=all(run.nodes == whole.nodes for run, _, _ in runs),
    )


def cost_of_journal(branching: int, repeats: int) -> Outcome:
    """Runs with a journal and without, in turns."""
    runs: dict[bool, list[Outcome]] = {True: [], False: []}
    sizes = []
    for _ in range(repeats):
        for journal in (True, False):
            with tempfile.TemporaryDirectory() as folder:
                runs[journal].append(finish(start(Request(folder, branching, journal=journal))))
                sizes += [path.stat().st_size for path in Path(folder).glob("journal")]
    figure(
        "CPU of a search with a journal over that of one without",
        median(runs[True], "cpu") / median(runs[False], "cpu"),
        "ratio",
        seconds=round(median(runs[True], "seconds") / median(runs[False], "seconds"), 4),
        noise=spread([run.cpu / runs[False][0].cpu for run in runs[False]]),
        journal_bytes=statistics.median(sizes),
        search_seconds=round(median(runs[True], "seconds"), 2),
    )
    return runs[True][0]


def median(runs: list[Outcome], name: str) -> float:
    return float(statistics.median(getattr(run, name) for run in runs))


def time_to_resume(until_open: int, fresh: Outcome) -> None:
    """Stops a breadth-first search with very many open subtrees, and takes it up again."""
    with tempfile.TemporaryDirectory() as folder:
        wide: dict[str, Any] = {"order": "breadth-first", "until_open": until_open}
        finish(start(Request(folder, 2 * until_open, **wide)))
        size = (Path(folder) / "journal").stat().st_size
        again = finish(start(Request(folder, 2 * until_open, resume=True, **wide)))
    figure(
        f"time to resume, {again.open:,} subtrees open",
        again.opening,
        "s",
        first_report=round(again.first_report, 3),
        fresh=round(fresh.opening, 3),
        fresh_first_report=round(fresh.first_report, 3),
        journal_bytes=size,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, help="of a search that is not interrupted")
    parser.add_argument("--trials", type=int)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        outcome = asyncio.run(search(msgspec.json.decode(options.child, type=Request)))
        sys.stdout.buffer.write(msgspec.json.encode(outcome))
        return
    seconds = options.seconds or (3.0 if options.quick else 30.0)
    trials = options.trials or (2 if options.quick else 12)
    branching = int(seconds * WORKERS * 1_500)
    random = Random(options.seed)
    whole = cost_of_journal(branching, 2 if options.quick else 3)
    ones = [[random.uniform(0.2, 0.9) * whole.seconds] for _ in range(trials)]
    show_repeated("one kill", [interrupted(branching, moments) for moments in ones], whole)
    fives = [[random.uniform(0.1, 0.3) * whole.seconds for _ in range(5)] for _ in ones]
    show_repeated("five kills", [interrupted(branching, moments) for moments in fives], whole)
    time_to_resume(20_000 if options.quick else 1_000_000, whole)


if __name__ == "__main__":
    main()
