"""Solutions on their way to the host, which keeps them as bytes."""

from __future__ import annotations

from typing import Any

import msgspec

from ..errors import ProblemError
from .reference import element_type, return_type


class SolutionCodec:
    """Encodes the solutions of one problem; raises ProblemError for one that cannot travel."""

    def __init__(self, problem: Any) -> None:
        self._name = type(problem).__qualname__
        self._encode = msgspec.msgpack.Encoder().encode
        solution_type = element_type(return_type(problem, "solutions"))
        self._decode = msgspec.msgpack.Decoder(solution_type).decode

    def encode(self, solution: Any) -> bytes:
        """Gives its bytes, from which it comes back as what it is."""
        try:
            encoded = self._encode(solution)
        except Exception as error:
            reason = f"this solution cannot be encoded: {error} (solution: {solution!r:.200})"
            raise ProblemError(self._name, "solutions", reason) from None
        self._check_round_trip(solution, encoded)
        return encoded

    def _check_round_trip(self, solution: Any, encoded: bytes) -> None:
        try:
            again = self._decode(encoded)
        except Exception as error:
            again = error
        if type(again) is not type(solution):
            reason = (
                f"this solution changes on its way to you: {solution!r:.100} arrives as "
                f"{again!r:.100}; annotate what solutions returns, for example Iterable[X]"
            )
            raise ProblemError(self._name, "solutions", reason)
