"""A process of its own that optimizes one subject, or measures what was found for it.

`python -m lib.programs.trial search|measure GROUP NAME STORE OUT SETTING`

`search` optimizes with an empty store, as a user's first call does. `measure` starts afresh, has
`optimize` give the answer that is remembered, and times it against `jax.jit` in every way of
`Calling`; it checks results against float64 on the arguments, and on others. Both write what they
found to OUT as JSON, and die of a limit where `contest` ends them.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from lib.optimizer.agreement import alike, as_near, leaves
from lib.programs.subject import Function, subjects
from lib.programs.ways import Calling, WayTimes, timed
from msgspec import Struct
from msgspec.json import decode, encode

from aiosearch.errors import AiosearchError
from aiosearch.optimizer.optimization import optimize_sync
from aiosearch.optimizer.outcomes.report import Found, Report, WholeFunctionResult
from aiosearch.optimizer.outcomes.results import Results

SEEDS = (0, 1, 2)
"""The first draws the arguments that a subject is optimized and timed on; results are checked on
all."""


class Setting(Struct, frozen=True):
    """How a subject is optimized and timed."""

    effort: str
    seconds: float
    """For each way of calling."""


class Told(Struct, frozen=True):
    """What `optimize` says of a subject."""

    seconds: float
    """Until it answered, without the imports of the library."""
    error: str = ""
    """Why it gave no answer."""
    faster: bool = False
    claimed: float | None = None
    programs: int = 0
    """Programs that were searched in it."""
    left_alone: tuple[str, ...] = ()
    """What was not, and why."""
    unjudged: tuple[str, ...] = ()
    """Why candidates were not judged, each reason once."""
    rejected: tuple[str, ...] = ()
    """Why candidates that were faster are out, each reason once."""
    in_doubt: bool = False
    lines: tuple[str, ...] = ()
    """The report."""


class Measured(Struct, frozen=True):
    """What an independent measurement says."""

    told: Told
    """By the process that measures: the answer is remembered, or searched again."""
    ways: dict[str, dict[str, float]] = {}
    slower: tuple[str, ...] = ()
    """Ways in which it is slower beyond noise, twice."""
    right: bool | None = None
    off: str = ""
    """In what it is wrong."""


def main(arguments: Sequence[str]) -> None:
    phase, group, name, store, out, setting_text = arguments
    (subject,) = (each for each in subjects(group) if each.name == name)
    setting = decode(setting_text, type=Setting)
    function, values = subject.made()
    with Results.open(Path(store)) as results:
        told, fast = answered(function, values, setting, results)
    if phase == "search":
        Path(out).write_bytes(encode(told))
        return
    if fast is None:
        Path(out).write_bytes(encode(Measured(told)))
        return
    off = objections(subject.made, fast)
    naive = jax.jit(function)
    ways, slower = measured(lambda: naive(*values), lambda: fast(*values), setting.seconds)
    facts = {way: times.facts() for way, times in ways.items()}
    Path(out).write_bytes(encode(Measured(told, facts, tuple(slower), not off, "; ".join(off))))


def answered(
    function: Function, values: Sequence[Any], setting: Setting, store: Results
) -> tuple[Told, Function | None]:
    """What `optimize` gives, and what it says."""
    started = time.perf_counter()
    try:
        fast = optimize_sync(function, *values, effort=setting.effort, target="cpu", results=store)
    except AiosearchError as error:
        seconds = time.perf_counter() - started
        return Told(seconds, error=f"{type(error).__name__}: {error}"), None
    seconds = time.perf_counter() - started
    assert fast.report is not None
    return summary(fast.report, seconds), fast


def summary(report: Report, seconds: float) -> Told:
    notes = dict.fromkeys(tried.note for outcome in report.found for tried in outcome.tried)
    unjudged = tuple(note for note in notes if note.startswith("not judged"))
    return Told(
        seconds,
        faster=report.faster,
        claimed=report.speedup,
        programs=len(report.found),
        left_alone=report.left_alone,
        unjudged=unjudged,
        rejected=tuple(dict.fromkeys(why for each in report.found for why in lost(each))),
        in_doubt=in_doubt(report),
        lines=tuple(str(report).splitlines()),
    )


def in_doubt(report: Report) -> bool:
    """Whether the machine was too noisy to tell of a part, or of the function as a whole."""
    whole = report.whole
    return any(each.in_doubt for each in report.found) or (
        isinstance(whole, WholeFunctionResult) and whole.in_doubt
    )


def lost(outcome: Found) -> list[str]:
    """Why candidates of a program are out although they ran faster than the original."""
    return [
        f"{tried.speedup:.2f} times as fast: {tried.note}"
        for tried in outcome.tried
        if tried.note and tried.speedup is not None and tried.speedup > 1.1
    ]


def measured(
    base: Callable[[], Any], other: Callable[[], Any], seconds: float
) -> tuple[dict[str, WayTimes], list[str]]:
    """All ways, and those in which the other is slower; a loss is timed once more."""
    ways, slower = {}, []
    for way in Calling:
        ways[way.value] = timed(way, base, other, seconds)
        if ways[way.value].wall.slower and timed(way, base, other, seconds, 1).wall.slower:
            slower.append(way.value)
    return ways, slower


# Whether it is right


def objections(
    made: Callable[[int], tuple[Function, tuple[Any, ...]]], fast: Function
) -> list[str]:
    """What is wrong with results; nothing where they are the function's but for rounding."""
    off = []
    for seed in SEEDS:
        function, values = made(seed)
        ours, theirs = leaves(jax.jit(function)(*values)), leaves(fast(*values))
        if alike(ours, theirs):
            continue
        truth = in_float64(function, values)
        if truth is None or not (as_near(ours, theirs, truth) or at_truth(theirs, truth)):
            off.append(f"arguments {seed}: {distance(ours, theirs, truth)}")
    return off


def at_truth(theirs: Sequence[Any], truth: Sequence[Any]) -> bool:
    """Whether results are the truth but for rounding, however far from it the original is."""
    if len(theirs) != len(truth):
        return False
    typed = [wide.astype(own.dtype) for own, wide in zip(theirs, truth, strict=True)]
    return alike(typed, theirs)


def in_float64(function: Function, values: Sequence[Any]) -> list[Any] | None:
    """What a function computes where all floats of its arguments are float64; `None` where it
    does not take them."""

    def wide(leaf: Any) -> Any:
        kind = jnp.result_type(leaf)
        return jnp.asarray(leaf, jnp.float64) if jnp.issubdtype(kind, jnp.floating) else leaf

    with jax.enable_x64(True):
        try:
            return leaves(jax.jit(function)(*jax.tree.map(wide, values)))
        except TypeError:
            return None


def distance(ours: Sequence[Any], theirs: Sequence[Any], truth: Sequence[Any] | None) -> str:
    """How far from the original, and from the truth, in words."""
    if [each.shape for each in ours] != [each.shape for each in theirs]:
        return "results of other shapes"
    text = f"from the original by {farthest(theirs, ours):.1e} of the largest element"
    if truth is None:
        return text
    return (
        f"{text}, from float64 by {farthest(theirs, truth):.1e},"
        f" the original by {farthest(ours, truth):.1e}"
    )


def farthest(results: Sequence[Any], truth: Sequence[Any]) -> float:
    """The largest difference, of the largest element of its array."""
    pairs = [
        (np.asarray(one, np.float64), np.asarray(two, np.float64))
        for one, two in zip(results, truth, strict=True)
    ]
    return max(
        (
            float(np.max(np.abs(one - two), initial=0) / max(np.max(np.abs(two), initial=0), 1e-30))
            for one, two in pairs
        ),
        default=0.0,
    )


if __name__ == "__main__":
    main(sys.argv[1:])
