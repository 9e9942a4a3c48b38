"""Writes programs as JAX functions that stand alone."""

from __future__ import annotations

import builtins
import keyword
import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count
from string import ascii_lowercase

from ..tensor import DType, Program, Term, apply
from ..tensor.terms import INPUT, LITERAL
from .spelling import HALF, Choice, Spelling, products
from .wording import JAX_TYPES, Binds, Piece, matmul, number, say

_WIDTH = 96
_INLINE = 40
"""Longer expressions get a name of their own."""
_TAKEN = {"jax", "jnp", "lax"} | set(dir(builtins)) | set(keyword.kwlist)


def emit(program: Program, spelling: Spelling = Spelling()) -> str:  # noqa: B008 - it is frozen
    """A module with one function of the program's name, which takes and gives what it does."""
    return _Module(program, spelling).text()


def names(program: Program) -> tuple[str, list[str]]:
    """What the function and its parameters are called."""
    taken: set[str] = set(_TAKEN)
    function = _name(program.name, taken)
    return function, [_name(term.parameter("name"), taken) for term in program.inputs]


def _name(wanted: str, taken: set[str]) -> str:
    """A name that Python allows and that is free."""
    found = re.sub(r"\W", "_", wanted, flags=re.ASCII).strip("_") or "x"
    found = f"x{found}" if found[0].isdigit() else found
    tries = (f"{found}{number or '_'}" for number in count())
    while found in taken:
        found = next(tries)
    taken.add(found)
    return found


def _letters(taken: set[str]) -> Iterator[str]:
    for turn in count():
        for letter in ascii_lowercase:
            name = f"{letter}{turn or ''}"
            if name not in taken and name != "l":
                yield name


@dataclass(frozen=True, slots=True)
class _Form:
    """How a term is written: what it is written from, and the expression."""

    operands: tuple[Term, ...]
    write: Callable[..., Piece]


class _Module:
    def __init__(self, program: Program, spelling: Spelling) -> None:
        self._program = program
        self._name, self._inputs = names(program)
        self._chosen = {term: spelling.of(number) for number, term in enumerate(products(program))}
        self._free = _letters({self._name, *self._inputs, *_TAKEN})
        self._pieces: dict[Term, Piece] = {
            term: Piece(name) for term, name in zip(program.inputs, self._inputs, strict=True)
        }
        self._lines: list[str] = []

    def text(self) -> str:
        forms = self._forms()
        uses = Counter(operand for form in forms.values() for operand in form.operands)
        uses.update(self._program.outputs)
        for term, form in forms.items():
            self._define(term, form, uses[term])
        outputs = ", ".join(self._output(term) for term in self._program.outputs)
        body = "\n".join(f"    {line}" for line in [*self._lines, f"return {outputs}"])
        head = f"def {self._name}({', '.join(self._inputs)}):"
        if len(head) > _WIDTH:
            inner = "".join(f"    {name},\n" for name in self._inputs)
            head = f"def {self._name}(\n{inner}):"
        function = f"{head}\n{body}\n"
        return "\n".join([*_imports(function), "", "", function]).lstrip()

    def _forms(self) -> dict[Term, _Form]:
        """Every term that is written, operands first."""
        found: dict[Term, _Form] = {}
        stack = [(term, False) for term in reversed(self._program.outputs)]
        while stack:
            term, ready = stack.pop()
            if term in found or term.operator is INPUT or term.operator is LITERAL:
                continue
            form = self._form(term)
            if ready:
                found[term] = form
                continue
            stack.append((term, True))
            stack.extend((operand, False) for operand in reversed(form.operands))
        return found

    def _form(self, term: Term) -> _Form:
        if term.operator.name == "matmul":
            return _product(term, self._chosen[term])
        if term.operator.name == "rms_norm":
            return _Form((_spelled_out(term),), lambda found: found)
        if term.operator.name == "reshape":
            inner = term.arguments[0]
            if inner.operator.name == "matmul" and len(term.shape) == 1:
                found = _vector_product(inner, self._chosen[inner])
                if found is not None:
                    return found
        return _Form(term.arguments, lambda *operands: say(term, operands))

    def _define(self, term: Term, form: _Form, uses: int) -> None:
        """Names a term's value, or keeps its expression for the one place where it is used."""
        whole = any(operand.dtype is not DType.WEAK for operand in form.operands)
        operands = [self._operand(operand, whole) for operand in form.operands]
        piece = form.write(*operands)
        if uses > 1 or len(piece.text) > _INLINE:
            name = next(self._free)
            self._lines.extend(_folded(f"{name} = {piece.text}"))
            piece = Piece(name)
        self._pieces[term] = piece

    def _operand(self, term: Term, whole: bool) -> Piece:
        if term.operator is LITERAL:
            return number(term.parameter("value"), whole)
        return self._pieces[term]

    def _output(self, term: Term) -> str:
        if term.operator is LITERAL:
            return f"jnp.asarray({number(term.parameter('value'), False).text})"
        return self._pieces[term].text


def _spelled_out(term: Term) -> Term:
    """The norm by its parts; half types are widened for it."""
    x = term.arguments[0]
    wide = apply("cast", x, dtype="f32") if x.dtype in HALF else x
    mean = apply("mean", apply("square", wide), axes=(len(x.shape) - 1,), keep=True)
    found = wide / apply("sqrt", mean)
    return found if wide is x else apply("cast", found, dtype=x.dtype)


def _product(term: Term, chosen: frozenset[Choice]) -> _Form:
    """A product of matrices, as it was chosen to be written."""
    left, right = term.arguments
    if Choice.TURNED in chosen:
        return _turned(left, right, chosen)
    narrow = _narrow(left), _narrow(right)
    if narrow[0] is not None and narrow[1] is not None and narrow[0].dtype is narrow[1].dtype:
        return _Form((narrow[0], narrow[1]), lambda x, y: matmul(x, y, wide=True))

    def write(x: Piece, y: Piece) -> Piece:
        if Choice.TWO_ROWS in chosen:
            widths = ", ".join(["(0, 0)"] * (len(left.shape) - 2) + ["(0, 1)", "(0, 0)"])
            x = Piece(f"jnp.pad({x.text}, ({widths}))")
        found = matmul(x, y, wide=Choice.ACCUMULATE in chosen)
        if Choice.TWO_ROWS in chosen:
            found = Piece(f"{found.atom}[..., :1, :]")
        return _rounded(found, term.dtype, chosen)

    return _Form((left, right), write)


def _rounded(found: Piece, dtype: DType, chosen: frozenset[Choice]) -> Piece:
    if Choice.ACCUMULATE not in chosen:
        return found
    return Piece(f"{found.atom}.astype({JAX_TYPES[dtype]})")


def _narrow(term: Term) -> Term | None:
    """What is widened from a half type: its products are exact in 32 bits."""
    if term.operator.name == "cast" and term.dtype is DType.F32:
        inner = term.arguments[0]
        return inner if inner.dtype in HALF else None
    return None


def _turned(left: Term, right: Term, chosen: frozenset[Choice]) -> _Form:
    operands = tuple(_unturned(side) or side for side in (right, left))

    def write(x: Piece, y: Piece) -> Piece:
        x, y = (
            piece if _unturned(side) is not None else Piece(f"{piece.atom}.mT")
            for side, piece in ((right, x), (left, y))
        )
        found = matmul(x, y, wide=Choice.ACCUMULATE in chosen)
        return _rounded(Piece(f"{found.atom}.mT"), left.dtype, chosen)

    return _Form(operands, write)


def _unturned(term: Term) -> Term | None:
    """What a term is the transpose of."""
    rank = len(term.shape)
    order = (*range(rank - 2), rank - 1, rank - 2)
    if term.operator.name == "transpose" and term.parameter("axes") == order:
        return term.arguments[0]
    return None


def _vector_product(term: Term, chosen: frozenset[Choice]) -> _Form | None:
    """A product with a vector, whose axis of size one is put in and taken out again."""
    left, right = term.arguments
    if chosen - {Choice.ACCUMULATE} or len(term.shape) != 2:
        return None
    row, column = _vector(left, 0), _vector(right, 1)
    if row is None and column is None:
        return None

    def write(x: Piece, y: Piece) -> Piece:
        found = matmul(x, y, wide=Choice.ACCUMULATE in chosen)
        return _rounded(found, term.dtype, chosen)

    if row is not None and column is not None:
        return None
    return _Form((row or left, column or right), write)


def _vector(term: Term, axis: int) -> Term | None:
    """The vector that a row (axis 0 put in) or a column (axis 1) is made of."""
    if term.operator.name == "reshape" and term.shape[axis] == 1:
        inner = term.arguments[0]
        return inner if len(inner.shape) == 1 and inner.operator is not LITERAL else None
    return None


def _folded(line: str, indent: int = 4) -> list[str]:
    """A line that is too long, opened at its widest outer brackets and cut at the commas in them."""
    if len(line) + indent <= _WIDTH:
        return [line]
    opened, closed = _brackets(line)
    if opened < 0:
        return [line]
    lines, parts = [line[: opened + 1]], list(_parts(line[opened + 1 : closed]))
    called = line[opened] == "[" or line[opened - 1 : opened].isidentifier()
    comma = "," if called or len(parts) > 1 else ""
    for part in parts:
        *before, last = _folded(part, indent + 4)
        lines.extend(f"    {one}" for one in [*before, f"{last}{comma}"])
    return [*lines, line[closed:]]


def _brackets(line: str) -> tuple[int, int]:
    """Where the widest outer brackets open and close; -1 where there are none."""
    depth, opened, found = 0, -1, (-1, -1)
    for at, letter in enumerate(line):
        if letter in "([":
            opened = at if not depth else opened
            depth += 1
        elif letter in ")]":
            depth -= 1
            if not depth and at - opened > max(1, found[1] - found[0]):
                found = (opened, at)
    return found


def _parts(text: str) -> Iterator[str]:
    depth, start = 0, 0
    for at, letter in enumerate(text):
        depth += (letter in "([") - (letter in ")]")
        if letter == "," and not depth:
            yield text[start:at].strip()
            start = at + 1
    if text[start:].strip():
        yield text[start:].strip()


def _imports(function: str) -> Iterator[str]:
    for module, line in (
        (r"\bjax\.", "import jax"),
        (r"\bjnp\.", "import jax.numpy as jnp"),
        (r"\blax\.", "from jax import lax"),
    ):
        if re.search(module, function):
            yield line


__all__ = ["Binds", "emit", "names"]
