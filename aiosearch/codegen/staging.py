"""From a graph of values to stages: each value that is kept fills a buffer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ..tensor.mugraph import Kernel
from ..tensor.types import HALVES, DType
from .cutting import counted, cut, joined, parts
from .ir import Buffer, Index, Load, Stage, index
from .moves import Places
from .positions import ZERO, bounds, total
from .reindexing import Draft, Layout, fused, split
from .uses import Uses
from .values import Kept, Value
from .writing import Writer


@dataclass(frozen=True, slots=True)
class Held:
    """Where a value is kept, and how its axes lie there."""

    buffer: Buffer
    layout: Layout

    def load(self, at: Places) -> Load:
        places = (total((at[axis], factor) for axis, factor in own) for own in self.layout)
        return Load(self.buffer, tuple(places))


@dataclass(slots=True)
class Unit:
    """Stages that have to run together, of a custom kernel; or one that stands alone."""

    owner: Kernel | None
    stages: list[Stage]


class Stager:
    """Writes the stages of all wanted values, operands first, into `units`."""

    def __init__(self, wanted: Mapping[Value, Buffer], names: Callable[[], str]) -> None:
        self.units: list[Unit] = []
        self._wanted = wanted
        self._names = names
        self._uses = Uses(list(wanted))
        self._held: dict[Value, Held] = {}
        self._open: dict[Kernel, Unit] = {}
        self._indices = 0
        self._writer = Writer(self._uses, self, self.fresh)
        self._hold_all(None)

    def __contains__(self, value: Value) -> bool:
        return value in self._held

    def load(self, value: Value, at: Places) -> Load:
        return self._hold(value).load(at)

    def _hold_all(self, owner: Kernel | None) -> None:
        """What is kept, operands first, so that nothing is far below when it is asked for."""
        for value in self._uses.kept_in(owner):
            self._hold(value)

    def _hold(self, value: Value) -> Held:
        if value not in self._held:
            if isinstance(value.what, Kept):
                self._run(value.owner)
            else:
                self._fill(value)
        return self._held[value]

    def _run(self, kernel: Kernel | None) -> None:
        """Everything that a custom kernel stores, at once."""
        assert kernel is not None
        self._open[kernel] = Unit(kernel, [])
        self._hold_all(kernel)
        for value in self._uses.stored(kernel):
            self._fill(value)
        self.units.append(self._open.pop(kernel))

    def _fill(self, value: Value) -> None:
        at = tuple(index(self.fresh(size)) if size > 1 else ZERO for size in value.shape)
        pinned = value in self._wanted
        axes = [axis for axis, place in enumerate(at) if pinned or place != ZERO]
        layout = tuple(((axis, 1),) for axis in axes)
        if not value.size:
            shape = tuple(value.shape[axis] for axis in axes)
            self._held[value] = Held(self._wanted.get(value) or self._buffer(value, shape), layout)
            return
        written, body = self._writer.write(value, at)
        places = tuple(at[axis] for axis in axes)
        draft = Draft(places, layout, pinned, written, tuple(body.folded), body.fold)
        self._held[value] = self._filled(draft, value, self._wanted.get(value))

    def _filled(self, draft: Draft, value: Value, buffer: Buffer | None) -> Held:
        """Does what a draft says, in parts where it has to be."""
        draft = counted(draft, value.dtype)
        if (place := cut(draft)) is not None:
            loads = [
                self._filled(part, value, None).load(at)
                for part, at in parts(draft, place, self.fresh)
            ]
            draft = joined(draft, place, loads)
        draft = split(fused(draft, self.fresh), self.fresh)
        if buffer is None:
            shape = tuple(bounds(at)[1] + 1 for at in draft.at)
            buffer = self._buffer(value, shape)
        stage = Stage(buffer, draft.at, draft.value, draft.folded, draft.fold)
        self._unit(value).stages.append(stage)
        return Held(buffer, draft.layout)

    def _unit(self, value: Value) -> Unit:
        """Where a value's stages belong: to its custom kernel, else each stands alone."""
        if value.owner is not None and value.owner in self._open:
            return self._open[value.owner]
        self.units.append(Unit(None, []))
        return self.units[-1]

    def _buffer(self, value: Value, shape: tuple[int, ...]) -> Buffer:
        """Half types are kept in 32 bits, but for what products of half types are made of."""
        half = value.dtype in HALVES and not self._uses.feeds(value)
        wide = half or value.dtype is DType.WEAK
        return Buffer(self._names(), DType.F32 if wide else value.dtype, shape)

    def fresh(self, size: int) -> Index:
        """An index that is in use nowhere."""
        self._indices += 1
        return Index(f"#{self._indices:06}", size)
