"""`Optimized`: the callable that is handed back, fast for the calls it was made for and the
original for all others."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from types import MethodType
from typing import Generic, ParamSpec, Self, TypeVar

import jax

from ...capture.jax_types import PyTree
from ...capture.names import shown
from ..outcomes.report import Report
from ..trace.splice import Spliced
from .dispatch import (
    OTHER,
    REFUSALS,
    CallGuard,
    CheckedDispatch,
    TrustingDispatch,
    compiled_original,
    dispatcher,
)

_PARTIALS = (functools.partial, jax.tree_util.Partial)

P = ParamSpec("P")
R = TypeVar("R")


class FunctionWrapper(Generic[P, R]):
    """What is called in the place of a function, and looks like it: its name, signature, docstring
    and attributes."""

    __wrapped__: Callable[P, R]

    def __init__(self, function: Callable[P, R]) -> None:
        for name, value in getattr(function, "__dict__", {}).items():
            if not hasattr(type(self), name):  # nothing of its own is hidden
                vars(self)[name] = value
        functools.update_wrapper(self, function, updated=())
        self._original = function

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        raise NotImplementedError

    @property
    def original(self) -> Callable[P, R]:
        """The function in whose place it is called."""
        return self._original

    def __get__(self, instance: object, owner: type | None = None) -> PyTree:
        """Binds as a method, as functions do."""
        return self if instance is None else MethodType(self, instance)


def original_of(function: Callable[P, R]) -> Callable[P, R]:
    """The function itself, or that in whose place it is called: also of a method or a partial.

    A partial of a class derived from `functools.partial` stays what it is.
    """
    match function:
        case FunctionWrapper():
            return original_of(function.original)
        case MethodType(__func__=FunctionWrapper() as wrapper):
            return original_of(MethodType(wrapper.original, function.__self__))
        case functools.partial(func=wrapped) if type(function) in _PARTIALS:
            if (inner := original_of(wrapped)) is not wrapped:
                rebuilt = type(function)(inner, *function.args, **function.keywords)
                vars(rebuilt).update(vars(function))
                return rebuilt
    return function


class Optimized(FunctionWrapper[P, R]):
    """A function that runs as it was optimized where a call is of the kind that it was made for.

    That is the same tree of arguments, shapes, element types, weak types, static arguments, kind
    of device and settings of jax; concrete arrays and tracers alike. Every other call, and every
    derivative and batch, runs the original. Arrays that are closed over stay what they were when it
    was traced, as under `jax.jit`.

    Where nothing is replaced, every call runs the original as `jax.jit` compiles it, or as it is
    where it was compiled already; what Python does for such a call is what it does for `jax.jit`.

    What was made beforehand of constant arrays is kept as long as this is, and used where exactly
    those arrays come in; others run what is fastest without it.
    """

    def __init__(
        self,
        spliced: Spliced,
        *,
        source: str = "",
        lacks: str = "",
        report: Report | None = None,
        device: jax.Device | None = None,
    ) -> None:
        super().__init__(spliced.cut.function)  # first: it may have these attributes
        self.report = report
        """What the optimizer has to say about it."""
        self.lacks = lacks
        """Why `source()` has parts of the function alone; empty where it has the whole."""
        self._source = source
        self._spliced = spliced
        self._guard = CallGuard(spliced.cut, device)
        self._runs: CheckedDispatch | TrustingDispatch | None
        if spliced.replacements:
            self._runs = dispatcher(spliced, self._guard)
        else:
            run = compiled_original(spliced.cut)
            self._runs = None if run is self._original else dispatcher(spliced, self._guard)
            # What Python does for a method takes half a microsecond, a tenth of a short call.
            self.__class__ = _calling(type(self), run)
        self._trusting = self._runs if isinstance(self._runs, TrustingDispatch) else None

    @property
    def spliced(self) -> Spliced:
        """The function in pieces, and what runs in their place."""
        return self._spliced

    def source(self) -> str:
        """The code that runs in the place of the original, which stands alone.

        It takes and gives what the function does, less static arguments. Where `lacks` says why
        that has no text, it has the parts that were replaced, each a function of its own.
        """
        return self._source

    def restate(self, report: Report, source: str) -> None:
        """Sets what is said of it once its calls have been timed; what it runs stays the same."""
        self.report = report
        self._source = source

    def takes(self, *args: P.args, **kwargs: P.kwargs) -> bool:
        """Whether a call is of the kind that it was made for."""
        return self._guard.leaves(args, kwargs) is not None

    @property
    def kind(self) -> object:
        """Equal for two that take the same calls."""
        return self._guard.kind

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        trusting = self._trusting
        if trusting is not None and (direct := trusting.direct) is not None:
            try:
                return direct(*args, **kwargs)  # type: ignore[no-any-return]  # as the original
            except REFUSALS:
                result = trusting.refused(args, kwargs)
        else:
            assert self._runs is not None, "where nothing is replaced, `_calling` has the call"
            result = self._runs(args, kwargs)
        return self._original(*args, **kwargs) if result is OTHER else result

    def attempt(self, args: Sequence[PyTree], kwargs: Mapping[str, PyTree]) -> PyTree:
        """The result of a call if it is of the kind that this was made for; else `OTHER`."""
        return OTHER if self._runs is None else self._runs(args, kwargs)

    def __copy__(self) -> Self:
        """Itself, as functions do."""
        return self

    def __deepcopy__(self, memo: object) -> Self:
        return self

    def __reduce__(self) -> str:
        raise TypeError(
            f"{self!r} cannot be pickled: optimize {shown(self.original)} in the other process,"
            " which finds the answer in the store"
        )

    def __repr__(self) -> str:
        return f"<optimized {shown(self.original)}>"


def _calling(kind: type[Optimized[P, R]], run: Callable[..., PyTree]) -> type[Optimized[P, R]]:
    """A class like `kind` whose instances are called as `run` is, without a method in between.

    Python looks for `__call__` in the class alone, so that each instance has a class of its own.
    """
    names = ("__module__", "__qualname__", "__doc__")
    body = {"__call__": staticmethod(run), **{name: getattr(kind, name) for name in names}}
    return type(kind.__name__, (kind,), body)
