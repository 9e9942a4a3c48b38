"""Printer of programs as text that `parse` reads back.

`write` numbers the terms with letters in the order of `statement_order.steps`: equal programs give
equal texts, which serve as keys and in diffs.
"""

from __future__ import annotations

import itertools
import json
import re
import string
from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction

from ..errors import TensorError
from ..mugraph import ACCUMULATE, LOAD, READ, Kernel, results
from ..operator import OPERATORS, ParameterValue
from ..sizes import Dim, Size
from ..terms import INPUT, LITERAL, Number, Program, Term
from .statement_order import Thread, block_steps, steps

NAME = r"[^\W0-9]\w*"
"""The pattern of a name that needs no quotes."""

KEYWORDS = frozenset(
    ("program", "kernel", "thread", "store", "return", "size", "inf", "true", "false", "_")
)
"""Words of the grammar; a name that is one of them is written in quotes."""

_WIDTH = 100
"""Columns up to which a signature stays on one line."""


def write(program: Program) -> str:
    """The program as text, one operator a line; `parse` reads back the very same terms."""
    return _ProgramPrinter(program).text()


def name_text(name: str) -> str:
    """A name as text: in quotes where it could be taken for something else."""
    plain = re.fullmatch(NAME, name) and name not in KEYWORDS
    return name if plain else json.dumps(name)


def size_text(size: Dim) -> str:
    """A size as text; raises TensorError for a name that the syntax cannot hold."""
    if isinstance(size, Size):
        for name in size.names:
            if name_text(name) != name:
                raise TensorError(f"{name!r} is no name of a size that can be written down")
    return str(size)


def number_text(number: Number) -> str:
    """A number as text: `0.5`, `1/3`, `inf` or a size."""
    if isinstance(number, float):
        return repr(number)
    if isinstance(number, Fraction):
        return f"{number.numerator}/{number.denominator}"
    return size_text(number)


def value_text(value: ParameterValue) -> str:
    """A parameter's value as text."""
    if value is None:
        return "_"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return name_text(value)
    if isinstance(value, tuple):
        return f"[{', '.join(map(value_text, value))}]"
    return number_text(value)


class _ProgramPrinter:
    """The lines of one program, and the letters given to its terms."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._names: dict[Term, str] = {
            term: name_text(term.parameter("name")) for term in program.inputs
        }
        # Letters that are operators, keywords or inputs would be read as those.
        self._fresh = _letters({*KEYWORDS, *OPERATORS, *self._names.values()})
        self._used = set(program.terms())
        self._lines: list[str] = []

    def text(self) -> str:
        """The whole text."""
        self._signature()
        for step in steps(self._program):
            if isinstance(step, Kernel):
                self._kernel(step)
            elif step.operator not in (INPUT, LITERAL):
                self._define(step, 1)
        outputs = ", ".join(map(self._operand, self._program.outputs))
        self._line(1, f"return {outputs}")
        return "\n".join([*self._lines, "}", ""])

    def _line(self, depth: int, text: str) -> None:
        self._lines.append("  " * depth + text)

    def _signature(self) -> None:
        """The first line, or one line for each input where that is too long."""
        head = f"program {name_text(self._program.name)}("
        inputs = [_input_text(term) for term in self._program.inputs]
        whole = f"{head}{', '.join(inputs)}) {{"
        if len(whole) <= _WIDTH:
            self._line(0, whole)
            return
        self._line(0, head)
        for input_ in inputs:
            self._line(1, f"{input_},")
        self._line(0, ") {")

    def _define(self, term: Term, depth: int) -> None:
        """A line that binds a term to the next letter."""
        call = _call_text(term, [self._operand(argument) for argument in term.arguments])
        self._line(depth, f"{self._name(term)} = {call}")

    def _name(self, term: Term) -> str:
        """The next free letter, for `term`."""
        name = self._names[term] = next(self._fresh)
        return name

    def _operand(self, term: Term) -> str:
        """A term as it is used: its letter, or a literal in place."""
        if term.operator is READ:
            return self._operand(term.arguments[0])
        if term.operator is LITERAL:
            value = term.parameter("value")
            # A bare name would be read as a term.
            return f"size({size_text(value)})" if isinstance(value, Size) else number_text(value)
        return self._names[term]

    def _kernel(self, kernel: Kernel) -> None:
        """A kernel with its block graph."""
        stored = results(kernel)
        names = ", ".join(self._name(term) if term in self._used else "_" for term in stored)
        head = f"kernel(grid={value_text(kernel.grid)}, range={size_text(kernel.range)})"
        self._line(1, f"{names} = {head} {{")
        for step in block_steps(kernel):
            if isinstance(step, Thread):
                self._thread(step)
            else:
                self._define(step, 2)
        for tile, maps in kernel.outputs:
            self._line(2, f"store({', '.join([self._operand(tile), *_map_text(maps)])})")
        self._line(1, "}")

    def _thread(self, thread: Thread) -> None:
        """The terms of a thread; reads are implicit."""
        self._line(2, "thread {")
        for term in thread.terms:
            self._define(term, 3)
        self._line(2, "}")


def _input_text(term: Term) -> str:
    """An input as text: `X: f32[row=8, 4]`."""
    axes = [
        size_text(size) if label is None else f"{name_text(label)}={size_text(size)}"
        for size, label in zip(term.shape, term.parameter("labels"), strict=True)
    ]
    return f"{name_text(term.parameter('name'))}: {term.dtype}[{', '.join(axes)}]"


def _call_text(term: Term, operands: Sequence[str]) -> str:
    """An operator applied to operands, with its parameters."""
    return f"{term.operator.name}({', '.join([*operands, *_parameter_texts(term)])})"


def _parameter_texts(term: Term) -> Iterable[str]:
    """Parameters by name, without defaults and what the kernel around implies."""
    if term.operator is LOAD:
        loop = term.parameter("loop")
        return [*_map_text(term.parameter("map")), *([] if loop is None else [f"loop={loop}"])]
    if term.operator is ACCUMULATE:
        kind, columns = term.parameter("kind"), term.parameter("columns")
        kinds = [] if kind == "none" else [f"kind={kind}"]
        return [*kinds, *([f"columns={size_text(columns)}"] if kind == "redtox" else [])]
    return [
        f"{name}={value_text(value)}"
        for parameter, (name, value) in zip(term.operator.parameters, term.parameters, strict=True)
        if parameter.required or value != parameter.default
    ]


def _map_text(maps: Sequence[int | None]) -> list[str]:
    """A map as a parameter; nothing where no grid axis splits."""
    if all(split is None for split in maps):
        return []
    return [f"map={value_text(tuple(maps))}"]


def _letters(reserved: set[str]) -> Iterator[str]:
    """`a` to `z`, `aa`, `ab` and so on, without `reserved` names."""
    for length in itertools.count(1):
        for letters in itertools.product(string.ascii_lowercase, repeat=length):
            name = "".join(letters)
            if name not in reserved:
                yield name
