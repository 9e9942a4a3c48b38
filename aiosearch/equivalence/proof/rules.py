"""The axioms that a proof may use, and a record of those that it did.

`with recorded() as rules:` collects every `Rule` that `fire` reports within the block.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from enum import StrEnum


class Rule(StrEnum):
    """An axiom of real numbers, with the side condition under which it holds; see `Proof.rules`."""

    DISTRIBUTE = "x·(y + z) = x·y + x·z"
    SUM_PRODUCT = "x·Σy = Σ(x·y), where x does not depend on what is summed over"
    SUM_CONSTANT = "Σx = n·x over n places, where x does not depend on the place"
    SUM_SPLIT = "a sum over i = high·n + low is a sum over high and low"
    SUM_RANGES = "sums over neighbouring ranges are one sum"
    SUM_MASK = "the sum over i of x(i) where i = j, of nothing elsewhere, is x(j)"
    EXP_SUM = "exp x · exp y = exp(x + y)"
    EXP_LOG = "exp(log x) = x, where x > 0"
    LOG_EXP = "log(exp x · y) = x + log y, where y > 0"
    LOG_PRODUCT = "log(x·y) = log x + log y, where x > 0 and y > 0"
    ROOT_PRODUCT = "√(x·y) = √x·√y, where x ≥ 0 and y ≥ 0"
    ROOT_SQUARE = "√(x²) = |x|"
    TAKE_OUT = "1/(x·y + x·z) = 1/x · 1/(y + z), where x ≠ 0 and y + z ≠ 0"
    COMMON_DENOMINATOR = "x/y = z/y exactly where x = z, if y ≠ 0"
    MAX_SET = "max is associative, commutative, idempotent"
    MAX_SHIFT = "max(x + z, y + z) = max(x, y) + z"
    MAX_SCALE = "max(n·x, n·y) = n·max(x, y), where n > 0"
    TANH = "tanh x = (exp 2x - 1)/(exp 2x + 1)"
    FINITE = "x < ∞, where the original takes no infinity"
    Z3 = "z3: no real numbers tell them apart"


# Per context: proofs in threads or tasks do not write into one another's record.
_fired: ContextVar[set[Rule] | None] = ContextVar("fired", default=None)


def fire(rule: Rule) -> None:
    """Notes that `rule` was used, if `recorded` is active."""
    fired = _fired.get()
    if fired is not None:
        fired.add(rule)


@contextmanager
def recorded() -> Iterator[set[Rule]]:
    """Collects the rules used within, in the set that it yields."""
    fired: set[Rule] = set()
    token = _fired.set(fired)
    try:
        yield fired
    finally:
        _fired.reset(token)
