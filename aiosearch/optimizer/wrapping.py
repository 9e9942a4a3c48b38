"""A whole function as text: what runs in each of its places, and how that goes together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, count
from typing import Any

import jax
import numpy as np
from jax.extend.core import Literal

from ..capture.names import parameter, title
from ..capture.values import element_type
from ..tensor import Program
from .answers import Answer
from .emit import RESERVED, emit, free_name, module, names
from .errors import OptimizeError
from .folding import WIDTH
from .renaming import with_parameters
from .splice.cutting import Cut
from .splice.inlining import Atom, aval
from .splice.pieces import Piece, Subject, read
from .trees import spelled, way

WRITTEN = 16
"""An array that is closed over stands in the text where it has no more elements than this."""


@dataclass(frozen=True)
class Part:
    """A function of the text that stands in some places of the whole."""

    name: str
    source: str
    answer: Answer | None
    """Where it is not as it was written."""


def wrapped(cut: Cut, kept: Mapping[Subject, Answer]) -> tuple[list[Part], str]:
    """The parts of a function, and a function of them that takes and gives what it does.

    Raises OptimizeError where something in it has no text.
    """
    return _Wrapping(cut, kept).made()


@dataclass
class _Wrapping:
    cut: Cut
    kept: Mapping[Subject, Answer]
    parts: dict[Subject, Part] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)
    texts: dict[Any, str] = field(default_factory=dict)
    """What is known so far, by variable."""

    def __post_init__(self) -> None:
        self.numbers = count(1)
        self.taken = set(RESERVED)
        self.name = free_name(title(self.cut.function, None), self.taken)

    def made(self) -> tuple[list[Part], str]:
        parameters = list(self.parameters())
        for piece in _used(self.cut):
            self.place(piece)
        results = [self.result(one) for one in self.cut.flat.outputs]
        first, *others = spelled(self.cut.tree, results)
        self.lines += [f"return {first}", *(f"       {line}" for line in others)]
        head = _called(f"def {self.name}", parameters)
        head[-1] += ":"
        text = "\n".join([*head, *(f"    {one}" for one in self.lines)])
        return [*self.parts.values()], with_parameters(text, self.name, [*self.wanted()])

    def wanted(self) -> Iterator[str]:
        """What the function calls them, which may be what is a name of Python's too."""
        call = self.cut.call
        args, kwargs = jax.tree_util.tree_unflatten(call.tree, self.cut.flat.inputs)
        yield from (
            parameter(call.function, at) for at in range(len(args)) if at not in call.static
        )
        yield from (name for name in kwargs if name not in call.static)

    def parameters(self) -> Iterator[str]:
        """Those of the function that are no static ones."""
        call = self.cut.call
        args, kwargs = jax.tree_util.tree_unflatten(call.tree, self.cut.flat.inputs)
        for at, value in enumerate(args):
            if at not in call.static:
                yield self.parameter(parameter(call.function, at), value)
        named = [name for name in kwargs if name not in call.static]
        if named:
            yield "*"
        for name in named:
            yield self.parameter(name, kwargs[name])

    def parameter(self, wanted: str, value: Any) -> str:
        """The name of a parameter; what is in it has its text from then on."""
        name = free_name(wanted, self.taken)
        for path, var in jax.tree_util.tree_flatten_with_path(value)[0]:
            self.texts[var] = f"{name}{way(path)}"
        return name

    def place(self, piece: Piece) -> None:
        """A line that calls what stands in the place of a piece."""
        part = self.part(piece)
        given = [self.text(var) for var in piece.inputs]
        made = [free_name(f"y{next(self.numbers)}", self.taken) for _ in piece.outputs]
        self.texts.update(zip(piece.outputs, made, strict=True))
        self.lines += _called(f"{', '.join(made)} = {part.name}", given)

    def part(self, piece: Piece) -> Part:
        program = piece.program or self.read(piece)
        subject = piece.subject or Subject(program)
        if subject not in self.parts:
            answer = self.kept.get(subject)
            name = part_name(program, self.taken)
            if answer is not None:
                answer = answer.renamed(name)
            source = emit(program).replace(f"def {names(program)[0]}(", f"def {name}(", 1)
            self.parts[subject] = Part(name, answer.source if answer else source, answer)
        return self.parts[subject]

    def read(self, piece: Piece) -> Program:
        """What stands between the programs, where it can be said; raises OptimizeError."""
        own = {id(equation) for equation in piece.jaxpr.eqns}
        refusals = [step.refusal for step in self.cut.steps if id(step.equation) in own]
        told = next(filter(None, refusals), "")
        if told:
            raise OptimizeError(f"{told} has no text")
        found = read(piece, [f"x{at}" for at in range(len(piece.inputs))], f"{self.name}_rest")
        if found is None or not _gives(found, piece):
            raise OptimizeError("what is between its parts cannot be read as a whole")
        return found

    def text(self, var: Any) -> str:
        """What stands for a value; an array that is closed over stands for itself."""
        if var not in self.texts:
            known = aval(var)
            if known.size > WRITTEN or not isinstance(known.dtype, np.dtype):
                raise OptimizeError(f"it closes over an array, {known.str_short()}")
            self.texts[var] = _array(np.asarray(self.cut.flat.constants[var], known.dtype))
        return self.texts[var]

    def result(self, atom: Atom) -> str:
        if isinstance(atom, Literal):
            array = np.asarray(atom.val, aval(atom).dtype)
            weak = f"jnp.asarray({_numbers(array.tolist())})"
            return weak if aval(atom).weak_type else _array(array)
        own = self.text(atom)
        return f"jnp.asarray({own})" if atom in self.cut.flat.inputs else own


def _used(cut: Cut) -> list[Piece]:
    """The pieces that the results need: what a program needs beforehand, it has itself."""
    wanted: set[Any] = {one for one in cut.flat.outputs if not isinstance(one, Literal)}
    found: list[Piece] = []
    for piece in reversed(cut.pieces):
        if wanted.intersection(piece.outputs) or piece.jaxpr.effects:
            wanted.update(piece.inputs)
            found.append(piece)
    return found[::-1]


def part_name(program: Program, taken: set[str]) -> str:
    """The program's own name, as far as it is free; from then on it is taken."""
    own, _ = names(program)
    tries = chain([own], (f"{own}_{number}" for number in count(1)))
    name = next(one for one in tries if one not in taken)
    taken.add(name)
    return name


def _called(function: str, given: Sequence[str]) -> list[str]:
    """A call or a definition, each of what it is given on a line of its own where it is long."""
    line = f"{function}({', '.join(given)})"
    if len(line) + 4 <= WIDTH:
        return [line]
    return [f"{function}(", *(f"    {one}," for one in given), ")"]


def _gives(program: Program, piece: Piece) -> bool:
    """Whether a program that was read gives the types that the piece does."""
    wanted = [element_type(aval(one).dtype) for one in piece.outputs]
    return [one.dtype for one in program.outputs] == wanted


def _array(array: Any) -> str:
    """A small array, each number of which is read back as it is."""
    name = "bool_" if array.dtype == np.bool_ else array.dtype
    return f"jnp.asarray({_numbers(array.tolist())}, jnp.{name})"


def _numbers(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_numbers, value))}]"
    return repr(value) if np.isfinite(value) else f'{type(value).__name__}("{value}")'


def together(parts: Sequence[Part], wrapper: str) -> str:
    """All of it as one module."""
    texts = [f"{_comments(part)}\n{_bare(part.source)}\n" for part in parts]
    return module("\n\n".join([*texts, f"{wrapper}\n"]))


def _comments(part: Part) -> str:
    return part.answer.comments() if part.answer else f"# {part.name} as it was written"


def _bare(source: str) -> str:
    return source[source.index("def ") :].strip()
