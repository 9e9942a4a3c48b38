"""`report_page`: a report as an HTML page that stands alone, for a browser; `report_fragment` is a
short form of it for a notebook.

The page has, in this order: how many times as fast the function is, and by what; its parts on its
own source; the best so far over time; and for each program its candidates with their times, noise,
verdicts and reasons, its place under the roofline, the program as a picture, and the code.
"""

from __future__ import annotations

import linecache
from collections.abc import Iterable, Sequence
from pathlib import Path

from ...display import charts, pages
from ...display.tables import time_text
from ...tensor import TensorError
from ...tensor.drawing import draw
from ...tensor.text import parse
from .answer import Answer
from .candidate_rows import CandidateRow, CandidateState, candidate_rows
from .function_parts import OUTSIDE, FunctionPart
from .plot import roofline_chart, times_chart
from .report import WHOLE, Found, Report, WholeFunctionResult, arrangement
from .report_table import became, part_row, speedup_text
from .roofline import why_faster

_PART_COLOURS = ("#0284c7", "#d97706", "#7c3aed", "#0f766e", "#be185d")
_OUTSIDE_COLOUR = "#94a3b8"
_CONTEXT_LINES = 2
"""Lines of source above and below a part that are shown."""


def report_page(report: Report, refresh: float | None = None) -> str:
    """The whole page; with `refresh` it is loaded again after so many seconds."""
    return pages.page(f"{title(report)} - aiosearch", *_sections(report), refresh=refresh)


def _sections(report: Report) -> list[str]:
    bodies = [_head(report), _parts(report), _history(report)]
    bodies += [_outcome(outcome, report) for outcome in report.found]
    return list(filter(None, [*bodies, _left_alone(report)]))


def running_page(
    name: str, standing: str, report: Report | None, lines: Sequence[str], refresh: float
) -> str:
    """The page of an optimization that goes on: how it stands, what it told, and the report of the
    best so far, where there is one."""
    bodies = [
        pages.element("h1", name),
        pages.section("Running", pages.element("p", standing)),
    ]
    if report is not None:
        bodies += [pages.element("h2", "The best so far"), *_sections(report)]
    if lines:
        bodies.append(
            pages.section("What it did, the last first", pages.code("\n".join(reversed(lines))))
        )
    return pages.page(f"{name} - aiosearch", *bodies, refresh=refresh)


def report_fragment(report: Report) -> str:
    """The headline, the parts and the candidates, for a notebook's cell."""
    bodies = [_head(report), _parts(report, source=False)]
    for outcome in report.found:
        name = f"{outcome.answer.name}: candidates"
        bodies.append(pages.section("", pages.details(name, _candidates(outcome))))
    return pages.fragment(*filter(None, bodies))


def title(report: Report) -> str:
    """The name of the function."""
    if isinstance(report.whole, WholeFunctionResult):
        return report.whole.answer.name.removesuffix(WHOLE)
    return report.found[0].answer.name if report.found else "nothing searched"


def _head(report: Report) -> str:
    speedup = report.speedup
    if speedup is None:
        gain = '<p><span class="big">as written</span>nothing faster is used</p>'
    else:
        claim = f"as fast as written{_interval(report)}"
        gain = f'<p><span class="big win">{speedup:.2f}x</span>{claim}</p>'
    figures = []
    timings = _timings(report)
    if timings is not None:
        figures.append(("as written", time_text(timings[0])))
        figures.append(("now", time_text(timings[1])))
        figures.append(("noise", f"{timings[2] - 1:.1%}"))
    figures.append(("parts searched", str(len(report.found))))
    figures.append(("faster and used", str(sum(map(report.used, report.found)))))
    figures.append(("searched for", f"{report.seconds:.3g} s"))
    where = ""
    if report.found:
        answer = report.found[0].answer
        where = pages.element(
            "p", f"{answer.key.device}, jax {answer.key.jax}, {answer.date}", "faint"
        )
    summary = pages.element("p", str(report.whole) if report.whole else str(report).split("\n")[0])
    unfinished = pages.element("p", report.going_on, "faint") if report.unfinished else ""
    heading = pages.element("h1", title(report))
    held = pages.element("p", report.held, "faint") if report.closed_over else ""
    facts = pages.facts(figures)
    return f"{heading}{where}<section>{gain}{summary}{facts}{unfinished}{held}</section>"


def _timed(report: Report) -> Answer | None:
    """The answer whose times are the function's; `None` where it was not timed."""
    if isinstance(report.whole, WholeFunctionResult):
        return report.whole.answer
    return report.found[0].answer if len(report.found) == 1 and not report.whole else None


def _timings(report: Report) -> tuple[float, float, float] | None:
    """Seconds of the function as written and now, and its noise; `None` where it was not timed."""
    answer = _timed(report)
    if answer is None:
        return None
    timings = answer.timings
    return timings.original, timings.answer if report.faster else timings.original, timings.noise


def _interval(report: Report) -> str:
    """What the claim is the lower end of: medians of times, which stand below it, say more."""
    answer = _timed(report)
    if answer is None or answer.evidence.between is None:
        return ""
    low, high = answer.evidence.between
    return f": the lower end of what was measured, {low:.2f} to {high:.2f} times"


def _parts(report: Report, source: bool = True) -> str:
    """Which part stands where, how much of the time it takes, and what became of it."""
    if not report.parts or not report.found:
        return ""
    head = ("part", "your code", "runs in a call", "of the time", "what became of it")
    winners = {
        number
        for number, part in enumerate(report.parts)
        if (outcome := report.found_for(part)) is not None and report.used(outcome)
    }
    rows = [part_row(report, part) for part in report.parts]
    bodies = [pages.table(head, rows, numbers={2}, winners=winners), _shares(report)]
    if not report.is_timed_whole:
        note = "Shares are of the time of these parts: the function as a whole was not timed."
        bodies.append(pages.element("p", note, "faint"))
    if source:
        bodies += _sources(report)
    if isinstance(report.whole, WholeFunctionResult):
        bodies.append(_arrangements(report.whole))
    return pages.section("Which part got faster", *bodies)


def _shares(report: Report) -> str:
    """Two bars of the function's time: as written and now, the parts in their colours."""
    shares = [report.share(part) for part in report.parts]
    if any(share.before is None or share.after is None for share in shares):
        return ""
    width, left = 900.0, 90.0
    timings = _timings(report)
    scales = (1.0, timings[1] / timings[0] if timings is not None else 1.0)
    lines = []
    columns = [(share.before or 0.0, share.after or 0.0) for share in shares]
    totals = [max(sum(column), 1e-9) for column in zip(*columns, strict=True)]
    bars = zip(("as written", "now"), scales, totals, strict=True)
    for at, (name, scale, total) in enumerate(bars):
        top, x = 8.0 + 34 * at, left
        lines.append(charts.text(left - 8, top + 16, name, charts.FAINT, "end"))
        for part, column in zip(report.parts, columns, strict=True):
            # Parts alone may take longer than in their places: together they have the whole bar.
            wide = (width - left) * scale * column[at] / max(total, 1.0)
            lines.append(
                f'<rect x="{x:.1f}" y="{top:.1f}" width="{wide:.1f}" height="24" '
                f'fill="{_colour(report, part)}"/>'
            )
            if wide > 8 * len(part.name):
                lines.append(charts.text(x + wide / 2, top + 16, part.name, "#ffffff", "middle"))
            x += wide
    return pages.picture(charts.document(width, 78, lines), "shares of the time")


def _colour(report: Report, part: FunctionPart) -> str:
    if part.name == OUTSIDE:
        return _OUTSIDE_COLOUR
    return _PART_COLOURS[report.parts.index(part) % len(_PART_COLOURS)]


def _sources(report: Report) -> list[str]:
    """The lines that the parts come from, each with the colour of its part; of files that can still
    be read."""
    bodies = []
    files = dict.fromkeys(place.file for part in report.parts for place in part.places)
    for file in files:
        lines = linecache.getlines(file)
        owners = {
            line: part
            for part in reversed(report.parts)  # what is outside stands behind what is searched
            for place in part.places
            if place.file == file
            for line in range(place.first, place.last + 1)
        }
        if lines and owners:
            text = "".join(_source_lines(report, lines, owners))
            bodies.append(pages.details(_shown_file(file), f"<pre>{text}</pre>", is_open=True))
    legend = "".join(
        f'<span style="color:{_colour(report, part)}">&#9632;</span> '
        f"{pages.escaped(part.name)}: {pages.escaped(became(report, part))}<br>"
        for part in report.parts
    )
    return [*bodies, f"<p>{legend}</p>"] if bodies else []


def _shown_file(file: str) -> str:
    """A path relative to the current folder, where the file is in there; else its name alone, as a
    page may be shown to others."""
    path = Path(file)
    try:
        return str(path.relative_to(Path.cwd()))
    except (ValueError, OSError):
        return path.name


def _source_lines(
    report: Report, lines: Sequence[str], owners: dict[int, FunctionPart]
) -> Iterable[str]:
    shown = {
        near
        for line in owners
        for near in range(line - _CONTEXT_LINES, line + _CONTEXT_LINES + 1)
        if 1 <= near <= len(lines)
    }
    before = 0
    for line in sorted(shown):
        if before and line > before + 1:
            yield '<span class="line"><i>   ...</i></span>'
        before = line
        part = owners.get(line)
        style = f' style="border-left-color:{_colour(report, part)}"' if part is not None else ""
        text = pages.escaped(lines[line - 1].rstrip("\n")) or " "
        yield f'<span class="line"{style}><i>{line:4d}</i>  {text}</span>'


def _arrangements(whole: WholeFunctionResult) -> str:
    """How the function as a whole fared with its parts replaced."""
    tried = whole.answer.evidence.tried
    rows = [
        (
            arrangement(trial.how) if number else trial.how,
            time_text(trial.seconds) if trial.seconds is not None else "",
            f"{trial.speedup:.2f}x" if trial.speedup is not None else trial.note,
        )
        for number, trial in enumerate(tried)
    ]
    if not rows:
        return ""
    winners = {number for number, trial in enumerate(tried) if trial.won}
    table = pages.table(("what is replaced", "time", "speed-up"), rows, {1, 2}, winners)
    return f"{pages.element('h3', 'Raced as a whole')}{table}"


def _history(report: Report) -> str:
    """The best so far over time."""
    if not report.history:
        return ""
    end = max(report.seconds, report.history[-1][0])
    best = [(0.0, 1.0), *report.history, (end, report.history[-1][1])]
    chart = charts.timeline({"": best}, "x", stepped={""})
    return pages.section("The best so far", pages.picture(chart, "the best so far over time"))


def _outcome(outcome: Found, report: Report) -> str:
    answer, used = outcome.answer, report.used(outcome)
    part = next((part for part in report.parts if part.name == answer.name), None)
    bodies = [
        pages.element("p", report.told(outcome), "win" if used else ""),
        pages.element("p", f"{answer.name}({answer.key.inputs})", "faint"),
        pages.picture(times_chart(outcome), "times of the candidates"),
        pages.element("h3", "Every candidate"),
        _candidates(outcome),
        pages.element("h3", "Under the roofline"),
        pages.picture(roofline_chart(outcome), "roofline"),
    ]
    if answer.faster:
        bodies.append(pages.element("h3", "Why it is faster"))
        bodies += [pages.element("p", line) for line in why_faster(answer)]
    bodies += _pictures(part.program if part is not None else "", answer.evidence.program or "")
    facts = "\n".join(answer.verdict) if answer.faster else ""
    if facts:
        bodies += [pages.element("h3", "How it is verified"), pages.code(facts, folded=True)]
    if answer.source:
        words = "Code, which is not used" if answer.faster else "Code as written"
        bodies.append(pages.details("Code" if used else words, pages.code(answer.text())))
    return pages.section(answer.name, *bodies)


def _candidates(outcome: Found) -> str:
    rows = candidate_rows(outcome)
    head = ("candidate", "time", "\N{PLUS-MINUS SIGN}", "speed-up", "verdict", "what became of it")
    winners = {number for number, row in enumerate(rows) if row.state is CandidateState.WINNER}
    return pages.table(head, map(_cells, rows), {1, 2, 3}, winners)


def _cells(row: CandidateRow) -> tuple[str | pages.HTML, ...]:
    became_text = row.state.value if not row.note else f"{row.state.value}: {row.reason}"
    if len(row.note) > len(row.reason):
        became_text += f" ({row.note})"
    return (
        pages.HTML(f"{pages.escaped(row.name)}{pages.element('div', row.schedule, 'small')}"),
        time_text(row.seconds) if row.seconds is not None else "",
        "" if row.noise is None else f"{row.noise:.0%}",
        speedup_text(row),
        row.verdict,
        became_text,
    )


def _pictures(original: str, answer: str) -> list[str]:
    """The programs as pictures: as written, and the answer where that is another one."""
    texts = {"The program as written": original, "The answer's program": answer}
    if answer == original or not original:
        texts = {"The program": answer or original}
    bodies = []
    for name, text in texts.items():
        drawing = _drawing(text)
        if drawing:
            body = pages.picture(drawing, name) + pages.code(text)
            bodies.append(pages.details(name, body))
    return bodies


def _drawing(text: str) -> str:
    try:
        return draw(parse(text)) if text else ""
    except TensorError:  # a text that an earlier version wrote
        return ""


def _left_alone(report: Report) -> str:
    if not report.left_alone:
        return ""
    items = "".join(pages.element("li", why) for why in report.left_alone)
    return pages.section("Left alone, and why", f"<ul>{items}</ul>")
