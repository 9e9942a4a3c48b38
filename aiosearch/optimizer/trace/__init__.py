"""From a JAX function to programs and back: `trace` makes a jaxpr, `cut` parts it into regions that
are tensor programs and the rest, and `Spliced` runs it with something else in the place of its
regions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..._lazy import lazily

__all__ = [
    "CutFunction",
    "EquationKind",
    "Packed",
    "Piece",
    "SpliceError",
    "Spliced",
    "Subject",
    "cut",
]

if TYPE_CHECKING:
    from ..errors import SpliceError
    from .equations import EquationKind
    from .pieces import Piece, Subject
    from .splice import Packed, Spliced
    from .traced import CutFunction, cut
else:
    __getattr__ = lazily(
        __name__,
        {
            "CutFunction": ".traced",
            "EquationKind": ".equations",
            "Packed": ".splice",
            "Piece": ".pieces",
            "SpliceError": "..errors",
            "Spliced": ".splice",
            "Subject": ".pieces",
            "cut": ".traced",
        },
    )
