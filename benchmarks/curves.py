"""The curves of Mirage's parallel search, from this engine's switches, beside those of the study.

    python benchmarks/curves.py                    # a quarter of an hour
    python benchmarks/curves.py --quick            # five minutes
    python benchmarks/curves.py --svg curves.svg

Mirage's search of blocks is recorded here, with z3, and replayed on 1 to 128 workers on a virtual
clock. Three ways are those of the study, whose figures stand beside: the tree is cut at depth one
and dealt out; threads share verdicts and one z3 with a lock; processes share nothing. The others
are the strategies that are installed, those that bring a network over eight machines. Last come the
questions that the study left open.

The lock is fitted to the study's own speed-ups, and the search was chosen for its balance and its
repeated questions: that those are near the study's confirms nothing. Record on a quiet machine:
what strikes single nodes changes the balance by some hundredths from one recording to the next.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import lib.engine.published as published
from lib.engine.replays import DEPTH, NOTHING, WORKERS, Curve, Replays, recorded
from lib.figures import figure

from aiosearch.lab.arms import Arm
from aiosearch.lab.simulated_chart import plot
from aiosearch.remote.links import has_transport
from aiosearch.strategies import list_strategies

HOSTS = 8
BREADTH = "breadth-first"
DEALT = Arm("queue", DEPTH, 0, split="height1")
THREADS = Arm("queue", DEPTH, 0, solver="locked")
RANKS = Arm("queue", DEPTH, 0, verdicts="private", split="height1")
LOCKS = (
    ("a queue before the same share of z3", THREADS, {"contention": 0.0}),
    ("one z3 for all", THREADS, {"contention": 0.0, "locked": 1.0}),
)
"""What is left of the lock without those who fight for it, and a lock around everything."""
OPEN = (
    ("work moves, verdicts do not", Arm("queue", DEPTH, 0, verdicts="private"), {}),
    (
        "a machine shares its verdicts",
        Arm("queue", DEPTH, 0, verdicts="private"),
        {"hosts": HOSTS},
    ),
    ("breadth-first", Arm("queue", BREADTH, 0), {}),
)
"""What the study left for later: what it is, the arm, and on how many machines. Beside them stand
the strategies as they are: depth-first, with verdicts that all machines share."""
STUDIED = "gqa"
"""The program of the study whose questions were counted, and on which balance was worst."""


class Curves:
    """Simulates ways, and prints each as it comes."""

    def __init__(self, rung: str, recording: Path) -> None:
        self._rung = rung
        self._replays = Replays(recording)
        lock = published.lock()
        figure(
            "threads of the study: share of the work under z3's lock",
            lock.share,
            "of the work",
            longer_by_each_that_waits=round(lock.contention, 5),
        )

    def curve(self, name: str, line: Arm, changes: Mapping[str, Any] = NOTHING) -> Curve:
        found = self._replays.curve(name, line, changes)
        rows, last = found.rows, found.rows[-1]
        figure(
            f"simulated speed-up of {last.workers} workers, {name}: {self._rung}",
            last.speedup,
            "T1 / Tn",
            hosts=last.hosts,
            workers=WORKERS,
            speedups=[round(row.speedup, 2) for row in rows],
            balance=[round(row.balance, 2) for row in rows],
            idle=[round(row.idle, 2) for row in rows],
            contention=[round(row.contention, 2) for row in rows],
            checks_over_once=[round(found.redundancy(row), 2) for row in rows],
            messages=[row.messages for row in rows],
        )
        return found

    def headlines(self, dealt: Curve, threads: Curve, ranks: Curve, ours: Sequence[Curve]) -> None:
        self._balance(dealt, ours)
        self._peak(threads, ours)
        self._ranks(ranks, ours)

    def _balance(self, dealt: Curve, ours: Sequence[Curve]) -> None:
        """The study has that of eight workers."""
        figure(
            f"balance of 8 workers, dealt once: {self._rung}",
            dealt.on(8).balance,
            "mean over maximum of busy time",
            seed=published.BALANCE,
            **{each.name: round(each.on(8).balance, 3) for each in ours},
        )

    def _peak(self, threads: Curve, ours: Sequence[Curve]) -> None:
        theirs = dict(zip(published.WORKERS, published.THREADS[STUDIED], strict=True))
        best = max(theirs, key=theirs.__getitem__)
        figure(
            f"speed-up of one locked z3 at its peak: {self._rung}",
            threads.peak.speedup,
            "T1 / Tn",
            workers=threads.peak.workers,
            at_96_over_peak=round(threads.on(96).speedup / threads.peak.speedup, 3),
            contention_of_128=round(threads.on(128).contention, 3),
            seed={
                "speedup": theirs[best],
                "workers": best,
                "at_96_over_peak": round(theirs[96] / theirs[best], 3),
            },
            **{each.name: _peak_of(each) for each in ours},
        )

    def _ranks(self, ranks: Curve, ours: Sequence[Curve]) -> None:
        asked = published.QUESTIONS
        figure(
            f"speed-up of 96 workers that share nothing: {self._rung}",
            ranks.on(96).speedup,
            "T1 / Tn",
            checks_of_64_over_once=round(ranks.redundancy(ranks.on(64)), 3),
            seed={
                "least": min(speedups[-1] for speedups in published.RANKS.values()),
                "most": max(speedups[-1] for speedups in published.RANKS.values()),
                "checks_of_64_over_once": round(asked[64] / asked[1], 3),
            },
            **{
                each.name: {
                    "speedup": round(each.on(96).speedup, 3),
                    "checks_of_64_over_once": round(each.redundancy(each.on(64)), 3),
                }
                for each in ours
            },
        )


def _peak_of(curve: Curve) -> dict[str, float]:
    return {"speedup": round(curve.peak.speedup, 3), "workers": curve.peak.workers}


def _ours(curves: Curves) -> list[Curve]:
    """Every strategy that is installed, as it is."""
    found = []
    for name in (info.name for info in list_strategies() if not info.error):
        hosts = HOSTS if has_transport(name) else 1
        told = f"{name}, {hosts} hosts" if hosts > 1 else name
        found.append(curves.curve(told, Arm(name, DEPTH, 0), {"hosts": hosts}))
    return found


def _published() -> Mapping[str, list[tuple[int, float]]]:
    return {
        f"Mirage: {name}": list(zip(published.WORKERS, speedups[STUDIED], strict=True))
        for name, speedups in (("threads", published.THREADS), ("ranks", published.RANKS))
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rung", help="of z3's ladder, one of blocks")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--svg", type=Path, metavar="FILE")
    options = parser.parse_args()
    rung = options.rung or ("blocks-seconds" if options.quick else "blocks-any-order")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "blocks.tree"
        recorded(rung, path)
        curves = Curves(rung, path)
    dealt = curves.curve("dealt once", DEALT)
    threads = curves.curve("one locked z3", THREADS)
    ranks = curves.curve("nothing shared", RANKS)
    ours = _ours(curves)
    curves.headlines(dealt, threads, ranks, ours)
    for name, line, changes in (*LOCKS, *OPEN):
        curves.curve(name, line, changes)
    if options.svg:
        drawn = {each.name: each.points for each in (dealt, threads, ranks, *ours)}
        options.svg.write_text(plot(drawn | dict(_published()), f"{rung}, simulated"))


if __name__ == "__main__":
    main()
