"""The searches that claims about parallelism are made on, in sizes by the seconds they take."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from aiosearch.workloads.fused import Fused
from aiosearch.workloads.shapes import Lopsided
from aiosearch.workloads.tsp import TSP
from aiosearch.workloads.uts import TREES, UTS


class Rung(Struct, frozen=True):
    """A search, the seconds it takes one core of 2026, and where a user would cut it by hand."""

    name: str
    problem: Any
    seconds: float
    cut: int
    """The depth whose subtrees become tasks when it is parallelised by hand."""


GEOMETRIC = (
    Rung("UTS, geometric", TREES["medium"].problem, 0.06, 3),
    Rung("UTS, geometric (T1)", TREES["T1"].problem, 2.3, 4),
    Rung("UTS, geometric", UTS(depth=11), 9, 4),
    Rung("UTS, geometric (T1L)", TREES["T1L"].problem, 57, 4),
)
BINOMIAL = (
    Rung(
        "UTS, binomial",
        UTS("binomial", branching=800, seed=3, chance=0.124, many=8),
        0.05,
        1,
    ),
    Rung("UTS, binomial (T3)", TREES["T3"].problem, 2.3, 1),
    Rung("UTS, binomial (T3L)", TREES["T3L"].problem, 60, 1),
)
LOPSIDED = tuple(
    Rung("lopsided tree", Lopsided(height=height), Lopsided(height=height).nodes / 4.6e6, 12)
    for height in range(20, 50, 2)
)
SALESMAN = (
    Rung("TSP, 25 cities", TSP(25, 5), 0.2, 2),
    Rung("TSP, 28 cities", TSP(28, 3), 0.4, 2),
    Rung("TSP, 32 cities", TSP(32, 3), 2.3, 2),
    Rung("TSP, 42 cities", TSP(42, 1), 12, 2),
    Rung("TSP, 42 cities", TSP(42, 3), 50, 2),
)
FUSED = (
    Rung("fused programs, rms_norm, 9 operators", Fused("rms_norm", 9), 6, 2),
    Rung("fused programs, moe_gate, 8 operators", Fused("moe_gate", 8), 14, 2),
    Rung("fused programs, moe_gate, 9 operators", Fused("moe_gate", 9), 55, 2),
    Rung("fused programs, moe_gate, 12 operators", Fused("moe_gate", 12), 1_200, 2),
    Rung("fused programs, moe_gate, 13 operators", Fused("moe_gate", 13), 2_100, 2),
)
"""Every program priced, depth first; `sampled.py` prints what the seconds are rounded from. They
stand apart, as each process begins with tables, which take it seconds."""


def ladder(seconds: float) -> list[Rung]:
    """Gives one search of each kind, of about so many seconds."""
    kinds: Sequence[Sequence[Rung]] = (GEOMETRIC, BINOMIAL, LOPSIDED, SALESMAN)
    return [min(kind, key=lambda rung: abs(rung.seconds - seconds)) for kind in kinds]
