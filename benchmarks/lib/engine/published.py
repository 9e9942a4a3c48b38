"""What the study of Mirage's parallel search found, read from its figures to three in a hundred.

https://joshua-j-hong.github.io/15618-Parallel-DFS-Hyperparam-Search/
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from msgspec import Struct

BALANCE = (0.77, 0.80)
"""Mean over maximum of busy time where subtrees at depth one were dealt to eight, on the program on
which it was worst: of processes, and of threads."""
LEAST: Mapping[str, float] = MappingProxyType({"rms_norm": 0.94, "gated_mlp": 0.80, "gqa": 0.545})
"""Least over greatest run time of eight threads to which subtrees were dealt, by program."""
WAITING: Mapping[int, float] = MappingProxyType({32: 0.02, 128: 0.90})
"""Share of their time that so many threads spent at z3's lock, for `rms_norm`; the first at most.
"""
WORKERS = (2, 4, 8, 16, 32, 64, 96)
THREADS: Mapping[str, tuple[float, ...]] = MappingProxyType(
    {
        "rms_norm": (1.1, 2.2, 3.6, 5.0, 6.55, 5.65, 4.7),
        "gqa": (1.1, 2.2, 3.8, 5.9, 8.6, 6.5, 6.5),
        "chameleon": (1.2, 2.1, 3.8, 5.9, 8.4, 7.2, 6.4),
        "gated_mlp": (1.2, 2.1, 3.3, 5.4, 6.7, 5.4, 4.4),
        "lora": (1.2, 2.1, 3.1, 4.6, 6.6, 5.1, 5.35),
    }
)
"""Speed-up of threads over one, of each program, on so many workers."""
RANKS: Mapping[str, tuple[float, ...]] = MappingProxyType(
    {
        "rms_norm": (1.2, 1.4, 1.75, 2.1, 2.75, 3.4, 3.5),
        "gqa": (1.2, 1.6, 2.1, 2.7, 3.3, 4.0, 4.6),
        "chameleon": (1.2, 1.7, 2.1, 2.7, 3.3, 4.0, 4.6),
        "gated_mlp": (1.2, 1.5, 1.8, 2.3, 3.1, 3.5, 5.4),
        "lora": (1.55, 2.2, 3.3, 5.5, 6.2, 7.4, 7.4),
    }
)
"""Speed-up of processes that send messages over one, of each program, on so many `WORKERS`."""
QUESTIONS: Mapping[int, int] = MappingProxyType(
    {
        1: 34_000,
        2: 50_000,
        4: 69_000,
        8: 98_000,
        16: 128_000,
        32: 158_000,
        64: 190_000,
    }
)
"""What all processes together asked z3, for gqa."""


class Lock(Struct, frozen=True):
    """What z3's lock cost the study's threads, as `lock` fits it."""

    share: float
    """The share of the work that only one could be at."""
    contention: float
    """The share by which each waiting thread made the locked work take longer."""


def lock() -> Lock:
    """The lock by Gunther's law, under which n / speed-up is 1 + s (n - 1) + k n (n - 1).

    s is the share that goes one by one; a queue for it alone would make more threads no slower, and
    theirs were, from 32 on. k is that all hinder each other: k / s for each one more. Both are
    least squares over all programs.
    """
    points = [
        (n - 1.0, n * (n - 1.0), n / speedup - 1.0)
        for speedups in THREADS.values()
        for n, speedup in zip(WORKERS, speedups, strict=True)
    ]
    # Least squares for two unknowns, s and s k, by the normal equations
    aa, ab, bb = (sum(p[i] * p[j] for p in points) for i, j in ((0, 0), (0, 1), (1, 1)))
    ay, by = (sum(p[i] * p[2] for p in points) for i in (0, 1))
    share = (bb * ay - ab * by) / (aa * bb - ab * ab)
    return Lock(share, (aa * by - ab * ay) / (aa * bb - ab * ab) / share)
