"""Guesses: the candidates that noise may have hidden, as an `Answer` keeps them.

A search takes a minute, and what it leaves in doubt on a busy machine is which of a few candidates
is faster. So these are kept, in full, behind the original that they are raced against: the next
call compiles and races them, and searches nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from ..candidates.generation import CandidateSource

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(tuple[CandidateSource, ...]).decode


def encoded(original: CandidateSource, guesses: Sequence[CandidateSource]) -> str:
    """The text of `Answer.guesses`."""
    return _encode((original, *guesses)).decode()


def decoded(guesses: str) -> tuple[CandidateSource, ...]:
    """The contenders of the race that decides, the original first."""
    return _decode(guesses)
