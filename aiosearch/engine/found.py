"""The solutions of one search: each kept once, the improving ones in order."""

from __future__ import annotations

from hashlib import blake2b


class Found:
    """Keeps solutions as the bytes they came in; nothing is decoded here."""

    def __init__(self, limit: int | None = None) -> None:
        self._limit = limit
        self.encoded: list[bytes] = []
        self.improving: list[tuple[bytes, float | None]] = []
        self.best: bytes | None = None
        self.best_cost: float | None = None
        self._seen: set[bytes] = set()

    def add(self, solution: bytes, cost: float | None) -> bool:
        """Takes a solution; says whether it is an improvement.

        Equal ones count once, and those beyond the limit not at all.
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
        digest = blake2b(solution, digest_size=16).digest() if len(solution) > 16 else solution
        if digest in self._seen:
            return False
        self._seen.add(digest)
        return True
