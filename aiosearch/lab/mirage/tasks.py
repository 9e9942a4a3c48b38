"""The programs that Mirage was shown on, as tasks, and how they may be tiled."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product
from types import MappingProxyType
from typing import TypeAlias

from msgspec import Struct

Tiling: TypeAlias = tuple[tuple[str, int], ...]
"""What a block has of each dimension, and its iterations as `loop`; all as powers of two."""


class TaskInput(Struct, frozen=True):
    """A matrix, by the names of its dimensions."""

    name: str
    rows: str
    columns: str


class MirageTask(Struct, frozen=True):
    """A program to find, and how it may be cut into blocks and iterations. Sizes are powers of
    two.
    """

    inputs: tuple[TaskInput, ...]
    target: str
    """The abstract term, as SMT-LIB writes it."""
    sizes: Mapping[str, int]
    tiles: Mapping[str, tuple[int, ...]]
    """How much of a dimension a block may have; of those that are not here it has all."""
    loop: str
    """The dimension that the iterations of a block take in pieces."""
    loops: tuple[int, ...]
    sums: bool = False
    """Whether a kernel may sum over columns; Mirage's can in three dimensions."""

    @property
    def names(self) -> tuple[str, ...]:
        """The inputs by name."""
        return tuple(task_input.name for task_input in self.inputs)

    def tilings(self) -> Iterator[Tiling]:
        """Every tiling; neighbours differ in `loop`."""
        ways = [self.tiles.get(name, (size,)) for name, size in self.sizes.items()]
        for chosen in product(*ways, self.loops):
            yield tuple(zip((*self.sizes, "loop"), chosen, strict=True))


TASKS: Mapping[str, MirageTask] = MappingProxyType(
    {
        "rms-norm": MirageTask(
            (TaskInput("X", "m", "k"), TaskInput("W", "k", "n")),
            "(sum 12 (mul (div X (rms 12 X)) W))",
            {"m": 4, "k": 12, "n": 12},
            {"m": (0, 1, 2, 3, 4), "n": (4, 5, 6, 7, 8)},
            "k",
            (2, 3, 4, 5, 6, 7, 8),
        ),
        "gated-mlp": MirageTask(
            (TaskInput("X", "m", "k"), TaskInput("A", "k", "n"), TaskInput("B", "k", "n")),
            "(mul (silu (sum 12 (mul X A))) (sum 12 (mul X B)))",
            {"m": 3, "k": 12, "n": 12},
            {"m": (0, 1, 2, 3), "n": (4, 5, 6, 7)},
            "k",
            (2, 3, 4, 5, 6, 7, 8),
        ),
        "lora": MirageTask(
            (
                TaskInput("X", "m", "k"),
                TaskInput("W", "k", "n"),
                TaskInput("A", "k", "r"),
                TaskInput("B", "r", "n"),
            ),
            "(add (sum 12 (mul X W)) (sum 4 (mul (sum 12 (mul X A)) B)))",
            {"m": 3, "k": 12, "n": 12, "r": 4},
            {"m": (0, 1, 2, 3), "n": (4, 5, 6, 7)},
            "k",
            (2, 3, 4, 5, 6, 7, 8),
        ),
        "gqa": MirageTask(
            (TaskInput("Q", "m", "d"), TaskInput("K", "d", "k"), TaskInput("V", "k", "n")),
            "(sum 12 (mul (div (exp (sum 6 (mul Q K))) (sum 12 (exp (sum 6 (mul Q K))))) V))",
            {"m": 8, "d": 6, "k": 12, "n": 6},
            {"m": (4, 5, 6, 7, 8)},
            "k",
            (2, 3, 4, 5, 6, 7, 8),
            sums=True,
        ),
    }
)
"""Four of the programs that Mirage was shown on; of gqa one head."""
