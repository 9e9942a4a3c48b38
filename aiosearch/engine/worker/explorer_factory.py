"""The choice of a session's explorer, from its order and the problem's `Capabilities`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from ...checks.questions import digest
from ...orders import DepthFirst, Order
from ...problem import AnyProblem, Obligation
from ..explore.bundles import Codec
from ..explore.capabilities import Capabilities
from ..explore.claims import LocalClaims, SharedClaims
from ..explore.explorer import Clock, DepthFirstExplorer, Explorer
from ..explore.heap_explorer import HeapExplorer
from ..wire.messages import Begin
from ..wire.reference import return_type

Ask: TypeAlias = Callable[[bytes, Obligation, float], None]
"""Passes on a question: its digest, the `Obligation`, and its priority."""


class ExplorerFactory:
    """Makes the explorers of one session; `prunes` is whether its order leaves subtrees out."""

    def __init__(
        self,
        begin: Begin,
        problem: AnyProblem,
        prunes: bool,
        claims: LocalClaims | SharedClaims | None,
        ask: Ask,
        clock: Clock,
    ) -> None:
        self._begin = begin
        self._problem = problem
        self._prunes = prunes
        self._claims = claims
        self._ask = ask
        self._clock = clock
        capabilities = Capabilities.of(problem)
        self._codec: Codec[Any] = Codec(capabilities.name, return_type(problem, "root"))
        self._axioms = capabilities.axioms
        self.asynchronous = capabilities.asynchronous
        self._general = bool(
            capabilities.asynchronous or capabilities.key or capabilities.obligation
        )

    def make(self, order: Order) -> Explorer[Any]:
        """An explorer that holds nothing yet: `DepthFirstExplorer` where that does, else
        `HeapExplorer`."""
        # The exact type: a subclass of DepthFirst may score nodes
        if type(order) is DepthFirst and not self._general:
            return DepthFirstExplorer(
                self._problem, self._codec, self._begin.skip_errors, self._clock
            )
        return HeapExplorer(
            self._problem,
            self._codec,
            self._begin.skip_errors,
            order,
            self._claims,
            self._ask,
            self._digest,
            self._begin.on_unknown,
            self._begin.record_keys,
            self._prunes,
            self._clock,
        )

    def _digest(self, obligation: Obligation) -> bytes:
        # Another z3 may answer otherwise, and `asker` keeps private verdicts apart
        version = self._begin.z3_version + self._begin.asker
        return digest(obligation, self._axioms_of(obligation), version)

    def _axioms_of(self, obligation: Obligation) -> str:
        if not obligation.axioms:
            return ""
        try:
            return self._axioms[obligation.axioms]
        except KeyError:
            raise LookupError(
                f"the obligation names axioms {obligation.axioms!r}, but the problem's `axioms` "
                f"has {sorted(self._axioms) or 'none'}"
            ) from None
