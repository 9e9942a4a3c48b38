"""The ladder of searches that ask z3, from a second to half an hour, with their exact counts."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Literal

from msgspec import Struct

from ..workloads.superopt import Superopt
from .mirage.blocks import Blocks
from .mirage.kernels import Kernels

if TYPE_CHECKING:
    from collections.abc import Mapping


class Rung(Struct, frozen=True):
    """A search whose counts are known: an engine that explores all of it must give the same ones.

    `seconds` is what one process took for everything, z3 in-process behind push and pop, on one
    core of a 2-core machine (Python 3.11, z3 5.4, a solver for QF_BV); where it is not `measured`,
    z3's part is extrapolated from a sample of its questions.
    """

    problem: Superopt | Blocks | Kernels
    nodes: int
    """Every node, the root and all goals included: `nodes - goals` of them need no proof, and an
    engine that does not explore what is refuted counts those and the goals that were proved."""
    goals: int
    """Nodes with an obligation: complete programs that fit the tests, or prefixes of a program that
    asks of every step."""
    checks: int
    """Distinct obligations among `goals`, so what z3 is asked with a cache that forgets nothing."""
    solutions: int
    """Distinct programs proved, which do not depend on the tests; of a block, those that compute
    the target."""
    seconds: float
    measured: bool = True
    on_unknown: Literal["defer", "keep", "drop"] = "defer"
    """What becomes of a node of which z3 cannot say; the counts are with this."""


RUNGS: Mapping[str, Rung] = MappingProxyType(
    {
        # Figures in the order nodes, goals, checks, solutions, seconds.
        "second": Rung(Superopt("P1", 4, 8), 24_712, 1_761, 1_722, 824, 0.8),
        "seconds": Rung(Superopt("P1", 4, 32), 24_473, 1_522, 1_493, 824, 2.3),
        "shorter": Rung(Superopt("P18", 5, 8, tests=6), 1_491_802, 150, 150, 4, 10),
        "refuted": Rung(Superopt("P17", 4, 32, tests=1), 42_043, 19_092, 18_693, 9, 21),
        "proved": Rung(Superopt("P3", 5, 32), 143_125, 23_047, 21_926, 21_699, 27),
        "blocks-second": Rung(
            Blocks("rms-norm", 4, 4), 5_697, 5_692, 661, 4, 1.0, on_unknown="drop"
        ),
        "blocks-some": Rung(
            Blocks("rms-norm", 4, 24), 43_380, 43_355, 1_795, 32, 3.0, on_unknown="drop"
        ),
        "blocks-seconds": Rung(
            Blocks("rms-norm", 4), 165_487, 165_341, 2_012, 155, 6.9, on_unknown="drop"
        ),
        "blocks-any-order": Rung(
            Blocks("rms-norm", 4, ordered=False),
            931_471,
            931_325,
            2_296,
            465,
            16,
            on_unknown="drop",
        ),
        "kernels-seconds": Rung(
            Kernels("rms-norm", 4, 6, tilings=16),
            44_878,
            44_813,
            1_641,
            16,
            3.0,
            on_unknown="drop",
        ),
        "mixed": Rung(Superopt("P1", 5, 8), 1_251_410, 94_799, 88_714, 38_767, 43),
        "hard": Rung(Superopt("P9", 5, 32), 2_828_285, 17_267, 16_358, 11_346, 114),
        "words": Rung(Superopt("P1", 5, 32), 1_235_092, 78_481, 73_469, 38_767, 137),
        "blocks-minutes": Rung(
            Blocks("lora", 4), 1_287_556, 1_287_459, 13_115, 4, 120, on_unknown="drop"
        ),
        "hundred-thousand": Rung(
            Superopt("P17", 5, 32, tests=1, seed=2),
            1_310_438,
            153_827,
            142_709,
            732,
            250,
            measured=False,
        ),
        "divisions": Rung(
            Superopt("P20", 4, 32, tests=1), 87_609, 14_502, 14_190, 0, 600, measured=False
        ),
        "million": Rung(
            Superopt("P4", 5, 32, tests=1),
            3_113_756,
            1_957_145,
            1_860_681,
            28_690,
            1_900,
            measured=False,
        ),
        "long-divisions": Rung(
            Superopt("P20", 5, 32, seed=3),
            5_864_178,
            66_280,
            62_358,
            0,
            2_700,
            measured=False,
        ),
    }
)
"""Rungs by name, the lightest first; every count is exact."""
