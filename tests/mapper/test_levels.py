"""Splits cover every index once, and levels keep what depends on each other apart."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiosearch.mapper.errors import PatternError
from aiosearch.mapper.levels import flatten
from aiosearch.mapper.patterns import (
    Access,
    Array,
    Nested,
    Pattern,
    PatternCall,
    PatternKind,
    PatternProgram,
    decode_program,
    encode_program,
)
from aiosearch.mapper.published import KERNELS
from aiosearch.mapper.splits import DataTable, SplitSizes


def rowwise(*calls: PatternCall, rows: int = 100) -> PatternProgram:
    names = sorted({access.array for call in calls for access in (*call.reads, *call.writes)})
    arrays = tuple(Array(name, (rows,)) for name in names)
    return PatternProgram(name="p", arrays=arrays, patterns=(Pattern("f", 1),), calls=calls)


def row_map(name: str, reads: str, writes: str, rows: int = 100) -> PatternCall:
    return PatternCall(
        name,
        PatternKind.MAP,
        "f",
        lengths=(rows,),
        reads=(Access(reads),),
        writes=(Access(writes),),
    )


@pytest.mark.parametrize("kernel", sorted(KERNELS))
def test_every_index_is_covered_once(kernel: str) -> None:
    """The blocks of a call are its indices, without a gap or an overlap."""
    program, sizes = KERNELS[kernel]
    covered: dict[tuple[str, int], list[range]] = {}
    for level in flatten(program(), sizes):
        for split in level.splits:
            run = range(split.starts[0], split.starts[0] + split.lengths[0])
            covered.setdefault((split.name, split.stage), []).append(run)
    for call in program().calls:
        runs = sorted(covered[call.name, 0], key=lambda run: run.start)
        assert runs[0].start == call.starts[0]
        assert runs[-1].stop == call.starts[0] + call.lengths[0]
        assert all(above.stop == below.start for above, below in itertools.pairwise(runs))


@given(st.integers(1, 50), st.integers(1, 50), st.integers(1, 4), st.integers(0, 9))
def test_touched_splits_hold_touched_rows(size: int, start: int, scale: int, shift: int) -> None:
    """Every row that a block reads lies in a split that it is said to read."""
    length = 7
    rows = scale * (start + length) + shift + 1
    call = PatternCall(
        "c",
        PatternKind.MAP,
        "f",
        starts=(start,),
        lengths=(length,),
        reads=(Access("x", scale, shift),),
    )
    program = rowwise(call, rows=rows)
    splits = list(DataTable(program, size).touched(call.reads[0], start, length))
    held = {row for split in splits for row in range(split.start, split.start + split.rows)}
    assert {scale * i + shift for i in range(start, start + length)} <= held
    assert len(splits) == len(set(splits))


def test_independent_calls_share_a_level() -> None:
    """Two maps that touch different arrays run at the same time."""
    levels = flatten(rowwise(row_map("f", "a", "b"), row_map("g", "c", "d")), SplitSizes(50, 50))
    assert [sorted({split.name for split in level.splits}) for level in levels] == [["f", "g"]]


def test_what_is_read_is_written_above() -> None:
    """A map that reads another's result runs below it."""
    levels = flatten(rowwise(row_map("f", "a", "b"), row_map("g", "b", "c")), SplitSizes(50, 50))
    assert [level.splits[0].name for level in levels] == ["f", "g"]


def test_renaming_lets_an_overwrite_rise() -> None:
    """Writing what is read above waits, as published, unless results get copies of their own."""
    program = rowwise(row_map("f", "a", "b"), row_map("g", "c", "a"))
    assert len(flatten(program, SplitSizes(50, 50))) == 2
    assert len(flatten(program, SplitSizes(50, 50), renaming=True)) == 1


def test_a_recurrence_is_a_level_a_step() -> None:
    """Time steps depend on each other; the indices of a step do not."""
    call = PatternCall(
        "heat", PatternKind.RECURRENCE, "f", lengths=(100,), reads=(Access("u"),),
        writes=(Access("u"),), steps=4,
    )  # fmt: skip
    levels = flatten(rowwise(call), SplitSizes(25, 25))
    assert [len(level.splits) for level in levels] == [4, 4, 4, 4]


def test_a_cycle_of_patterns_is_named() -> None:
    """Patterns that call each other are refused with the way round."""
    with pytest.raises(PatternError, match="cycle: a -> b -> a"):
        PatternProgram(
            name="p",
            arrays=(),
            patterns=(
                Pattern("a", 1, nested=(Nested("b"),)),
                Pattern("b", 1, nested=(Nested("a"),)),
            ),
            calls=(),
        )


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (row_map("f", "a", "a", rows=101), "touches rows 0 to 100 of 'a', which has 100"),
        (PatternCall("f", PatternKind.MAP, "g", lengths=(100,)), "unknown pattern 'g'"),
        (PatternCall("f", PatternKind.MAP, "f", lengths=(0,)), "runs over no indices"),
        (
            PatternCall("f", PatternKind.MAP, "f", lengths=(9,), steps=2),
            "only a recurrence has steps",
        ),
    ],
)
def test_a_contradiction_is_named(call: PatternCall, message: str) -> None:
    """A call that leaves its arrays, or cannot be, is refused when the program is made."""
    with pytest.raises(PatternError, match=message):
        rowwise(call)


def test_an_undeclared_array_is_named() -> None:
    """A name that was mistyped is answered with those that look like it."""
    with pytest.raises(PatternError, match=r"undeclared array 'imag' \(did you mean image"):
        PatternProgram(
            name="p",
            arrays=(Array("image", (9,)),),
            patterns=(Pattern("f", 1),),
            calls=(PatternCall("c", PatternKind.MAP, "f", reads=(Access("imag"),)),),
        )


@pytest.mark.parametrize("kernel", sorted(KERNELS))
def test_programs_survive_json(kernel: str) -> None:
    """A program is data: what is written is read again."""
    program = KERNELS[kernel][0]()
    assert decode_program(encode_program(program)) == program
