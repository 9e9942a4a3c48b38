"""Why a contender is not taken, in words."""

from __future__ import annotations

from ..equivalence.floats import FloatEvidence
from ..measure import Race
from .deciding import ratio


def objection(floats: FloatEvidence) -> str:
    """Why a candidate is not taken that the floats do not speak for."""
    if floats.outcome == "differ":
        return f"not as accurate: {floats}"
    if floats.outcome == "unknown":
        return f"not to be judged, as no inputs tell: {floats}"
    unseen = ", ".join(map(str, floats.unseen))
    return f"not to be judged, as no inputs tell of output {unseen}: {floats}"


def lost(race: Race, place: int) -> str:
    """In which ways one that would be faster is slower."""
    seems = ratio(race, place) > 1
    slower = [
        f"{found.median:.2f} times {way.told}"
        for way in race.lost(place)
        if (found := race.speedup(place, way=way)) is not None
    ]
    return f"slower in some way: {', '.join(slower)}" if seems and slower else ""


def noise(race: Race) -> str:
    return f"{race.noise() or 0.0:.1%}"
