"""Programs as parallel patterns: what is computed over which indices, and which data it touches.

A program is a sequence of calls in source order. Each call runs a *pattern* over a range of
indices:

- `MAP`: every index by itself.
- `STENCIL`: every index by itself, reading neighbours along the first dimension.
- `REDUCE`: one value of all indices.
- `RECURRENCE`: time steps one after another, the indices of each in parallel.
- `SERIAL`: something that is not shared out; `IO`: the same, and it needs a host.

Calls are cut along the first dimension, and so is data. An `Access` says which rows of an array
iteration i touches: row `scale * i + shift`, or the whole array. Example, three rows of five
columns averaged with their neighbours:

    PatternCall("blur", PatternKind.STENCIL, pattern="average", starts=(1, 0), lengths=(3, 5),
         reads=(Access("image", shift=-1), Access("image"), Access("image", shift=1)),
         writes=(Access("blurred"),))

Work is counted in operations of an iteration. A pattern may call others, and their operations count
too; on a GPU an operation in a branch counts 32 times, as a warp does both sides in turn.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Mapping
from pathlib import Path

import msgspec
from msgspec import Struct

from ..arguments import nearest
from ..documents import Document
from .errors import PatternError

WARP_PENALTY = 32
"""How much dearer an operation in a branch is on a GPU."""


class PatternKind(enum.StrEnum):
    MAP = "map"
    STENCIL = "stencil"
    REDUCE = "reduce"
    RECURRENCE = "recurrence"
    SERIAL = "serial"
    IO = "io"


class Array(Struct, frozen=True):
    """An array, or a scalar where it has no dimensions."""

    name: str
    shape: tuple[int, ...]
    item_size: int = 8
    """Bytes of an element."""

    @property
    def bytes(self) -> int:
        return math.prod(self.shape) * self.item_size


class Access(Struct, frozen=True):
    """The rows of an array that an iteration touches."""

    array: str
    scale: int = 1
    shift: int = 0
    whole: bool = False
    charged: bool = True
    """Whether reading it costs; constants that every core keeps a copy of do not."""


class Nested(Struct, frozen=True):
    """A pattern that runs inside an iteration of another, over indices of these lengths."""

    pattern: str
    lengths: tuple[int, ...] = (1,)


class Pattern(Struct, frozen=True):
    """The work of an iteration: operations of its own, in branches or not, and nested patterns."""

    name: str
    operations: int
    branched: int = 0
    """Operations inside branches, beside `operations`."""
    nested: tuple[Nested, ...] = ()


class PatternCall(Struct, frozen=True):
    """A pattern that runs over a range of indices."""

    name: str
    kind: PatternKind
    pattern: str = ""
    """The name of its pattern; empty where it does no arithmetic, as in declarations."""
    starts: tuple[int, ...] = (0,)
    lengths: tuple[int, ...] = (1,)
    reads: tuple[Access, ...] = ()
    writes: tuple[Access, ...] = ()
    steps: int = 1
    """Time steps of a recurrence."""


class Work(Struct, frozen=True):
    """Operations of an iteration, nested patterns included."""

    plain: int = 0
    branched: int = 0

    def on(self, gpu: bool) -> int:
        return self.plain + self.branched * (WARP_PENALTY if gpu else 1)


class PatternProgram(Struct, frozen=True, kw_only=True):
    """Arrays, patterns, and calls in source order; what is wrong is said when it is made."""

    name: str
    arrays: tuple[Array, ...]
    patterns: tuple[Pattern, ...]
    calls: tuple[PatternCall, ...]

    def __post_init__(self) -> None:
        for what, names in (
            ("array", [array.name for array in self.arrays]),
            ("pattern", [pattern.name for pattern in self.patterns]),
            ("call", [call.name for call in self.calls]),
        ):
            twice = sorted({name for name in names if names.count(name) > 1})
            if twice:
                raise PatternError(f"{self.name}: {what} {twice[0]!r} is declared twice")
        arrays = {array.name: array for array in self.arrays}
        for array in self.arrays:
            if any(size < 1 for size in array.shape) or array.item_size < 1:
                raise PatternError(f"{self.name}: array {array.name!r} has no elements")
        for call in self.calls:
            self._check(call, arrays)
        self.work()

    def _check(self, call: PatternCall, arrays: Mapping[str, Array]) -> None:
        where = f"{self.name}: call {call.name!r}"
        if not call.lengths or any(length < 1 for length in call.lengths):
            raise PatternError(f"{where} runs over no indices: lengths {call.lengths}")
        if len(call.starts) != len(call.lengths):
            raise PatternError(
                f"{where} has {len(call.starts)} starts, {len(call.lengths)} lengths"
            )
        if call.steps < 1 or (call.steps > 1 and call.kind is not PatternKind.RECURRENCE):
            raise PatternError(f"{where}: only a recurrence has steps, and at least 1")
        first = call.starts[0]
        for access in (*call.reads, *call.writes):
            if access.array not in arrays:
                hint = nearest(access.array, arrays)
                raise PatternError(f"{where} uses an undeclared array {access.array!r}{hint}")
            shape = arrays[access.array].shape
            if access.whole or not shape or call.kind in (PatternKind.SERIAL, PatternKind.IO):
                continue
            ends = [
                access.scale * index + access.shift
                for index in (first, first + call.lengths[0] - 1)
            ]
            if min(ends) < 0 or max(ends) >= shape[0]:
                raise PatternError(
                    f"{where} touches rows {min(ends)} to {max(ends)} of {access.array!r}, which "
                    f"has {shape[0]}; correct scale, shift or lengths"
                )

    def work(self) -> dict[str, Work]:
        """Operations of an iteration of every pattern; raises PatternError where it is endless."""
        patterns = {pattern.name: pattern for pattern in self.patterns}
        done: dict[str, Work] = {"": Work()}

        def count(name: str, path: tuple[str, ...]) -> Work:
            if name in done:
                return done[name]
            if name in path:
                cycle = " -> ".join((*path[path.index(name) :], name))
                raise PatternError(f"{self.name}: patterns call each other in a cycle: {cycle}")
            if name not in patterns:
                by = f"pattern {path[-1]!r}" if path else "a call"
                hint = nearest(name, patterns)
                raise PatternError(f"{self.name}: {by} uses an unknown pattern {name!r}{hint}")
            pattern = patterns[name]
            plain, branched = pattern.operations, pattern.branched
            for nested in pattern.nested:
                inner = count(nested.pattern, (*path, name))
                # The sum of the lengths, as published: exact for what is nested over one dimension.
                plain += inner.plain * sum(nested.lengths)
                branched += inner.branched * sum(nested.lengths)
            done[name] = Work(plain, branched)
            return done[name]

        for pattern in self.patterns:
            count(pattern.name, ())
        for call in self.calls:
            count(call.pattern, ())
        return done


def read_program(path: str | Path) -> PatternProgram:
    """Reads a program from the JSON that `encode_program` gives."""
    return decode_program(Path(path).read_bytes(), str(path))


def decode_program(text: bytes, source: str = "the program") -> PatternProgram:
    try:
        return msgspec.json.decode(text, type=PatternProgram)
    except msgspec.ValidationError as error:
        raise PatternError(f"{source} is no program of patterns: {error}") from None
    except msgspec.DecodeError as error:
        raise PatternError(f"{source} is not JSON: {error}") from None


def encode_program(program: PatternProgram) -> bytes:
    return msgspec.json.format(msgspec.json.encode(program), indent=2)


def describe(program: PatternProgram) -> list[Document]:
    """A row for each call: kind, indices, operations of an iteration, arrays read and written."""
    work = program.work()
    return [
        {
            "call": call.name,
            "kind": call.kind.value,
            "indices": "x".join(map(str, call.lengths)),
            "operations": work[call.pattern].plain + work[call.pattern].branched,
            "reads": ", ".join(dict.fromkeys(access.array for access in call.reads)),
            "writes": ", ".join(dict.fromkeys(access.array for access in call.writes)),
        }
        for call in program.calls
    ]
