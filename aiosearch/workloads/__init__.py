"""Problems to try and to measure with: puzzles, trees of known shape, and searches of programs that
ask z3.

`RUNGS` is the ladder of searches on which every claim about parallelism is made. It is part of
`aiosearch.lab`, as are `Blocks` and `Kernels`, Mirage's search as it was.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._lazy import lazily
from .bitvectors.hackers_delight import TASKS, HackersDelightTask
from .queens import Queens
from .shapes import Lopsided, Tiny
from .superopt import FoundProgram, Superopt
from .tsp import TSP, Tour
from .uts import TREES, UTS, Tree

if TYPE_CHECKING:
    from ..lab.ladder import RUNGS, Rung
    from ..lab.mirage.blocks import Blocks
    from ..lab.mirage.kernels import Kernels

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

__getattr__ = lazily(
    __name__,
    {
        "RUNGS": "..lab.ladder",
        "Rung": "..lab.ladder",
        "Blocks": "..lab.mirage.blocks",
        "Kernels": "..lab.mirage.kernels",
    },
)
