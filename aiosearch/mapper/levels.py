"""Orders the calls of a program into levels: what shares a level may run at the same time.

Problem: calls in source order say more about time than their data does. Three independent chains of
50 sweeps, written one after another, are 150 calls, but 50 levels of three.

Method: calls are inserted in source order. Each starts below the last level and rises while it does
not conflict with the level above. All splits of a call's stage rise together.

Invariant: a level holds no two stages of which one must precede the other, and each lies below all
that it depends on. Cost: calls x levels, each test a meeting of two sets.
"""

from __future__ import annotations

from msgspec import Struct

from .patterns import PatternProgram
from .splits import DataSplit, DataTable, PatternSplit, SplitSizes, Stage, cut_call


class Level(Struct, frozen=True):
    """Pattern splits that may run at the same time."""

    splits: tuple[PatternSplit, ...]

    @property
    def placed(self) -> tuple[PatternSplit, ...]:
        """Those that a mapping assigns to teams."""
        return tuple(split for split in self.splits if split.is_placed)


class _Growing:
    """A level while calls are inserted: its stages, and all that they read and write."""

    def __init__(self) -> None:
        self.splits: list[PatternSplit] = []
        self.reads: set[DataSplit] = set()
        self.writes: set[DataSplit] = set()

    def add(self, stage: Stage) -> None:
        self.splits.extend(stage)
        for split in stage:
            self.reads.update(split.inputs)
            self.writes.update(split.outputs)


def flatten(
    program: PatternProgram, sizes: SplitSizes, *, renaming: bool = False, faithful: bool = True
) -> tuple[Level, ...]:
    """Gives the levels of a program.

    Without `renaming`, writing what a level above reads or writes keeps a call below it, as in the
    published tool. With it, only a true dependence does: a result gets a fresh copy, as in a
    program in static single assignment form.
    """
    table = DataTable(program, sizes.data)
    levels: list[_Growing] = []
    for position in range(len(program.calls)):
        for stage in cut_call(program, position, table, sizes.pattern, faithful=faithful):
            reads = {data for split in stage for data in split.inputs}
            writes = {data for split in stage for data in split.outputs}
            # Rising one level at a time: what a stage may not pass, it may not jump over either.
            target = len(levels)
            while target > 0:
                above = levels[target - 1]
                conflict = bool(above.writes & reads)
                if not renaming:
                    conflict = conflict or bool(above.reads & writes or above.writes & writes)
                if conflict:
                    break
                target -= 1
            if target == len(levels):
                levels.append(_Growing())
            levels[target].add(stage)
    return tuple(Level(tuple(level.splits)) for level in levels)
