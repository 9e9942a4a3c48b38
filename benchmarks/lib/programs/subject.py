"""`Subject`: a function to optimize, with the arguments of a user, made where it is needed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any, TypeAlias

import numpy as np

Function: TypeAlias = Callable[..., Any]
Rng: TypeAlias = np.random.Generator
Maker: TypeAlias = Callable[[Rng], tuple[Function, tuple[Any, ...]]]
"""Gives the function and its arguments, which it draws; imports what it needs."""

ORIGINS: Mapping[str, str] = {
    "models": "lib.programs.models",
    "third-party": "lib.programs.third_party",
}
"""The module of each group of subjects, which has them in `SUBJECTS`."""
FORMULAS = "formulas"
"""The origin of what needs no library."""


@dataclass(frozen=True)
class Subject:
    name: str
    origin: str
    """The distribution that it is imported from, or `FORMULAS`."""
    make: Maker
    module: str = ""
    """What the distribution is imported as, where that differs from its name."""

    @property
    def installed(self) -> bool:
        """Whether its library is there."""
        if self.origin == FORMULAS:
            return True
        return find_spec(self.module or self.origin.replace("-", "_")) is not None

    def made(self, seed: int = 0) -> tuple[Function, tuple[Any, ...]]:
        """The function, and arguments that another seed draws anew."""
        return self.make(np.random.default_rng(seed))


class Subjects:
    """A group of subjects, in the order in which they are declared."""

    def __init__(self) -> None:
        self.by_name: dict[str, Subject] = {}

    def add(self, origin: str, module: str = "") -> Callable[[Maker], Maker]:
        """Declares the subject that a function makes, under the name of that function."""

        def declare(make: Maker) -> Maker:
            name = make.__name__
            if name in self.by_name:
                raise ValueError(f"two subjects are called {name}: give one another name")
            self.by_name[name] = Subject(name, origin, make, module)
            return make

        return declare


def subjects(group: str) -> Sequence[Subject]:
    """All of a group of `ORIGINS`, whether they are installed or not."""
    declared: Subjects = import_module(ORIGINS[group]).SUBJECTS
    return list(declared.by_name.values())
