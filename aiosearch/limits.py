"""When a search stops before it is complete."""

from __future__ import annotations

from msgspec import Struct

from .errors import AiosearchError


class Limits(Struct, frozen=True, kw_only=True):
    """Budgets of one search; None is no limit. The first one reached ends the search."""

    seconds: float | None = None
    """Seconds of wall time, on a monotonic clock, that of the runs before a resume included."""
    nodes: int | None = None
    """Nodes explored, to the node."""
    solutions: int | None = None
    """Distinct solutions."""
    memory: int | None = None
    """Bytes resident in all processes of the search's pool together."""
    checks: int | None = None
    """Questions that z3 itself was asked; answers from a cache are free."""

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if value is None:
                continue
            if not (isinstance(value, int | float) and value > 0):
                raise AiosearchError(f"limit {name} must be a positive number, not {value!r}")
            if name != "seconds" and not float(value).is_integer():
                raise AiosearchError(f"limit {name} must be a whole number, not {value!r}")
