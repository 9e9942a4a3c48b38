"""Prints what one block of a kernel does: pass after pass, its stages over their tiles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from ..ir import Buffer, Constant, Fold, Index, Stage
from ..native.machine import Machine
from .access import Access
from .arithmetic import WORKING, Arithmetic, working
from .beginnings import Beginning, beginnings
from .codedfolds import coded_product
from .coming import Coming
from .copies import Copy
from .elements import Elements
from .matrixfolds import matrix_product
from .matrixunit import MatrixUnit
from .memory import Memory, Storage
from .packed import Packed
from .panels import PanelPrinter
from .passes import Pass, passes
from .preparing import Prepared
from .ranges import Range, cut
from .schedule import Schedule
from .shape import Shape, Wishes, shape
from .stages import StagePrinter
from .storages import moved
from .tiles import Tile, neutral
from .values import Value, Whole
from .writer import Writer


@dataclass
class BlockPrinter:
    """One block, wherever it is."""

    prepared: Prepared
    schedule: Schedule
    machine: Machine
    arithmetic: Arithmetic
    storages: dict[Buffer, Storage | Packed]
    ranges: Mapping[Index, Range]
    """Of the block; along the serial index, of all its tiles."""
    numbers: Mapping[Index, Whole]
    """Which block it is along each index that is cut."""
    unit: MatrixUnit

    def print(self) -> None:
        keeps = self.schedule.keeps
        for one in passes(self.prepared.kernel, self.prepared.serial, keeps=keeps):
            self._pass(one)

    @property
    def _writer(self) -> Writer:
        return self.arithmetic.vectors.writer

    def _pass(self, one: Pass) -> None:
        self._stages(one.before, self.ranges)
        serial = self.prepared.serial
        if serial is not None and one.along:
            for stage in one.sums(serial):
                self._stage(_begun(stage), self.ranges)
            count = self.schedule.count(serial)
            self._writer.repeat(0, count, partial(self._along, one.along, serial))

    def _along(self, stages: Sequence[Stage], serial: Index, number: Whole) -> None:
        """One tile of the serial index."""
        own = cut(serial.size, self.schedule.tile(serial), number, self._writer)
        self._stages(stages, {**self.ranges, serial: own})

    def _stages(self, stages: Sequence[Stage], ranges: Mapping[Index, Range]) -> None:
        """One after the other, but for those that a fold begins with."""
        begun = self._beginnings(stages, ranges)
        for stage in stages:
            if stage not in begun.values():
                self._stage(stage, ranges, begun.get(stage))

    def _beginnings(
        self, stages: Sequence[Stage], ranges: Mapping[Index, Range]
    ) -> dict[Stage, Stage]:
        """What folds begin with, by the fold."""
        endings = self.prepared.endings
        found = beginnings(stages, self.prepared.kernel.outputs, endings)
        pairs = [(stage, found[stage.target]) for stage in stages if stage.target in found]
        return {fold: first for fold, first in pairs if self._alike(fold, first, ranges)}

    def _alike(self, fold: Stage, first: Stage, ranges: Mapping[Index, Range]) -> bool:
        """Whether they lay the same elements into the same lanes, of one row at once.

        What the lanes of a row share is read once; of several, it would be read with each vector.
        """
        lanes, wishes = self._lanes(fold), self.schedule.wishes
        if isinstance(self.storages[first.target], Packed):
            return False
        own, other = (self._shape(one, ranges, lanes, wishes) for one in (fold, first))
        single = own.row is None and own.column is None
        return single and own.along in fold.folded and own.along == other.along

    def _stage(
        self, stage: Stage, ranges: Mapping[Index, Range], first: Stage | None = None
    ) -> None:
        """Over its tile, to which it adds what it folds along the serial index."""
        for one in (stage,) if first is None else (first, stage):
            if one.target not in self.prepared.kernel.outputs:
                where = self.ranges if one.target in self.prepared.lasting else ranges
                self.storages[one.target] = moved(self.storages[one.target], one, where)
        body = partial(self._filled, stage, ranges, first)
        self._writer.only_when(self._first(stage), body)

    def _lanes(self, stage: Stage) -> int:
        return self.schedule.lanes(self.machine.width, 8 if working(stage) == "double" else 4)

    def _filled(
        self, stage: Stage, ranges: Mapping[Index, Range], first: Stage | None = None
    ) -> None:
        scalar, lanes = working(stage), self._lanes(stage)
        memory = Memory(self._writer, self.machine)
        access = Access(self.storages, memory, self.arithmetic.vectors)
        if isinstance(self.storages[stage.target], Packed):
            PanelPrinter(Copy(stage, ranges, lanes, access, self.arithmetic)).print()
            return
        wishes, dots = self.schedule.wishes, self.machine.bf16_dot
        folding, mapping = (
            Elements(access, self.arithmetic, scalar, self.prepared.sums, maps=maps)
            for maps in (False, self.machine.fma)
        )
        elements = mapping if stage.fold is Fold.NONE else folding
        adds = self.prepared.serial in stage.folded
        own = self._shape(stage, ranges, lanes, wishes)
        ending = self.prepared.endings.get(stage.target)
        beginning = Beginning(first, mapping) if first is not None else None
        tile = Tile(
            stage, ranges, own, lanes, elements, adds, dots, self.unit, ending, beginning=beginning
        )
        if wishes.matrix:
            tile = replace(tile, product=matrix_product(tile, self.machine))
            if tile.product is None:
                panel = wishes.vectors if coded_product(tile) else 0
                usual = replace(wishes, rows=0, vectors=panel)
                tile = replace(tile, shape=self._shape(stage, ranges, lanes, usual))
        StagePrinter(tile, self._coming).print()

    @property
    def _coming(self) -> Coming | None:
        """Of tiles that are laid out."""
        serial, panels = self.prepared.serial, self.prepared.panels
        if serial is None or not panels:
            return None
        stages = self.prepared.kernel.stages
        read = {one.target: one.loads[0] for one in stages if one.target in panels}
        return Coming(serial, self.schedule.tile(serial), read)

    def _shape(
        self, stage: Stage, ranges: Mapping[Index, Range], lanes: int, wishes: Wishes
    ) -> Shape:
        return shape(stage, ranges, self.storages, lanes, self.machine.registers, wishes)

    def _first(self, stage: Stage) -> Value | bool:
        """An output that several blocks would fill alike is filled by the first of them."""
        found: Value | bool = True
        if stage.target in self.prepared.kernel.outputs:
            for one, number in self.numbers.items():
                if one not in stage.free:
                    found = self._writer.both(found, self._writer.equal(number, 0))
        return found


def _begun(stage: Stage) -> Stage:
    """What is folded tile by tile starts with what changes nothing."""
    value = Constant(neutral(stage.fold, WORKING[stage.accumulated]))
    return Stage(stage.target, stage.at, value)
