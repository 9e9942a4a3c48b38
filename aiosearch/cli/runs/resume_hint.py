"""The command line that resumes a search where it stopped."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence

from ...limits import Limits
from ...statistics import Statistics
from ..output.units import size


def resume_command(argv: Sequence[str], limits: Mapping[str, str] = {}) -> str:
    """What to type to go on where the journal of this command stops, with other limits."""
    words = ["aiosearch", *argv]
    for name, value in limits.items():
        _set(words, f"--{name}", value)
    if "--resume" not in words:
        words.append("--resume")
    return shlex.join(words)


def _set(words: list[str], flag: str, value: str) -> None:
    """Changes a flag where it is given, and gives it where another origin had set it."""
    places = [place for place, word in enumerate(words) if word.partition("=")[0] == flag]
    for place in places:
        if words[place] == flag:
            words[place + 1] = value
        else:
            words[place] = f"{flag}={value}"
    if not places:
        words += [flag, value]


def higher(limits: Limits, figures: Statistics) -> dict[str, str]:
    """As much again of what a search that was stopped by a limit has used up.

    Questions to z3 are counted from 0 in each run, so their limit may stay.
    """
    used = {"seconds": figures.seconds, "nodes": figures.nodes, "solutions": figures.solutions}
    raised = {
        name: f"{limit * (round(used[name] / limit) + 1):.15g}"
        for name in used
        if (limit := getattr(limits, name)) is not None and used[name] >= limit
    }
    if not raised and limits.memory is not None and not _asked_enough(limits, figures):
        raised["memory"] = size(2 * limits.memory).replace(" ", "")
    return raised


def _asked_enough(limits: Limits, figures: Statistics) -> bool:
    if limits.checks is None or figures.checks is None:
        return False
    return figures.checks.checks >= limits.checks
