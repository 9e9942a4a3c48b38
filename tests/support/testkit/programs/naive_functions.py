"""Functions as they should not be written, and what the best way to write them has."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Case:
    function: Callable[..., Any]
    shapes: tuple[tuple[int, ...], ...]
    body: str
    """What the source of one of the best answers has."""


class Cases(dict[str, Case]):
    """By the functions' names."""

    def case(self, body: str, *shapes: tuple[int, ...]) -> Callable[[Callable[..., Any]], None]:
        """Declares a function of arrays of these shapes."""

        def declare(function: Callable[..., Any]) -> None:
            self[function.__name__] = Case(function, shapes, body)

        return declare
