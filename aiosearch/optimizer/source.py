"""What runs in a function's place as code that stands alone, and where it belongs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import jax
from jax.extend.source_info_util import summarize

from ..capture.names import title
from ..errors import AiosearchError
from .answers import Answer
from .emit import module, names
from .splice.cutting import Cut
from .splice.pieces import Piece, Subject
from .wrapping import part_name, together, wrapped


@dataclass(frozen=True)
class Source:
    """Code that stands alone."""

    text: str = ""
    lacks: str = ""
    """Why it is of parts of the function alone; nothing where it is the whole."""


def source(cut: Cut, kept: Mapping[Subject, Answer]) -> Source:
    """The function, with answers in their places; its parts where something in it has no text."""
    if not kept:
        return Source()
    if _is_whole(cut):
        ((one, answer),) = kept.items()
        own = answer.renamed(names(one.program)[0])
        return Source(own.with_parameters(cut.call.names()).text())
    try:
        text = together(*wrapped(cut, kept))
        name = title(cut.function, None)
        return Source(f"# {name}: its parts, then what puts them together\n\n{text}")
    except AiosearchError as error:
        return Source(_parts(cut, kept, str(error)), str(error))


def _parts(cut: Cut, kept: Mapping[Subject, Answer], lacks: str) -> str:
    """Each part, and comments that say where it belongs."""
    named = {
        one: answer.renamed(name)
        for (one, answer), name in zip(kept.items(), _names(cut, kept), strict=True)
    }
    lines = [*_head(cut, named), f"It is not here as a whole: {lacks}."]
    head = "\n".join(f"# {line}".rstrip() for line in lines)
    parts = "\n\n".join(map(_part, named.values()))
    return f"{head}\n\n{module(parts)}"


def _is_whole(cut: Cut) -> bool:
    """Whether one piece takes and gives what the function does, in the same order and no trees."""
    flat = cut.flat
    return _is_plain(cut) and [(one.inputs, one.outputs) for one in cut.pieces if one.inputs] == [
        (flat.inputs, flat.outputs)
    ]


def _is_plain(cut: Cut) -> bool:
    """Whether each argument is one array, and so is each result, or the only one."""
    call = cut.call
    args = tuple(None if at in call.static else 0 for at in range(call.count))
    kwargs = {name: None if name in call.static else 0 for name in call.keywords}
    count = cut.tree.num_leaves
    results = 0 if count == 1 else (0,) * count
    structure = jax.tree_util.tree_structure
    return bool(call.tree == structure((args, kwargs)) and cut.tree == structure(results))


def _names(cut: Cut, parts: Iterable[Subject]) -> Iterator[str]:
    """The programs' own, as far as they are free: a part is not to hide the function either."""
    taken = {title(cut.function, None)}
    for part in parts:
        yield part_name(part.program, taken)


def _part(answer: Answer) -> str:
    return f"{answer.comments()}\n{answer.source[answer.source.index('def ') :].strip()}\n"


def _head(cut: Cut, named: Mapping[Subject, Answer]) -> Iterator[str]:
    """Says which part stands where, in the order in which they run."""
    yield f"Parts of {_call(cut)}, whose rest stays as it is written:"
    for piece in cut.regions:
        answer = named.get(piece.subject) if piece.subject else None
        if answer is not None:
            yield f"  {_called(cut, piece, answer)}{_place(piece)}"
    yield "where _ is what comes before, and * an array that is closed over."


def _call(cut: Cut) -> str:
    return f"{title(cut.function, None)}({', '.join(cut.call.names())})"


def _called(cut: Cut, piece: Piece, answer: Answer) -> str:
    """How a part is called in its place."""
    told = dict(zip(cut.flat.inputs, cut.call.names(), strict=True))
    told |= dict.fromkeys(cut.flat.constants, "*")
    return f"{answer.function}({', '.join(told.get(var, '_') for var in piece.inputs)})"


def _place(piece: Piece) -> str:
    """The lines that it stands for."""
    places = [summarize(equation.source_info) for equation in piece.jaxpr.eqns]
    lines = [re.sub(r":(\d+):\d+ ", r":\1 ", place) for place in places if place]
    first, *others = list(dict.fromkeys(lines)) or [""]
    return (f" at {first}" if first else "") + (f" to {others[-1]}" if others else "")
