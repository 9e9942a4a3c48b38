"""Bit-vector superoptimization: every short program that computes what a reference computes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import combinations_with_replacement, product
from random import Random
from typing import TYPE_CHECKING

from msgspec import Struct

from ..problem import Obligation
from .bitvectors.hackers_delight import TASKS, HackersDelightTask
from .bitvectors.instructions import OPERATORS, Run, WordOperator
from .bitvectors.programs import Instruction, StraightLineProgram

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

PIECE = 3
"""Bytes of an instruction in a prefix: operator, first operand, last operand."""


RLIMIT = 20_000_000
"""What z3 may spend on a question. Of those sampled on the ladder, one in 1,000 divisions took over
5,000,000; the others stayed below 300,000."""

WIDTHS = (8, 16, 32)
"""The widths at which the reference programs are right."""


class Prefix(Struct, frozen=True, array_like=True):
    """The first instructions of a program, and every value so far on each test vector.

    A complete program carries no values: they agree with the reference.
    """

    code: bytes
    rows: tuple[tuple[int, ...], ...]


class FoundProgram(Struct, frozen=True):
    """A program proved equal to the reference of a task, as `read_program` reads it."""

    task: str
    width: int
    text: str


class _Choice(Struct, frozen=True):
    """One instruction that may come next, ready to run."""

    piece: bytes
    run: Run
    first: int
    last: int
    uses: int
    """The bit mask of the two operands."""


@dataclass(frozen=True)
class Superopt:
    """Enumerates the straight-line programs of exactly `length` instructions for a task.

    A program that agrees with the reference on `tests` random vectors becomes a node whose
    obligation asks z3 whether it agrees on all inputs; a proved one is a solution. Fewer tests mean
    more questions, and more that are refuted. Every instruction's result is used, operands of a
    commutative operator are ordered, and so are neighbouring instructions that do not depend on
    each other, so that few programs are enumerated twice; those that are ask the same question.

    `distinct` drops an instruction whose value already exists on all test vectors: far fewer
    programs, but with few tests also some that are right.
    """

    task: str = "P1"
    length: int = 2
    width: int = 32
    tests: int = 2
    seed: int = 1
    distinct: bool = False

    def __post_init__(self) -> None:
        if self.task not in TASKS:
            raise ValueError(f"no task {self.task!r}: there are {', '.join(TASKS)}")
        if self.width not in WIDTHS:
            raise ValueError(f"the width is one of {WIDTHS}, not {self.width}")
        if self.length < 1:
            raise ValueError(f"a program has at least one instruction, not {self.length}")

    def root(self) -> Prefix:
        """The empty program."""
        return Prefix(b"", tuple((*vector, *self._constants) for vector in self._vectors))

    def expand(self, node: Prefix) -> list[Prefix] | tuple[()]:
        """The prefixes one instruction longer than `node`; the last instruction has to fit the
        tests.
        """
        missing = self.length - len(node.code) // PIECE
        if missing > 1:
            return self._extended(node, missing - 1)
        return self._completed(node) if missing else ()

    def solutions(self, node: Prefix) -> tuple[FoundProgram, ...]:
        """The program, where it is complete: its obligation decides whether it counts."""
        if not self._complete(node):
            return ()
        return (FoundProgram(self.task, self.width, self.program(node).normalised().text()),)

    def obligation(self, node: Prefix) -> Obligation | None:
        """Asks whether a complete program differs from the reference on some input."""
        if not self._complete(node):
            return None
        program = self.program(node).normalised()
        goal = f"(assert (distinct {self._reference} {program.term(self.width)}))"
        key = f"{self.task}/{self.width}: {program.text()}"
        return Obligation(self._declarations + goal, "", "QF_BV", RLIMIT, key.encode())

    def program(self, node: Prefix) -> StraightLineProgram:
        """The instructions of `node`."""
        code = node.code
        steps = [
            Instruction(operator.name, tuple(code[at + 1 : at + 1 + operator.arity]))
            for at in range(0, len(code), PIECE)
            for operator in (self._operators[code[at]],)
        ]
        return StraightLineProgram(self._task.inputs, self._constants, tuple(steps))

    def _complete(self, node: Prefix) -> bool:
        return len(node.code) == PIECE * self.length

    def _extended(self, node: Prefix, missing: int) -> list[Prefix]:
        code, rows = node.code, node.rows
        written, newest, unused = _pieces(code), self._newest(code), self._unused(code)
        children = []
        for choice in self._choices[len(code) // PIECE]:
            piece, uses = choice.piece, choice.uses
            # Two instructions that do not depend on each other may stand in either order: only the
            # ascending one is kept. An instruction that stands there already computes nothing new.
            if (not uses & newest and piece < code[-PIECE:]) or piece in written:
                continue
            # An instruction to come takes in two results at most, and adds its own.
            if (unused & ~uses).bit_count() > missing:
                continue
            run, first, last = choice.run, choice.first, choice.last
            values = tuple([run(row[first], row[last]) for row in rows])
            if self.distinct and values in zip(*rows, strict=True):
                continue
            longer = tuple([(*row, value) for row, value in zip(rows, values, strict=True)])
            children.append(Prefix(code + piece, longer))
        return children

    def _completed(self, node: Prefix) -> list[Prefix]:
        code = node.code
        fitting = self._closing[self._unused(code)]
        for row, target in zip(node.rows, self._targets, strict=True):
            # Vector by vector, so that most candidates are gone after the first one.
            fitting = [c for c in fitting if c.run(row[c.first], row[c.last]) == target]
        return [Prefix(code + choice.piece, ()) for choice in fitting]

    def _newest(self, code: bytes) -> int:
        return 1 << self._given + len(code) // PIECE - 1 if code else 0

    def _unused(self, code: bytes) -> int:
        """A bit mask of value numbers: the results that no instruction takes in."""
        unused = ((1 << len(code) // PIECE) - 1) << self._given
        for at in range(0, len(code), PIECE):
            unused &= ~(1 << code[at + 1] | 1 << code[at + 2])
        return unused

    @cached_property
    def _task(self) -> HackersDelightTask:
        return TASKS[self.task]

    @cached_property
    def _specification(self) -> StraightLineProgram:
        return self._task.program(self.width)

    @cached_property
    def _constants(self) -> tuple[int, ...]:
        return self._specification.constants

    @cached_property
    def _given(self) -> int:
        return len(self._task.inputs) + len(self._constants)

    @cached_property
    def _operators(self) -> tuple[WordOperator, ...]:
        return tuple(OPERATORS[name] for name in self._task.operators)

    @cached_property
    def _vectors(self) -> tuple[tuple[int, ...], ...]:
        random = Random(self.seed)
        vector = [range(len(self._task.inputs))] * self.tests
        return tuple(tuple(random.getrandbits(self.width) for _ in inputs) for inputs in vector)

    @cached_property
    def _targets(self) -> tuple[int, ...]:
        return tuple(self._specification.run(self.width, vector) for vector in self._vectors)

    @cached_property
    def _choices(self) -> tuple[tuple[_Choice, ...], ...]:
        """Every instruction over the values that a prefix of each length has."""
        return tuple(tuple(self._over(self._given + done)) for done in range(self.length))

    def _over(self, values: int) -> Iterator[_Choice]:
        for number, operator in enumerate(self._operators):
            run = operator.meaning(self.width)
            for first, last in _operands(operator, values):
                piece = bytes((number, first, last))
                yield _Choice(piece, run, first, last, 1 << first | 1 << last)

    @cached_property
    def _closing(self) -> Mapping[int, list[_Choice]]:
        """The last instructions that leave no result unused, by the results unused before."""
        newest = self._newest(bytes(PIECE * (self.length - 1)))
        # The last instruction takes in two values at most: the newest, and one more that is unused.
        # With more of them unused no program can end.
        older = [0, *(1 << self._given + done for done in range(self.length - 2))]
        return {
            newest | unused: [c for c in self._choices[-1] if not (newest | unused) & ~c.uses]
            for unused in older
        }

    @cached_property
    def _reference(self) -> str:
        return self._specification.term(self.width)

    @cached_property
    def _declarations(self) -> str:
        return "".join(f"(declare-const {x} (_ BitVec {self.width}))" for x in self._task.inputs)


def _pieces(code: bytes) -> set[bytes]:
    return {code[at : at + PIECE] for at in range(0, len(code), PIECE)}


def _operands(operator: WordOperator, values: int) -> Iterable[tuple[int, int]]:
    if operator.arity == 1:
        return ((value, value) for value in range(values))
    if operator.commutative:
        return combinations_with_replacement(range(values), 2)
    return product(range(values), range(values))
