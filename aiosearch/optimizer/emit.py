"""Writes programs as JAX functions that stand alone."""

from __future__ import annotations

import builtins
import keyword
import re
from collections import Counter
from collections.abc import Iterator
from itertools import count
from string import ascii_lowercase

from ..codegen.pallas import dialect
from ..tensor import DType, Program, Term
from ..tensor.terms import INPUT, LITERAL
from .folding import WIDTH, folded
from .forms import Form, product, spelled_out, vector_product
from .pieces import Piece, number
from .spelling import Spelling, products
from .wording import say

_INLINE = 40
"""Longer expressions get a name of their own."""

RESERVED = frozenset({"jax", "jnp", "lax", *dir(builtins), *keyword.kwlist})
"""Names that mean something in what is written."""


def emit(program: Program, spelling: Spelling = Spelling()) -> str:  # noqa: B008 - it is frozen
    """A module with one function of the program's name, which takes and gives what it does."""
    return _Module(program, spelling).text()


def emit_pack(program: Program) -> str:
    """The same of a function that gives a tuple, whatever is in it."""
    return _Module(program, Spelling(), always_tuple=True).text()


def merged(*sources: str) -> str:
    """One module with the functions of several."""
    return module("\n\n".join(source[source.index("def ") :] for source in sources))


def names(program: Program) -> tuple[str, list[str]]:
    """What the function and its parameters are called."""
    taken: set[str] = set(RESERVED)
    function = free_name(program.name, taken)
    return function, [free_name(term.parameter("name"), taken) for term in program.inputs]


def free_name(wanted: str, taken: set[str]) -> str:
    """A name that Python allows and that is not taken, which it is from then on."""
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


class _Module:
    def __init__(self, program: Program, spelling: Spelling, *, always_tuple: bool = False) -> None:
        self._program = program
        self._always_tuple = always_tuple
        self._name, self._inputs = names(program)
        self._chosen = {term: spelling.of(number) for number, term in enumerate(products(program))}
        self._free = _letters({self._name, *self._inputs, *RESERVED})
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
        if self._always_tuple and len(self._program.outputs) == 1:
            outputs = f"({outputs},)"
        body = "\n".join(f"    {line}" for line in [*self._lines, f"return {outputs}"])
        head = f"def {self._name}({', '.join(self._inputs)}):"
        if len(head) > WIDTH:
            inner = "".join(f"    {name},\n" for name in self._inputs)
            head = f"def {self._name}(\n{inner}):"
        return module(f"{head}\n{body}\n")

    def _forms(self) -> dict[Term, Form]:
        """Every term that is written, operands first."""
        found: dict[Term, Form] = {}
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

    def _form(self, term: Term) -> Form:
        if term.operator.name == "matmul":
            return product(term, self._chosen[term])
        if term.operator.name == "rms_norm":
            return Form((spelled_out(term),), lambda found: found)
        if term.operator.name == "reshape":
            inner = term.arguments[0]
            if inner.operator.name == "matmul" and len(term.shape) == 1:
                found = vector_product(inner, self._chosen[inner])
                if found is not None:
                    return found
        return Form(term.arguments, lambda *operands: say(term, operands))

    def _define(self, term: Term, form: Form, uses: int) -> None:
        """Names a term's value, or keeps its expression for the one place where it is used."""
        whole = any(operand.dtype is not DType.WEAK for operand in form.operands)
        operands = [self._operand(operand, whole) for operand in form.operands]
        piece = form.write(*operands)
        if uses > 1 or len(piece.text) > _INLINE:
            name = next(self._free)
            self._lines.extend(folded(f"{name} = {piece.text}"))
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


def module(functions: str) -> str:
    """A module of these functions, with the imports that they need."""
    return "\n".join([*_imports(functions), "", "", functions]).lstrip()


def _imports(function: str) -> Iterator[str]:
    for module, line in (
        (r"\bjax\.", "import jax"),
        (r"\bjnp\.", "import jax.numpy as jnp"),
        (r"\blax\.", "from jax import lax"),
        (r"\bpl\.", "from jax.experimental import pallas as pl"),
        (rf"\b{dialect.ALIAS}\.", dialect.IMPORT),
    ):
        if re.search(module, function):
            yield line
