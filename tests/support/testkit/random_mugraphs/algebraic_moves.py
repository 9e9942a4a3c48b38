"""Ways to write one tensor program as another, true wherever the shapes fit as meant."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from random import Random
from typing import TypeAlias

from aiosearch.tensor import Place, Program, ShapeError, Term, apply
from aiosearch.tensor.analysis.substitution import substituted

EQUATIONS = (
    "(x / r) @ w == (x @ w) / r",
    "x @ (w / r) == (x @ w) / r",
    "(x * r) @ w == (x @ w) * r",
    "x @ (w * r) == (x @ w) * r",
    "x @ w + x @ v == x @ (w + v)",
    "x @ w + y @ w == (x + y) @ w",
    "(x @ y) @ z == x @ (y @ z)",
    "(x / y) / z == x / (y * z)",
    "(x / y) / z == (x / z) / y",
    "x / (y / z) == (x * z) / y",
    "(x * y) / z == x * (y / z)",
    "(x * y) / z == (x / z) * y",
    "x * y == y * x",
    "x + y == y + x",
    "(x * y) * z == x * (y * z)",
    "(x + y) + z == x + (y + z)",
    "x * z + y * z == (x + y) * z",
    "x / z + y / z == (x + y) / z",
    "square(x) == x * x",
    "square(x / y) == square(x) / square(y)",
    "square(x * y) == square(x) * square(y)",
    "square(sqrt(x)) == x",
    "rms_norm(x) == x / sqrt(mean(square(x)))",
    "sum(x / r) == sum(x) / r",
    "sum(x * r) == sum(x) * r",
    "sum(x + y) == sum(x) + sum(y)",
    "sum(x @ w) == x @ sum(w)",
    "exp(x + y) == exp(x) * exp(y)",
    "exp(x - y) == exp(x) / exp(y)",
    "(x / z) / (y / z) == x / y",
    "(x * z) / (y * z) == x / y",
    "sqrt(x) * sqrt(y) == sqrt(x * y)",
    "sqrt(x) / sqrt(y) == sqrt(x / y)",
    "exp(x - m) / sum(exp(x - m)) == exp(x) / sum(exp(x))",
)
"""True wherever the shapes fit as they are meant; a shape can fit where it is not meant."""

Found: TypeAlias = dict[str, Term]

_OPERATORS: dict[type[ast.operator], str] = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "div", ast.MatMult: "matmul",
}  # fmt: skip
_REDUCTIONS = ("sum", "mean", "max")


def _sides(equation: str) -> tuple[ast.expr, ast.expr]:
    compared = ast.parse(equation, mode="eval").body
    assert isinstance(compared, ast.Compare)
    return compared.left, compared.comparators[0]


def _names(side: ast.expr) -> set[str]:
    called = {node.func for node in ast.walk(side) if isinstance(node, ast.Call)}
    return {node.id for node in ast.walk(side) if isinstance(node, ast.Name) and node not in called}


def _head(side: ast.expr) -> str:
    if isinstance(side, ast.BinOp):
        return _OPERATORS[type(side.op)]
    return ast.unparse(side.func) if isinstance(side, ast.Call) else ""


_RULES: dict[str, list[tuple[ast.expr, ast.expr]]] = {}
"""Both directions of each equation, by the operator that they begin at."""

for _two in map(_sides, EQUATIONS):
    for _before, _after in (_two, _two[::-1]):
        if _names(_after) <= _names(_before):
            _RULES.setdefault(_head(_before), []).append((_before, _after))


def moves(term: Term) -> Iterator[Term]:
    """What the equations make of a term, where the shapes fit."""
    for before, after in _RULES.get(term.operator.name, ()):
        found: Found = {}
        if _matches(before, term, found):
            try:
                made = _made(after, found)
            except ShapeError:
                continue
            if made.shape == term.shape:
                yield made


def moved(program: Program, random: Random) -> Program:
    """The program after one move, or as it was where there is none."""
    terms = plain(program)
    random.shuffle(terms)
    for term in terms:
        found = list(moves(term))
        if found:
            return substituted(program, {term: random.choice(found)})
    return program


def plain(program: Program) -> list[Term]:
    """The kernel graph's operators that are no custom kernels, operands first."""
    return [
        term
        for term in program.terms()
        if term.place is Place.DEVICE and term.operator.name not in ("input", "result")
    ]


def over_last(term: Term) -> bool:
    """Whether a reduction is over the last axis, which stays with size one."""
    axes: tuple[int, ...] = term.parameter("axes")
    return axes == (len(term.arguments[0].shape) - 1,) and bool(term.parameter("keep"))


def _matches(side: ast.expr, term: Term, found: Found) -> bool:
    match side:
        case ast.Name(id=name):
            return found.setdefault(name, term) is term
        case ast.BinOp(left=left, op=op, right=right):
            return (
                term.operator.name == _OPERATORS[type(op)]
                and _matches(left, term.arguments[0], found)
                and _matches(right, term.arguments[1], found)
            )
        case ast.Call(func=ast.Name(id=name), args=[inner]):
            return (
                term.operator.name == name
                and (name not in _REDUCTIONS or over_last(term))
                and _matches(inner, term.arguments[0], found)
            )
    raise ValueError(ast.dump(side))


def _made(side: ast.expr, found: Mapping[str, Term]) -> Term:
    match side:
        case ast.Name(id=name):
            return found[name]
        case ast.BinOp(left=left, op=op, right=right):
            return apply(_OPERATORS[type(op)], _made(left, found), _made(right, found))
        case ast.Call(func=ast.Name(id=name), args=[inner]):
            x = _made(inner, found)
            if name in _REDUCTIONS:
                return apply(name, x, axes=(len(x.shape) - 1,), keep=True)
            return apply(name, x)
    raise ValueError(ast.dump(side))
