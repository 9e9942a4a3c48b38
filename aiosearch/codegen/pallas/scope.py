"""The lines of a body and what they have names for: the body's own scope, and its loops' within."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace

from .names import Names
from .values import Value


class Scope:
    """Lines of one indentation; an inner scope knows what the outer one knows."""

    def __init__(self, names: Names, outer: Scope | None = None) -> None:
        self.names, self.outer = names, outer
        self.lines: list[str] = []
        self._known: dict[Hashable, Value] = {}

    def known(self, key: Hashable) -> Value | None:
        found = self._known.get(key)
        return found if found or self.outer is None else self.outer.known(key)

    def bind(self, key: Hashable, wanted: str, value: Value) -> Value:
        """Gives a value a name, by which it is known from here on."""
        name = self.names.fresh(wanted)
        self.lines.append(f"{name} = {value.text}")
        return self.let(key, replace(value, text=name))

    def let(self, key: Hashable, value: Value) -> Value:
        self._known[key] = value
        return value
