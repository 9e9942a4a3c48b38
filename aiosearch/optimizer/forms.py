"""From what a term is written: itself, or with what stands around it said in one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ..tensor import DType, Term, apply
from ..tensor.terms import LITERAL
from ..tensor.types import HALVES, JAX_NAMES
from .pieces import Piece
from .spelling import Choice
from .wording import matmul


@dataclass(frozen=True, slots=True)
class Form:
    """How a term is written: what it is written from, and the expression."""

    operands: tuple[Term, ...]
    write: Callable[..., Piece]


def spelled_out(term: Term) -> Term:
    """The norm by its parts; half types are widened for it."""
    x = term.arguments[0]
    wide = apply("cast", x, dtype="f32") if x.dtype in HALVES else x
    mean = apply("mean", apply("square", wide), axes=(len(x.shape) - 1,), keep=True)
    found = wide / apply("sqrt", mean)
    return found if wide is x else apply("cast", found, dtype=x.dtype)


def product(term: Term, chosen: frozenset[Choice]) -> Form:
    """A product of matrices, as it was chosen to be written."""
    left, right = term.arguments
    if Choice.TURNED in chosen:
        return _turned(left, right, chosen)
    narrow = _narrow(left), _narrow(right)
    if narrow[0] is not None and narrow[1] is not None and narrow[0].dtype is narrow[1].dtype:
        return Form((narrow[0], narrow[1]), lambda x, y: matmul(x, y, wide=True))

    def write(x: Piece, y: Piece) -> Piece:
        if Choice.TWO_ROWS in chosen:
            widths = ", ".join(["(0, 0)"] * (len(left.shape) - 2) + ["(0, 1)", "(0, 0)"])
            x = Piece(f"jnp.pad({x.text}, ({widths}))")
        found = matmul(x, y, wide=Choice.ACCUMULATE in chosen)
        if Choice.TWO_ROWS in chosen:
            found = Piece(f"{found.atom}[..., :1, :]")
        return _rounded(found, term.dtype, chosen)

    return Form((left, right), write)


def _rounded(found: Piece, dtype: DType, chosen: frozenset[Choice]) -> Piece:
    if Choice.ACCUMULATE not in chosen:
        return found
    return Piece(f"{found.atom}.astype({JAX_NAMES[dtype]})")


def _narrow(term: Term) -> Term | None:
    """What is widened from a half type: its products are exact in 32 bits."""
    if term.operator.name == "cast" and term.dtype is DType.F32:
        inner = term.arguments[0]
        return inner if inner.dtype in HALVES else None
    return None


def _turned(left: Term, right: Term, chosen: frozenset[Choice]) -> Form:
    operands = tuple(_unturned(side) or side for side in (right, left))

    def write(x: Piece, y: Piece) -> Piece:
        x, y = (
            piece if _unturned(side) is not None else Piece(f"{piece.atom}.mT")
            for side, piece in ((right, x), (left, y))
        )
        found = matmul(x, y, wide=Choice.ACCUMULATE in chosen)
        return _rounded(Piece(f"{found.atom}.mT"), left.dtype, chosen)

    return Form(operands, write)


def _unturned(term: Term) -> Term | None:
    """What a term is the transpose of."""
    rank = len(term.shape)
    order = (*range(rank - 2), rank - 1, rank - 2)
    if term.operator.name == "transpose" and term.parameter("axes") == order:
        return term.arguments[0]
    return None


def vector_product(term: Term, chosen: frozenset[Choice]) -> Form | None:
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
    return Form((row or left, column or right), write)


def _vector(term: Term, axis: int) -> Term | None:
    """The vector that a row (axis 0 put in) or a column (axis 1) is made of."""
    if term.operator.name == "reshape" and term.shape[axis] == 1:
        inner = term.arguments[0]
        return inner if len(inner.shape) == 1 and inner.operator is not LITERAL else None
    return None
