"""A race's times in every way of running: of the original, and of the answer."""

from __future__ import annotations

from typing import Any

from ..measure import Clock, Race, Way


def ways_of(race: Race, place: int) -> dict[str, Any]:
    """Seconds of a call by medians, for JSON: in each way, and of all threads of the process."""
    return {way.value: _facts(race, place, way) for way in race.ways}


def _facts(race: Race, place: int, way: Way) -> dict[str, float]:
    original, answer = (race.laps[at].samples[way] for at in (0, place))
    ratio = race.speedup(place, way=way)
    assert ratio is not None
    return {
        "original": original.median(),
        "answer": answer.median(),
        "speedup": ratio.median,
        "low": ratio.low,
        "high": ratio.high,
        "original_cpu": original.median(Clock.CPU),
        "answer_cpu": answer.median(Clock.CPU),
    }
