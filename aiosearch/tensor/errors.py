"""Errors about tensor programs: `TensorError` and its kinds."""

from __future__ import annotations

from ..errors import AiosearchError


class TensorError(AiosearchError):
    """Base of the errors about tensor programs; an `AiosearchError`."""


class ShapeError(TensorError):
    """Operands that do not fit, or a parameter that does not suit them."""


class LabelError(TensorError):
    """An axis that would have to carry two different labels."""


class FormatError(TensorError):
    """A text or a file that is no program: says where, and what was expected."""


class UnknownOperator(FormatError):
    """An operator that this version does not know: nothing can be said of the program."""

    def __init__(self, name: str, where: str = "") -> None:
        super().__init__(f"unknown operator {name!r}{f' in {where}' if where else ''}")
        self.name = name
        self.where = where
