"""Solutions as bytes on their way to the host, and the set in which the host keeps them."""

from __future__ import annotations

from hashlib import blake2b

import msgspec

from ...errors import ProblemError
from ...problem import AnyProblem
from .reference import element_type, plain_scalar, return_type


class SolutionCodec:
    """Encodes the solutions of one problem; raises `ProblemError` for one that cannot travel."""

    def __init__(self, problem: AnyProblem) -> None:
        self._name = type(problem).__qualname__
        self._encode = msgspec.msgpack.Encoder(enc_hook=plain_scalar).encode
        solution_type = element_type(return_type(problem, "solutions"))
        self._decode = msgspec.msgpack.Decoder(solution_type).decode

    def encode(self, solution: object) -> bytes:
        """Gives a solution's bytes, from which it comes back as what it is."""
        try:
            encoded = self._encode(solution)
        except Exception as error:
            reason = f"this solution cannot be encoded: {error} (solution: {solution!r:.200})"
            raise ProblemError(self._name, "solutions", reason) from None
        self._check_round_trip(solution, encoded)
        return encoded

    def _check_round_trip(self, solution: object, encoded: bytes) -> None:
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


class SolutionSet:
    """The solutions of one search, each once, the improving ones in order; nothing is decoded
    here."""

    def __init__(self, limit: int | None = None) -> None:
        self._limit = limit
        self.encoded: list[bytes] = []
        self.improving: list[tuple[bytes, float | None]] = []
        self.best: bytes | None = None
        self.best_cost: float | None = None
        self._seen: set[bytes] = set()

    def add(self, solution: bytes, cost: float | None) -> bool:
        """Takes a solution; says whether it is an improvement.

        Equal ones count once, and those beyond the `limit` not at all.
        """
        if self.full or not self._is_new(solution):
            return False
        self.encoded.append(solution)
        if cost is not None and self.best_cost is not None and cost >= self.best_cost:
            return False
        if self.best is None or cost is not None:
            self.best, self.best_cost = solution, cost
        self.improving.append((solution, cost))
        return True

    @property
    def full(self) -> bool:
        return self._limit is not None and len(self.encoded) >= self._limit

    def _is_new(self, solution: bytes) -> bool:
        # A digest of 16 bytes in place of a long solution: the set may hold millions
        digest = blake2b(solution, digest_size=16).digest() if len(solution) > 16 else solution
        if digest in self._seen:
            return False
        self._seen.add(digest)
        return True
