"""`report_table`: a report as text of some width, for a terminal, a file or a notebook.

    f: 1.42 times as fast as written, with 1 part replaced; noise 1.3%

    part       your code               runs    of the time  what became of it
    f          model.py:12-31 (block)    12  ~81% -> ~72%   1.52x, used
    f_2        model.py:40 (head)         1    ~9% -> ~13%  1.14x, not judged: rounding decides
    outside    model.py:44 (loss)         1         ~10%    sort

Below it, each program has the table of its candidates: the winner first and marked, the original
last, and under the table why what seemed faster was not taken.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence

from ...display.tables import Colour, lined_up, painted, time_text
from ...measure import Way
from ...measure.ratios import LOUD
from .answer import Answer
from .candidate_rows import CandidateRow, CandidateState, candidate_rows, is_worth_telling
from .function_parts import OUTSIDE, FunctionPart, SourcePlace
from .report import Found, Report
from .roofline import ceilings_of, roofline_fraction

SHOWN = 5
"""Candidates that are shown beside the original."""
_EXPLAINED = 3
"""Candidates of which it is said why they were not taken; the others are counted."""
_MARK = ">"
"""Stands before the winner."""


def report_table(report: Report, *, width: int = 80, colour: bool = False) -> str:
    """The report as text, in lines of at most `width` columns where words allow it."""
    writer = _TableWriter(width, colour)
    return "\n".join(writer.report(report))


class _TableWriter:
    def __init__(self, width: int, colour: bool) -> None:
        self.width = width
        self.colour = colour

    def report(self, report: Report) -> list[str]:
        """All of it, an empty line between two parts."""
        blocks = [self._head(report), self._parts(report)]
        blocks += [self._outcome(outcome, report) for outcome in report.found]
        blocks += [self.wrapped(f"left alone: {why}") for why in report.left_alone]
        if not report.found and not report.left_alone:
            blocks.append(["nothing in it can be searched"])
        if report.found and all(ceilings_of(outcome.answer) is None for outcome in report.found):
            hint = "the device's ceilings are not measured: aiosearch doctor --measure"
            blocks.append([self.paint(hint, Colour.FAINT)])
        if report.unfinished:
            blocks.append(self.wrapped(report.going_on))
        if report.closed_over:
            blocks.append(self.wrapped(report.held))
        return [line for block in _apart(blocks) for line in block]

    def paint(self, text: str, *colours: Colour) -> str:
        return painted(text, *colours) if self.colour else text

    def wrapped(self, text: str, indent: str = "", first: str | None = None) -> list[str]:
        """The text in lines: `first` stands before the first one, `indent` before the others."""
        return textwrap.wrap(
            text,
            self.width,
            initial_indent=indent if first is None else first,
            subsequent_indent=indent or "  ",
            break_long_words=False,
            break_on_hyphens=False,
        )

    def _head(self, report: Report) -> list[str]:
        if not report.whole:
            return []
        lines = self.wrapped(str(report.whole))
        colours = (Colour.BOLD, Colour.GREEN) if report.faster else (Colour.BOLD,)
        return [self.paint(line, *colours) for line in lines]

    def _parts(self, report: Report) -> list[str]:
        """Which part stands where, how much of the time it takes, and what became of it."""
        if not report.parts or not report.found:
            return []
        if len(report.parts) == 1 and not report.whole:
            (part,) = report.parts
            return self.wrapped(f"it is {_places(part)}") if part.places else []
        head = ("part", "your code", "runs", "of the time", "what became of it")
        rows = [head, *(part_row(report, part) for part in report.parts)]
        lines = self._table(rows, right={2, 3}, winners=[
            number for number, part in enumerate(report.parts, 1)
            if (outcome := report.found_for(part)) is not None and report.used(outcome)
        ])  # fmt: skip
        if not report.is_timed_whole:
            note = "of the time of these parts: the function as a whole was not timed"
            lines.append(self.paint(note, Colour.FAINT))
        return lines

    def _outcome(self, outcome: Found, report: Report) -> list[str]:
        """What was found for one program."""
        answer, used = outcome.answer, report.used(outcome)
        head = self.wrapped(report.told(outcome))
        if used and not report.whole:
            head = [self.paint(line, Colour.BOLD, Colour.GREEN) for line in head]
        head += self.wrapped(f"{answer.name}({answer.key.inputs}) on {answer.key.device}")
        return [
            *head,
            *self._candidates(outcome),
            *self._ways(answer),
            *self._reasons(outcome),
            *self._facts(outcome, used),
        ]

    def _candidates(self, outcome: Found) -> list[str]:
        rows = shown_rows(outcome)
        if not rows:
            return []
        head = ("", "candidate", "time", "\N{PLUS-MINUS SIGN}", "speed-up", "verdict")
        winners = [
            number for number, row in enumerate(rows, 1) if row.state is CandidateState.WINNER
        ]
        lines = self._table([head, *map(_cells, rows)], right={2, 3, 4}, winners=winners)
        if any(speedup_text(row).startswith("~") for row in rows):
            note = f"~ is uncertain: its noise is above {LOUD:.0%}"
            lines.append(self.paint(note, Colour.FAINT))
        return lines

    def _table(
        self, rows: Sequence[Sequence[str]], right: Iterable[int], winners: Iterable[int]
    ) -> list[str]:
        lines = lined_up(rows, frozenset(right), self.width)
        lines[0] = self.paint(lines[0], Colour.FAINT)
        for number in winners:
            texts = lines[number].split("\n")
            lines[number] = "\n".join(self.paint(text, Colour.BOLD, Colour.GREEN) for text in texts)
        return lines

    def _ways(self, answer: Answer) -> list[str]:
        """The original and the answer in every way that was timed, and what all their threads
        took."""
        if not answer.evidence.ways or not answer.faster:
            return []
        head = ("run", "as written", "answer", "speed-up", "CPU time", "of the answer")
        rows = [
            (
                Way(name).told,
                time_text(times.original),
                time_text(times.answer),
                f"{times.speedup:.2f}x",
                time_text(times.original_cpu),
                time_text(times.answer_cpu),
            )
            for name, times in answer.evidence.ways.items()
        ]
        return self._table([head, *rows], right={1, 2, 3, 4, 5}, winners=())

    def _reasons(self, outcome: Found) -> list[str]:
        """Why what seemed faster was not taken, the fastest first."""
        noted = [row for row in candidate_rows(outcome) if row.note]
        rows = [row for row in noted if is_worth_telling(row)]
        shown = rows[:_EXPLAINED]
        lines: list[str] = []
        for row in shown:
            speed = f"{row.speedup:.2f}x, " if row.speedup else ""
            lines += self.wrapped(f"not taken: {row.name}: {speed}{row.reason}", "    ", "  ")
        if hidden := len(noted) - len(shown):
            lines.append(f"  not taken either: {hidden} that --report names")
        return lines

    def _facts(self, outcome: Found, used: bool) -> list[str]:
        """The verdict of the answer, its errors, and how near it is to what the device can do."""
        facts = outcome.answer.evidence
        lines = []
        if outcome.answer.faster and facts.between is not None:
            low, high = facts.between
            lines.append(
                f"its speed-up is {low:.2f} to {high:.2f} with 95 % confidence, of which the lower"
                " end is claimed"
            )
        lines += list(outcome.answer.verdict) if outcome.answer.faster else []
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
        wrapped = [self.wrapped(line.strip(), "    ", "  ") for line in lines]
        return [line for several in wrapped for line in several]


def _apart(blocks: Iterable[Sequence[str]]) -> list[Sequence[str]]:
    """The blocks that have something, an empty line between two."""
    separated: list[Sequence[str]] = []
    for block in filter(None, blocks):
        separated += [block] if not separated else [[""], block]
    return separated


def shown_rows(outcome: Found) -> list[CandidateRow]:
    """The fastest few and the original; the others are told in words, or on the page alone."""
    timed = [row for row in candidate_rows(outcome) if row.seconds is not None]
    return [*timed[:-1][:SHOWN], *timed[-1:]]


def _cells(row: CandidateRow) -> tuple[str, ...]:
    mark = _MARK if row.state is CandidateState.WINNER else ""
    name = f"{row.name} (not taken)" if row.state is CandidateState.NOT_TAKEN else row.name
    noise = "" if row.noise is None else f"{row.noise:.0%}"
    speedup = speedup_text(row)
    verdict = "" if row.state is CandidateState.ORIGINAL else row.verdict.partition(" — ")[0]
    return mark, name, time_text(row.seconds or 0.0), noise, speedup, verdict


def speedup_text(row: CandidateRow) -> str:
    """Writes 1.84x, or ~1.84x where the noise is so loud that it says little."""
    if row.speedup is None:
        return ""
    about = "~" if row.noise is not None and row.noise > LOUD else ""
    return f"{about}{row.speedup:.2f}x"


def part_row(report: Report, part: FunctionPart) -> tuple[str, ...]:
    """A part as cells: its name, its place, how often it runs, its share of the time, and what
    became of it."""
    share = report.share(part)
    if share.before is None or share.after is None:
        text = ""
    elif abs(share.before - share.after) < 0.005:
        text = f"~{share.before:.0%}"
    else:
        text = f"~{share.before:.0%} -> ~{share.after:.0%}"
    runs = "" if part.name == OUTSIDE else str(part.occurrences)
    return part.name, _places(part), runs, text, became(report, part)


def became(report: Report, part: FunctionPart) -> str:
    """What became of a part, in a few words."""
    outcome = report.found_for(part)
    if outcome is None:
        if part.name == OUTSIDE:
            names = part.operations
            shown = ", ".join(names[:4]) + (", ..." if len(names) > 4 else "")
            return f"stays with JAX: {shown}"
        return "not searched"
    if outcome.answer.faster:
        gain = f"{outcome.answer.speedup:.2f}x"
        return f"{gain}, used" if report.used(outcome) else f"{gain} alone, not used"
    rows = [row for row in candidate_rows(outcome) if row.state is CandidateState.NOT_TAKEN]
    if rows and (rows[0].speedup or 0.0) > 1:
        return f"nothing taken: {rows[0].speedup:.2f}x, {rows[0].reason}"
    return "nothing faster for certain" if outcome.in_doubt else "nothing faster"


def _places(part: FunctionPart) -> str:
    """Each file once, from the first line to the last, and the functions that they are in."""
    texts = []
    for file in dict.fromkeys(place.file for place in part.places):
        inside = [place for place in part.places if place.file == file]
        functions = ", ".join(place.function for place in sorted(inside, key=_first_line))
        last = max(place.last for place in inside)
        texts.append(str(SourcePlace(file, functions, min(map(_first_line, inside)), last)))
    return "; ".join(texts)


def _first_line(place: SourcePlace) -> int:
    return place.first


def _reaching(part: float) -> str:
    """More than was measured is no part of what the device can do."""
    if part <= 1:
        return f"reaches {part:.0%} of what the device can do"
    return (
        f"reaches {part:.0%} of what was measured of the device: its arrays lie in a cache, or the"
        " machine was busy then; aiosearch doctor --measure does it again"
    )
