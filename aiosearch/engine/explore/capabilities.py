"""What a problem can do, resolved once: its methods as typed attributes, not names to look up.

A `Problem` has three methods that it must have and some that the engine looks for by name (see
`aiosearch.problem`). `Capabilities.of` looks for all of them when an explorer is made. From then
on, `capabilities.bound is None` says that there is no `bound`, and the type checker knows what a
call gives.

    capabilities = Capabilities.of(Knapsack(...))
    capabilities.name           # "Knapsack"
    capabilities.bound          # the bound method Knapsack.bound
    capabilities.obligation     # None: this problem asks z3 nothing
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Generic

from ...problem import LANES, AnyProblem, Expansion, Key, NodeT, Obligation, Problem


@dataclass(frozen=True, slots=True)
class Capabilities(Generic[NodeT]):
    """The methods of one problem. An optional one that it lacks is None."""

    name: str
    """The qualified name of the problem's class, for error messages."""
    root: Callable[[], NodeT]
    expand: Callable[[NodeT], Expansion[NodeT]]
    solutions: Callable[[NodeT], Iterable[object]]
    asynchronous: bool
    """Whether `expand` is declared with `async def`, as a coroutine or as a generator."""
    bound: Callable[[NodeT], float] | None
    """See `HasBound`."""
    cost: Callable[[Any], float] | None
    """See `HasCost`."""
    key: Callable[[NodeT], Key] | None
    """See `HasKey`."""
    obligation: Callable[[NodeT], Obligation | None] | None
    """See `HasObligation`."""
    axioms: Mapping[str, str]
    """SMT-LIB axiom sets that an `Obligation` may name; empty where the problem has none."""
    lanes: int
    """How many asynchronous expansions may be under way at once in one process."""

    @classmethod
    def of(cls, problem: Problem[NodeT, Any]) -> Capabilities[NodeT]:
        """Looks for every method by name."""
        # getattr, not isinstance with a protocol that is checked at run time: from Python 3.12 on
        # that looks at the class only, and would miss a problem that delegates by `__getattr__`.
        return cls(
            name=type(problem).__qualname__,
            root=problem.root,
            expand=problem.expand,
            solutions=problem.solutions,
            asynchronous=is_async(problem),
            bound=getattr(problem, "bound", None),
            cost=getattr(problem, "cost", None),
            key=getattr(problem, "key", None),
            obligation=getattr(problem, "obligation", None),
            axioms=dict(getattr(problem, "axioms", None) or {}),
            lanes=getattr(problem, "lanes", LANES),
        )


def is_async(problem: AnyProblem) -> bool:
    """Whether `expand` has to be awaited, as its declaration says; nothing is called."""
    expand = problem.expand
    return inspect.iscoroutinefunction(expand) or inspect.isasyncgenfunction(expand)
