"""`CaptureError` and `RunError`: what keeps a function from being read as a tensor program, or from
being run."""

from __future__ import annotations

from ..tensor.errors import TensorError


class CaptureError(TensorError):
    """A primitive that the tensor language has no words for; says which, why and where.

    It is a value as well: `JaxprReader` hands it on in the place of a result, and it is raised only
    where an output depends on it.
    """

    def __init__(self, primitive: str, reason: str = "", where: str = "") -> None:
        self.primitive = primitive
        self.reason = reason
        self.where = where
        super().__init__(primitive, reason, where)

    @property
    def obstacle(self) -> str:
        """What stands in the way, without where."""
        if self.primitive and not self.reason:
            return f"{self.primitive} is no operator of the tensor language"
        return f"{self.primitive or 'the function'} stands in the way: {self.reason}"

    def __str__(self) -> str:
        why = f": {self.reason}" if self.reason else ""
        where = f", at {self.where}" if self.where else ""
        return f"cannot judge: {self.primitive or 'the function'} stands in the way{why}{where}"


class RunError(TensorError):
    """A function that fails when it is run; the message says which, on what and why."""


_HINTS = {
    "TracerIntegerConversionError": "static",
    "ConcretizationTypeError": "static",
    "TracerBoolConversionError": (
        "a branch on values of arrays is written with jnp.where or jax.lax.cond; an argument that"
        " is an option, the same in every call, is named in static_argnames="
    ),
    "TracerArrayConversionError": "NumPy cannot compute on what jax traces: write jnp there",
    "TraceContextError": (
        "a module of flax.nnx that changes itself is cut by nnx.split, and merged again inside of a"
        " function of its state"
    ),
}
_STATIC_HINT = (
    "an argument whose value is needed while tracing, and is the same in every call, is named in"
    " static_argnames=; on the command line it is given with its value, as --arg n=3"
)
_INTERPRET = "Only interpret mode is supported"
"""How jax says that a Pallas kernel was to be compiled for a processor."""


def tracing_hint(error: BaseException) -> str:
    """What to do about an error that jax raised on a traced function; empty where nobody knows.

    It begins with a separator, to stand behind the error's own words.
    """
    if _INTERPRET in str(error):
        hint = "where there is no GPU, pallas_call takes interpret=True"
    elif isinstance(error, TypeError) and "integer scalar" in str(error):
        hint = "static"
    else:
        hint = next(
            (_HINTS[kind.__name__] for kind in type(error).__mro__ if kind.__name__ in _HINTS), ""
        )
    return f"; {_STATIC_HINT if hint == 'static' else hint}" if hint else ""
