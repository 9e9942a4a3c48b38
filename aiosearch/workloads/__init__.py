"""Problems to try and to measure with: puzzles, trees of known shape, and searches of programs that
ask z3.

`RUNGS` is the ladder of searches on which every claim about parallelism is made.
"""

from __future__ import annotations

from .bitvectors.hackers_delight import TASKS, HackersDelightTask
from .blocks import Blocks
from .kernels import Kernels
from .ladder import RUNGS, Rung
from .queens import Queens
from .shapes import Lopsided, Tiny
from .superopt import FoundProgram, Superopt
from .tsp import TSP, Tour
from .uts import TREES, UTS, Tree

__all__ = [
    "RUNGS",
    "TASKS",
    "TREES",
    "TSP",
    "UTS",
    "Blocks",
    "FoundProgram",
    "HackersDelightTask",
    "Kernels",
    "Lopsided",
    "Queens",
    "Rung",
    "Superopt",
    "Tiny",
    "Tour",
    "Tree",
]
