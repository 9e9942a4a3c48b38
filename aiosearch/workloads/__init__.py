"""The ladder of searches on which every claim about parallelism is made."""

from __future__ import annotations

from .blocks import Blocks
from .hackers_delight import TASKS, Task
from .kernels import Kernels
from .queens import Queens
from .rungs import RUNGS, Rung
from .shapes import Lopsided, Tiny
from .superopt import Found, Superopt
from .tsp import TSP, Tour
from .uts import TREES, UTS, Tree

__all__ = [
    "RUNGS",
    "TASKS",
    "TREES",
    "TSP",
    "UTS",
    "Blocks",
    "Found",
    "Kernels",
    "Lopsided",
    "Queens",
    "Rung",
    "Superopt",
    "Task",
    "Tiny",
    "Tour",
    "Tree",
]
