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
