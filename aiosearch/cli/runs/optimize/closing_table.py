"""The closing table of `aiosearch optimize`: the best candidates and the evidence for them."""

from __future__ import annotations

from ....measure import Way
from ....optimizer import Answer, Found, Report, Tried, roofline_fraction
from ...output.table import table

SHOWN = 5
"""Ways that are shown beside the original."""


def closing_table(outcome: Found, report: Report) -> str:
    """What was found for one program, below what is said of it."""
    answer = outcome.answer
    head = f"{report.told(outcome)}\n{answer.name}({answer.key.inputs}) on {answer.key.device}"
    rows = [_row(tried) for tried in _few(outcome)]
    titles = ("how", "time", "between", "speed-up", "verdict")
    parts = [head, table([titles, *rows], right=frozenset({1, 2, 3}))]
    return "\n".join(
        [*parts, *_ways(answer), *_notes(outcome), *_verdict_lines(outcome, report.used(outcome))]
    )


def _few(outcome: Found) -> list[Tried]:
    """The original and the fastest; those without times are told in words."""
    timed = [tried for tried in outcome.tried if tried.seconds is not None]
    slower = sorted(timed[1:], key=lambda tried: -(tried.speedup or 0.0))
    return [*slower[:SHOWN], *timed[:1]]


def _row(tried: Tried) -> tuple[str, ...]:
    assert tried.seconds is not None
    assert tried.low is not None
    assert tried.high is not None
    between = f"{time(tried.low)} to {time(tried.high)}"
    how = f"{tried.how} (out)" if tried.note else tried.how
    return how, time(tried.seconds), between, f"{tried.speedup or 0:.2f}x", tried.verdict


def _ways(answer: Answer) -> list[str]:
    """The original and the answer in every way that was timed, and what all their threads took."""
    ways = answer.evidence.ways
    if not ways or not answer.faster:
        return []
    titles = ("run", "as written", "answer", "speed-up", "CPU time as written", "of the answer")
    rows = [
        (
            Way(name).told,
            time(times.original),
            time(times.answer),
            f"{times.speedup:.2f}x",
            time(times.original_cpu),
            time(times.answer_cpu),
        )
        for name, times in ways.items()
    ]
    return [table([titles, *rows], right=frozenset(range(1, 6)))]


def _notes(outcome: Found) -> list[str]:
    return [f"  {tried.how}: {tried.note}" for tried in outcome.tried if tried.note]


def _verdict_lines(outcome: Found, used: bool) -> list[str]:
    """The verdict of the answer, its errors, and how near it is to what the device can do."""
    facts = outcome.answer.evidence
    lines = list(outcome.answer.verdict) if outcome.answer.faster else []
    if facts.answer_error_ulp is not None and facts.original_error_ulp is not None:
        lines.append(
            f"  largest error {facts.answer_error_ulp:.2f} ulp, of the original"
            f" {facts.original_error_ulp:.2f}"
        )
    if facts.packed_bytes is not None and used:
        lines.append(f"  keeps {facts.packed_bytes / 1e6:.3g} MB that are made beforehand")
    if facts.timed_on is not None:
        lines.append(f"  timed on {facts.timed_on}")
    part = roofline_fraction(outcome.answer)
    if part is not None:
        lines.append(f"  {_reaching(part)}")
    return lines


def _reaching(part: float) -> str:
    """More than was measured is no part of what the device can do."""
    if part <= 1:
        return f"reaches {part:.0%} of what the device can do"
    return (
        f"reaches {part:.0%} of what was measured of the device: its arrays lie in a cache, or the"
        " machine was busy then; aiosearch doctor --measure does it again"
    )


def time(seconds: float) -> str:
    """Writes 850 ns, 12.3 us or 4.56 ms."""
    for unit, factor in (("ns", 1e9), ("us", 1e6), ("ms", 1e3)):
        if seconds * factor < 999.5:
            return f"{seconds * factor:.3g} {unit}"
    return f"{seconds:.3g} s"
