"""Any JAX function as regions that are tensor programs and the rest, and put together again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..._lazy import lazily

__all__ = ["Cut", "Kind", "Packed", "Piece", "SpliceError", "Spliced", "Subject", "cut"]

if TYPE_CHECKING:
    from .cutting import Cut, cut
    from .errors import SpliceError
    from .kinds import Kind
    from .pieces import Piece, Subject
    from .replacing import Packed
    from .splicing import Spliced
else:
    __getattr__ = lazily(
        __name__,
        {
            "Cut": ".cutting",
            "Kind": ".kinds",
            "Packed": ".replacing",
            "Piece": ".pieces",
            "SpliceError": ".errors",
            "Spliced": ".splicing",
            "Subject": ".pieces",
            "cut": ".cutting",
        },
    )
