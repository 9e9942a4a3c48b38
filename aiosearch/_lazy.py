"""Packages that import a public name's module only when the name is used.

A worker or z3 process imports one small corner of aiosearch, and its start is on somebody's clock.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from typing import Any


def lazily(package: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """Makes a package's `__getattr__`: finds each name in the module that is its home."""

    def find(name: str) -> Any:
        home = homes.get(name)
        if home is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(importlib.import_module(home, package), name)
        # From now on the name is an attribute like any other, and this is not called again
        setattr(sys.modules[package], name, value)
        return value

    return find
