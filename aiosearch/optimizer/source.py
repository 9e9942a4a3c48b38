"""What runs in a function's place as code that stands alone, and where it belongs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, count

from jax.extend.source_info_util import summarize

from ..capture.names import title
from .answers import Answer
from .emit import module, names
from .splice.cutting import Cut
from .splice.pieces import Piece, Subject


def source(cut: Cut, kept: Mapping[Subject, Answer]) -> str:
    """The function, where one answer is all of it; else its parts, which say what they are."""
    if not kept:
        return ""
    if _is_whole(cut):
        ((one, answer),) = kept.items()
        return answer.renamed(names(one.program)[0]).text()
    named = {
        one: answer.renamed(name)
        for (one, answer), name in zip(kept.items(), _names(cut, kept), strict=True)
    }
    head = "\n".join(f"# {line}".rstrip() for line in _head(cut, named))
    parts = "\n\n".join(map(_part, named.values()))
    return f"{head}\n\n{module(parts)}"


def _is_whole(cut: Cut) -> bool:
    """Whether one piece takes and gives what the function does, in the same order."""
    flat = cut.flat
    return [(one.inputs, one.outputs) for one in cut.pieces if one.inputs] == [
        (flat.inputs, flat.outputs)
    ]


def _names(cut: Cut, parts: Iterable[Subject]) -> Iterator[str]:
    """The programs' own, as far as they are free: a part is not to hide the function either."""
    taken = {title(cut.function, None)}
    for part in parts:
        own, _ = names(part.program)
        tries = chain([own], (f"{own}_{number}" for number in count(1)))
        name = next(one for one in tries if one not in taken)
        taken.add(name)
        yield name


def _part(answer: Answer) -> str:
    return f"{answer.comments()}\n{answer.source[answer.source.index('def ') :].strip()}\n"


def _head(cut: Cut, named: Mapping[Subject, Answer]) -> Iterator[str]:
    """Says which part stands where, in the order in which they run."""
    function = f"{title(cut.function, None)}({', '.join(cut.call.names())})"
    yield f"Parts of {function}, whose rest stays as it is written:"
    for piece in cut.regions:
        answer = named.get(piece.subject) if piece.subject else None
        if answer is not None:
            yield f"  {_call(cut, piece, answer)}{_place(piece)}"
    yield "where _ is what comes before, and * an array that is closed over."


def _call(cut: Cut, piece: Piece, answer: Answer) -> str:
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
