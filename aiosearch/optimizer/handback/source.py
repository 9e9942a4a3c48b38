"""The optimized function as source text: what runs in each of its places, and how pytrees go in and
out.

Example: of `def loss(params, x)`, cut into two programs of which the second is replaced, the text
has `def loss_1` as it was written, the answer as `def loss_2`, and

    def loss(params, x):
        y1 = loss_1(params["w"], x)
        y2 = loss_2(y1)
        return y2

`wrapped` writes that. A tree whose type is not Python's own, or a large array that is closed over,
has no text; then `source` gives the replaced parts alone, below comments that say where they
belong.
"""

from __future__ import annotations

import re
from ast import literal_eval
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain, count
from pprint import pformat
from typing import Any

import jax
import numpy as np
from jax.extend.core import Literal, Var
from jax.extend.source_info_util import summarize
from jax.tree_util import DictKey, GetAttrKey, PyTreeDef, SequenceKey

from ...capture.jax_types import Atom, NumpyArray, PyTree, aval
from ...capture.names import parameter, title
from ...capture.values import element_type
from ...errors import AiosearchError
from ...tensor import Program
from ..candidates.jax_source import RESERVED, WIDTH, emit, free_name, module, names, with_parameters
from ..errors import OptimizeError
from ..outcomes.answer import Answer
from ..outcomes.plain_fallback import HELPER
from ..trace.pieces import Piece, Subject, read_piece
from ..trace.traced import CutFunction


@dataclass(frozen=True)
class _Text:
    """A text that pretty-printing leaves as it is."""

    text: str

    def __repr__(self) -> str:
        return self.text


def spelled(tree: PyTreeDef, texts: Sequence[str]) -> list[str]:
    """A tree with these texts for its leaves, in lines.

    Raises `OptimizeError` where something in it is of a type that is not Python's own.
    """
    rebuilt = jax.tree_util.tree_unflatten(tree, map(_Text, texts))
    _demand(rebuilt)
    return pformat(rebuilt, width=WIDTH - 12, compact=True, sort_dicts=False).splitlines()


def _demand(node: PyTree) -> None:
    # Not `isinstance`: a subclass would be printed as a plain dict, and come back as one.
    if type(node) is dict:
        for key, value in node.items():
            _demand_key(key)
            _demand(value)
    elif type(node) in (list, tuple):
        for value in node:
            _demand(value)
    elif node is not None and not isinstance(node, _Text):
        type_name = type(node).__qualname__
        raise OptimizeError(
            f"a part of its result is of the type {type_name}, and no dict, list or tuple"
        )


def _demand_key(key: object) -> None:
    with suppress(ValueError, SyntaxError):
        if literal_eval(repr(key)) == key:
            return
    raise OptimizeError(f"{key!r} is a key of a dict, and no text says it")


def path_expression(path: Sequence[object]) -> str:
    """How the leaf at the end of a path is taken from its argument: `["w"][0]`."""
    return "".join(map(_step, path))


def _step(step: object) -> str:
    match step:
        case SequenceKey(idx=at):
            return f"[{at}]"
        case DictKey(key=key):
            _demand_key(key)
            return f"[{key!r}]"
        case GetAttrKey(name=name):
            return f".{name}"
    raise OptimizeError(f"it takes a tree whose leaf {step} only its own code finds")


WRITTEN = 16
"""An array that is closed over stands in the text where it has no more elements than this."""


@dataclass(frozen=True)
class SourcePart:
    """A function of the text that stands in some places of the whole."""

    name: str
    source: str
    answer: Answer | None
    """What replaces it; `None` where it is as it was written."""


def wrapped(cut: CutFunction, answers: Mapping[Subject, Answer]) -> tuple[list[SourcePart], str]:
    """The parts of a function, and a function of them that takes and gives what it does.

    Raises `OptimizeError` where something in it has no text.
    """
    return _Wrapping(cut, answers).written()


@dataclass
class _Wrapping:
    cut: CutFunction
    answers: Mapping[Subject, Answer]
    parts: dict[Subject, SourcePart] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)
    texts: dict[Var, str] = field(default_factory=dict)
    """The text of each value that is known so far."""

    def __post_init__(self) -> None:
        self.numbers = count(1)
        self.taken = set(RESERVED)
        self.name = free_name(title(self.cut.function, None), self.taken)

    def written(self) -> tuple[list[SourcePart], str]:
        parameters = list(self.parameters())
        for piece in _used(self.cut):
            self.place(piece)
        results = [self.result(output) for output in self.cut.flat.outputs]
        # A tree may need several lines: all but the first are aligned behind `return`.
        first, *continuation = spelled(self.cut.tree, results)
        self.lines += [f"return {first}", *(f"       {line}" for line in continuation)]
        head = _called(f"def {self.name}", parameters)
        head[-1] += ":"
        text = "\n".join([*head, *(f"    {line}" for line in self.lines)])
        return [*self.parts.values()], with_parameters(text, self.name, [*self.parameter_names()])

    def parameter_names(self) -> Iterator[str]:
        """What the function calls its parameters, which may be what is a name of Python's too."""
        call = self.cut.call
        args, kwargs = jax.tree_util.tree_unflatten(call.tree, self.cut.flat.inputs)
        yield from (
            parameter(call.function, at) for at in range(len(args)) if at not in call.static
        )
        yield from (name for name in kwargs if name not in call.static)

    def parameters(self) -> Iterator[str]:
        """Parameters of the text: those of the function, less static ones."""
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

    def parameter(self, preferred: str, value: Any) -> str:
        """The name of a parameter; what is in it has its text in `texts` from then on."""
        name = free_name(preferred, self.taken)
        for path, var in jax.tree_util.tree_flatten_with_path(value)[0]:
            self.texts[var] = f"{name}{path_expression(path)}"
        return name

    def place(self, piece: Piece) -> None:
        """A line that calls what stands in the place of a piece."""
        part = self.part(piece)
        arguments = [self.text(var) for var in piece.inputs]
        results = [free_name(f"y{next(self.numbers)}", self.taken) for _ in piece.outputs]
        self.texts.update(zip(piece.outputs, results, strict=True))
        self.lines += _called(f"{', '.join(results)} = {part.name}", arguments)

    def part(self, piece: Piece) -> SourcePart:
        program = piece.program or self.read(piece)
        subject = piece.subject or Subject(program)
        if subject not in self.parts:
            answer = self.answers.get(subject)
            name = part_name(program, self.taken)
            if answer is not None:
                answer = answer.renamed(name)
            source = emit(program).replace(f"def {names(program)[0]}(", f"def {name}(", 1)
            self.parts[subject] = SourcePart(name, answer.source if answer else source, answer)
        return self.parts[subject]

    def read(self, piece: Piece) -> Program:
        """The program between two regions, where it has a text; raises
        `OptimizeError` elsewhere."""
        if piece.bodies:
            (equation,) = piece.jaxpr.eqns
            raise OptimizeError(f"a part of it stands in a {equation.primitive.name}")
        equations = {id(equation) for equation in piece.jaxpr.eqns}
        # By identity: equal equations may stand in several pieces.
        refusals = [step.refusal for step in self.cut.steps if id(step.equation) in equations]
        refusal = next(filter(None, refusals), "")
        if refusal:
            raise OptimizeError(f"{refusal} has no text")
        program = read_piece(
            piece, [f"x{at}" for at in range(len(piece.inputs))], f"{self.name}_rest"
        )
        if program is None or not _gives(program, piece):
            raise OptimizeError("what is between its parts cannot be read as a whole")
        return program

    def text(self, var: Var) -> str:
        """The text of a value; a small array that is closed over is written out."""
        if var not in self.texts:
            abstract = aval(var)
            if abstract.size > WRITTEN or not isinstance(abstract.dtype, np.dtype):
                raise OptimizeError(f"it closes over an array, {abstract.str_short()}")
            self.texts[var] = _array(np.asarray(self.cut.flat.constants[var], abstract.dtype))
        return self.texts[var]

    def result(self, atom: Atom) -> str:
        if isinstance(atom, Literal):
            array = np.asarray(atom.val, aval(atom).dtype)
            weak = f"jnp.asarray({_numbers(array.tolist())})"
            return weak if aval(atom).weak_type else _array(array)
        text = self.text(atom)
        return f"jnp.asarray({text})" if atom in self.cut.flat.inputs else text


def _used(cut: CutFunction) -> list[Piece]:
    """The pieces that the results need: what a program needs beforehand, it has itself."""
    needed: set[Var] = {output for output in cut.flat.outputs if not isinstance(output, Literal)}
    used: list[Piece] = []
    for piece in reversed(cut.pieces):
        if needed.intersection(piece.outputs) or piece.jaxpr.effects:
            needed.update(piece.inputs)
            used.append(piece)
    return used[::-1]


def part_name(program: Program, used: set[str]) -> str:
    """The program's own name, as far as it is not in `used`, to which it is added."""
    base, _ = names(program)
    tries = chain([base], (f"{base}_{number}" for number in count(1)))
    name = next(candidate for candidate in tries if candidate not in used)
    used.add(name)
    return name


def _called(function: str, arguments: Sequence[str]) -> list[str]:
    """A call or a definition, each argument on a line of its own where it is long."""
    line = f"{function}({', '.join(arguments)})"
    if len(line) + 4 <= WIDTH:
        return [line]
    return [f"{function}(", *(f"    {argument}," for argument in arguments), ")"]


def _gives(program: Program, piece: Piece) -> bool:
    """Whether a program that was read gives the types that the piece does."""
    expected = [element_type(aval(output).dtype) for output in piece.outputs]
    return [output.dtype for output in program.outputs] == expected


def _array(array: NumpyArray) -> str:
    """A small array, each number of which is read back as it is."""
    name = "bool_" if array.dtype == np.bool_ else array.dtype
    return f"jnp.asarray({_numbers(array.tolist())}, jnp.{name})"


def _numbers(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_numbers, value))}]"
    return repr(value) if np.isfinite(value) else f'{type(value).__name__}("{value}")'


def together(parts: Sequence[SourcePart], wrapper: str) -> str:
    """All parts and the wrapper as one module."""
    texts = [f"{_comments(part)}\n{_bare(part.source)}\n" for part in parts]
    plain = [f"{text}\n" for part in parts if part.answer and (text := part.answer.fallback())]
    helper = [HELPER] if plain else []
    return module("\n\n".join([*helper, *texts, *plain, f"{wrapper}\n"]))


def _comments(part: SourcePart) -> str:
    return part.answer.comments() if part.answer else f"# {part.name} as it was written"


def _bare(source: str) -> str:
    return source[source.index("def ") :].strip()


@dataclass(frozen=True)
class Source:
    """Code that stands alone."""

    text: str = ""
    lacks: str = ""
    """Why it has parts of the function alone; empty where it has the whole."""


def source(cut: CutFunction, answers: Mapping[Subject, Answer]) -> Source:
    """The function, with answers in their places; its parts where something in it has no text."""
    if not answers:
        return Source()
    if _is_whole(cut):
        ((subject, answer),) = answers.items()
        renamed = answer.renamed(names(subject.program)[0])
        return Source(renamed.with_parameters(cut.call.names()).text())
    try:
        text = together(*wrapped(cut, answers))
        name = title(cut.function, None)
        return Source(f"# {name}: its parts, then what puts them together\n\n{text}")
    except AiosearchError as error:
        return Source(_parts(cut, answers, str(error)), str(error))


def _parts(cut: CutFunction, answers: Mapping[Subject, Answer], lacks: str) -> str:
    """Each replaced part, and comments that say where it belongs."""
    named = {
        subject: answer.renamed(name)
        for (subject, answer), name in zip(answers.items(), _names(cut, answers), strict=True)
    }
    lines = [*_head(cut, named), f"It is not here as a whole: {lacks}."]
    head = "\n".join(f"# {line}".rstrip() for line in lines)
    parts = "\n\n".join(map(_part, named.values()))
    return f"{head}\n\n{module(parts)}"


def _is_whole(cut: CutFunction) -> bool:
    """Whether one piece takes and gives what the function does, in that order and without trees."""
    flat = cut.flat
    taking = [piece for piece in cut.pieces if piece.inputs]
    borders = [(piece.inputs, piece.outputs) for piece in taking if not piece.bodies]
    return _is_plain(cut) and len(taking) == 1 and borders == [(flat.inputs, flat.outputs)]


def _is_plain(cut: CutFunction) -> bool:
    """Whether each argument is one array, and so is each result, or the only one."""
    call = cut.call
    args = tuple(None if at in call.static else 0 for at in range(call.count))
    kwargs = {name: None if name in call.static else 0 for name in call.keywords}
    count = cut.tree.num_leaves
    results = 0 if count == 1 else (0,) * count
    structure = jax.tree_util.tree_structure
    return bool(call.tree == structure((args, kwargs)) and cut.tree == structure(results))


def _names(cut: CutFunction, parts: Iterable[Subject]) -> Iterator[str]:
    """The programs' own names, as far as they are free: a part may not hide the function either."""
    used = {title(cut.function, None)}
    for part in parts:
        yield part_name(part.program, used)


def _part(answer: Answer) -> str:
    return f"{answer.comments()}\n{answer.source[answer.source.index('def ') :].strip()}\n"


def _head(cut: CutFunction, named: Mapping[Subject, Answer]) -> Iterator[str]:
    """Comments that say which part stands where, in the order in which they run."""
    yield f"Parts of {_call(cut)}, whose rest stays as it is written:"
    for piece in cut.regions:
        answer = named.get(piece.subject) if piece.subject else None
        if answer is not None:
            yield f"  {_called_as(cut, piece, answer)}{_place(piece)}"
    yield "where _ is what comes before, and * an array that is closed over."


def _call(cut: CutFunction) -> str:
    return f"{title(cut.function, None)}({', '.join(cut.call.names())})"


def _called_as(cut: CutFunction, piece: Piece, answer: Answer) -> str:
    """How a part is called in its place."""
    argument_names = dict(zip(cut.flat.inputs, cut.call.names(), strict=True))
    argument_names |= dict.fromkeys(cut.flat.constants, "*")
    return f"{answer.function}({', '.join(argument_names.get(var, '_') for var in piece.inputs)})"


def _place(piece: Piece) -> str:
    """The lines of the user's code that a piece stands for."""
    places = [summarize(equation.source_info) for equation in piece.jaxpr.eqns]
    lines = [re.sub(r":(\d+):\d+ ", r":\1 ", place) for place in places if place]
    first, *later = list(dict.fromkeys(lines)) or [""]
    return (f" at {first}" if first else "") + (f" to {later[-1]}" if later else "")
