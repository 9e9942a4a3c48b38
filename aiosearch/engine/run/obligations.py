"""The obligations of a search, as questions to the `Verifier` that searches share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from ...checks import Verdict, Verifier, VerifierStatistics
from ...problem import Obligation

if TYPE_CHECKING:
    from ...checks import Ticket


class SearchObligations:
    """The questions under way, each asked once however many workers wait for it."""

    def __init__(
        self,
        verifier: Verifier,
        axioms: Mapping[str, str],
        answered: Callable[[bytes, Verdict], None],
    ) -> None:
        self._verifier = verifier
        self._axioms = axioms
        self._answered = answered
        self._tickets: dict[bytes, Ticket] = {}
        self.checks = 0
        """Questions of this search that z3 itself answered, and no cache."""

    def ask(self, digest: bytes, obligation: Obligation, priority: float) -> None:
        """Has a question answered: at once where the answer is known, else by `answered` later."""

        def done(verdict: Verdict) -> None:
            self._tickets.pop(digest, None)
            self.checks += 1
            self._answered(digest, verdict)

        axioms = self._axioms.get(obligation.axioms, "")
        answer = self._verifier.ask(digest, obligation, done, axioms, priority)
        if isinstance(answer, Verdict):
            self._answered(digest, answer)
        else:
            self._tickets[digest] = answer

    def withdraw(self, digest: bytes) -> None:
        """Drops a question that nobody needs answered any more."""
        if (ticket := self._tickets.pop(digest, None)) is not None:
            self._verifier.drop(ticket)

    def withdraw_all(self) -> None:
        for digest in list(self._tickets):
            self.withdraw(digest)

    def statistics(self) -> VerifierStatistics:
        return self._verifier.statistics()
