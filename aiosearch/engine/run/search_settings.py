"""What a search is asked for beside its problem."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from ...limits import Limits

OnUnknown: TypeAlias = Literal["defer", "keep", "drop"]
OnError: TypeAlias = Literal["raise", "skip"]


@dataclass(frozen=True)
class SearchSettings:
    """What a `Search` was asked for, beside its problem and its order."""

    strategy: str
    limits: Limits
    journal: Path | None
    resume: bool
    seed: int
    on_unknown: OnUnknown
    on_error: OnError
    progress_seconds: float
