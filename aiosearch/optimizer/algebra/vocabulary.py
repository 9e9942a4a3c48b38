"""The operators that steps towards a value may apply."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from ...tensor import Term
from .building import named
from .steps import Call

_ALWAYS = ("matmul", "mul", "sum")
_BRINGS: Mapping[str, tuple[str, ...]] = {
    "add": ("sub",),
    "exp": ("add", "sub", "sigmoid"),
    "log": ("div",),
    "neg": ("sub",),
    "power": ("square",),
    "reciprocal": ("div",),
    "rsqrt": ("sqrt", "div"),
    "select": ("add",),
    "sub": ("add",),
}
"""Operators that others may turn into."""


def vocabulary(terms: Iterable[tuple[Term, Term]]) -> tuple[Call, ...]:
    """What terms, each given in named sizes too, are made with, and what that may turn into."""
    calls = set(map(Call, _ALWAYS))
    for term, sized in terms:
        calls.update(map(Call, _BRINGS.get(term.operator.name, ())))
        calls.update(_calls(term, sized))
    return tuple(sorted(calls, key=repr))


def _calls(term: Term, sized: Term) -> Iterator[Call]:
    operator = term.operator
    if operator.pointwise and operator.arity in (1, 2):
        yield Call(operator.name, term.parameters)
    elif named(term, "sum", "mean", "max", "min", "diagonal"):
        yield Call(operator.name)
    elif named(term, "slice") and term.parameter("step") == 1:
        given = tuple(one for one in sized.parameters if one[0] != "axis")
        yield Call("slice", given, sized.arguments[0].shape[term.parameter("axis")])
