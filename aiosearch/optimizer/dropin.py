"""The callable that is handed back: fast where it was made for, the original everywhere else."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, ParamSpec, TypeVar

from .made_for import MadeFor
from .report import Report
from .runs import OTHER, runs
from .splice.splicing import Spliced

P = ParamSpec("P")
R = TypeVar("R")


class Optimized(Generic[P, R]):
    """A function that runs as it was optimized where a call is of the kind that it was made for.

    That is the same tree of arguments, shapes, element types, weak types, static arguments, kind
    of device and settings of jax; concrete arrays and tracers alike. Every other call, and every
    derivative and batch, runs the original.

    What was made beforehand of constant arrays is kept as long as this is, and used where exactly
    those arrays come in; others run what is fastest without it.
    """

    __wrapped__: Callable[P, R]

    def __init__(self, spliced: Spliced, *, source: str = "", report: Report | None = None) -> None:
        self.report = report
        """What the optimizer has to say about it."""
        self._source = source
        self._spliced = spliced
        self._original: Callable[P, R] = spliced.cut.function
        self._made_for = MadeFor(spliced.cut)
        self._runs = runs(spliced, self._made_for) if spliced.replacements else None
        functools.update_wrapper(self, spliced.cut.function)

    @property
    def original(self) -> Callable[P, R]:
        """The function that was optimized."""
        return self._original

    @property
    def spliced(self) -> Spliced:
        """The function in pieces, and what runs in their place."""
        return self._spliced

    def source(self) -> str:
        """The code that runs in the place of the original, which stands alone."""
        return self._source

    def takes(self, *args: P.args, **kwargs: P.kwargs) -> bool:
        """Whether a call is of the kind that it was made for."""
        return self._made_for.leaves(args, kwargs) is not None

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        if self._runs is None:
            return self._original(*args, **kwargs)
        found = self._runs(args, kwargs)
        return self._original(*args, **kwargs) if found is OTHER else found

    def attempt(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """What a call gives if it is of the kind that it was made for; else `OTHER`."""
        return OTHER if self._runs is None else self._runs(args, kwargs)

    def __repr__(self) -> str:
        return f"<optimized {getattr(self, '__qualname__', self.original)}>"
