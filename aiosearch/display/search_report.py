"""`SearchReport`: a hook that remembers how a search went, and shows it as an HTML page.

It keeps a sample of each `Progress` event, thinned out so that a search of days has no more than
one of hours, and sums of what each worker reported.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from ..events import (
    AnyEvent,
    Checked,
    Improved,
    Progress,
    SearchFinished,
    SearchStarted,
    Warned,
    WorkerJoined,
    WorkerLost,
    WorkReported,
)
from ..folders import replace_file
from . import charts, pages
from .status_line import gap_share

MOST_SAMPLES = 1000
"""Samples that are kept; when there are more, every second one goes."""
_MOST_IMPROVEMENTS = 200
"""Improvements that the page lists: the last ones."""
_LONGEST = 120
"""Characters of a solution that are shown."""
Series: TypeAlias = list[tuple[float, float]]


@dataclass
class _WorkerSums:
    """What a worker reported in all."""

    place: str = ""
    nodes: int = 0
    busy: float = 0.0
    waiting: float = 0.0
    reports: int = 0
    deaths: int = 0


@dataclass
class _Samples:
    """Values over time, no more than `MOST_SAMPLES` of them."""

    events: list[Progress] = field(default_factory=list)
    _every: int = 1
    _seen: int = 0

    def add(self, event: Progress) -> None:
        if self._seen % self._every == 0:
            self.events.append(event)
        self._seen += 1
        if len(self.events) > MOST_SAMPLES:
            self.events = self.events[::2]
            self._every *= 2


class SearchReport:
    """A hook that gathers what a page about a search shows.

        report = SearchReport("search.html")
        await Search(problem, on=report).wait()

    With a path the page is written when the search has finished, whole; `save` writes it at any
    time, and `page` gives it. In a notebook it shows itself. The bound and the gap are those of the
    search where its order goes by the problem's `bound`; elsewhere `bound` may name a lower bound
    of all costs.
    """

    def __init__(self, path: str | Path | None = None, *, bound: float | None = None) -> None:
        self._path = None if path is None else Path(path).expanduser()
        self._bound = bound
        self._started: SearchStarted | None = None
        self._finished: SearchFinished | None = None
        self._samples = _Samples()
        self._last: Progress | None = None
        self._improvements: list[Improved] = []
        self._best: Series = []
        self._bounds: Series = []
        self.depths = Counter[int]()
        """About how many nodes lie at which depth."""
        self._workers: dict[int, _WorkerSums] = {}
        self._verdicts = Counter[str]()
        self._warnings: list[str] = []

    def __call__(self, event: AnyEvent) -> None:
        match event:
            case SearchStarted():
                self._started = event
            case Progress():
                self._samples.add(event)
                self._last = event
                self._bounded(event)
            case Improved():
                self._improvements = [*self._improvements, event][-_MOST_IMPROVEMENTS:]
                if event.cost is not None:
                    self._best.append((event.seconds, event.cost))
            case WorkReported():
                self._worked(event)
            case WorkerJoined():
                self._of(event.worker).place = event.host or f"process {event.pid}"
            case WorkerLost():
                self._of(event.worker).deaths += event.died
            case Checked():
                self._verdicts[event.status] += 1
            case Warned():
                self._warnings.append(event.message)
            case SearchFinished():
                self._finished = event
                if self._path is not None:
                    self.save(self._path)

    def save(self, path: str | Path) -> Path:
        """Writes the page, and gives its path; the file is there whole, or as it was. Raises
        `OSError` where it cannot be written."""
        place = Path(path).expanduser()
        replace_file(place, self.page().encode())
        return place

    def page(self, refresh: float | None = None) -> str:
        """The page as it is now; with `refresh`, loaded again after so many seconds until the
        search has ended."""
        again = None if self._finished is not None else refresh
        return pages.page(f"{self._title} - aiosearch", *self._sections(), refresh=again)

    def _repr_html_(self) -> str:
        return pages.fragment(*self._sections())

    @property
    def finished(self) -> bool:
        """Whether the search has ended."""
        return self._finished is not None

    def _of(self, worker: int) -> _WorkerSums:
        return self._workers.setdefault(worker, _WorkerSums())

    def _bounded(self, event: Progress) -> None:
        """Keeps the bound where it rose; as it was true, it never falls."""
        if event.bound is not None and (not self._bounds or event.bound > self._bounds[-1][1]):
            self._bounds.append((event.seconds, event.bound))
            if len(self._bounds) > MOST_SAMPLES:
                self._bounds = [*self._bounds[:-1:2], self._bounds[-1]]

    def _worked(self, event: WorkReported) -> None:
        self.depths.update(event.depths)
        sums = self._of(event.worker)
        sums.nodes += event.nodes
        sums.busy += event.busy
        sums.waiting += event.waiting
        sums.reports += 1

    @property
    def _title(self) -> str:
        return "a search" if self._started is None else self._started.problem[:_LONGEST]

    def _sections(self) -> list[str]:
        return list(filter(None, (
            self._head(), self._progress(), self._costs(), self._tree(), self._table_of_workers(),
            self._checks(), self._list_of_improvements(), self._told_warnings(),
        )))  # fmt: skip

    def _head(self) -> str:
        how = ""
        if self._started is not None:
            slots = f"{self._started.workers} workers" if self._started.workers else "this process"
            how = f"{self._started.order}, strategy {self._started.strategy}, {slots}"
        heading = pages.element("h1", self._title) + pages.element("p", how, "faint")
        status = "running" if self._finished is None else self._finished.status
        reason = "" if self._finished is None else self._finished.reason
        text = f'<p><span class="big">{pages.escaped(status)}</span>{pages.escaped(reason)}</p>'
        return f"{heading}<section>{text}{pages.facts(self._figures())}</section>"

    def _figures(self) -> list[tuple[str, str]]:
        last, end = self._last, self._finished
        nodes = end.nodes if end is not None else last.nodes if last is not None else 0
        seconds = end.seconds if end is not None else last.seconds if last is not None else 0.0
        solutions = end.solutions if end is not None else last.solutions if last is not None else 0
        figures = [("nodes", f"{nodes:,}"), ("seconds", f"{seconds:,.1f}")]
        if seconds > 0:
            figures.append(("nodes a second", f"{nodes / seconds:,.0f}"))
        figures.append(("solutions", f"{solutions:,}"))
        if self._best:
            figures.append(("best cost", f"{self._best[-1][1]:g}"))
        bound = self._bound_now
        if bound is not None and self._best:
            figures.append(("bound", f"{bound:g}"))
            figures.append(("gap", _gap(self._best[-1][1], bound)))
        if last is not None and last.explored is not None and end is None:
            figures.append(("explored", f"{last.explored:.1%}"))
        if last is not None and last.remaining is not None and end is None:
            figures.append(("seconds left", f"{last.remaining:,.0f}"))
        return figures

    @property
    def _bound_now(self) -> float | None:
        """What no cost is below: the best one itself, when everything was explored."""
        if self._is_complete and self._best:
            return self._best[-1][1]
        known = [self._bounds[-1][1]] if self._bounds else []
        return max([*known, *([] if self._bound is None else [self._bound])], default=None)

    @property
    def _is_complete(self) -> bool:
        return self._finished is not None and self._finished.status == "complete"

    def _progress(self) -> str:
        samples = self._samples.events
        if len(samples) < 2:
            return ""
        counts = [(event.seconds, float(event.nodes)) for event in samples]
        if self._finished is not None:
            counts.append((self._finished.seconds, float(self._finished.nodes)))
        nodes = {"": counts}
        bodies = [
            pages.element("h3", "Nodes"),
            pages.picture(charts.timeline(nodes), "nodes over time"),
        ]
        rate = {"": [(event.seconds, event.nodes_per_second) for event in samples]}
        open_ = {"": [(event.seconds, float(event.open)) for event in samples]}
        bodies.append(pages.element("h3", "Nodes a second"))
        bodies.append(pages.picture(charts.timeline(rate), "nodes a second over time"))
        bodies.append(pages.element("h3", "Open subtrees"))
        bodies.append(pages.picture(charts.timeline(open_), "open subtrees over time"))
        explored = [
            (event.seconds, 100 * event.explored) for event in samples if event.explored is not None
        ]
        if len(explored) > 1:
            bodies.append(pages.element("h3", "Explored share of the tree"))
            bodies.append(pages.picture(charts.timeline({"": explored}, "%"), "explored share"))
        return pages.section("Progress", *bodies)

    def _costs(self) -> str:
        if not self._best:
            return ""
        last = self._finished or self._last
        end = self._best[-1][0] if last is None else max(last.seconds, self._best[-1][0])
        best = [*self._best, (end, self._best[-1][1])]
        series: dict[str, Series] = {"best": best}
        bounds = self._bound_over_time(end)
        if bounds:
            series["bound"] = bounds
        # Costs may be negative, which the chart has no room for: then the list below has them.
        if min(value for values in series.values() for _, value in values) < 0:
            return ""
        chart = charts.timeline(series, stepped={"best", "bound"}, flat={"bound"})
        bodies = [pages.picture(chart, "the best cost over time")]
        gaps = _gaps(best, bounds)
        if gaps:
            bodies.append(pages.element("h3", "Gap between the best cost and the bound"))
            bodies.append(
                pages.picture(charts.timeline({"": gaps}, "%", stepped={""}), "gap over time")
            )
        return pages.section("Best cost and bound", *bodies)

    def _bound_over_time(self, end: float) -> Series:
        """The bound as it rose, up to the best cost where everything was explored."""
        start = [] if self._bound is None else [(0.0, self._bound)]
        bounds = [*start, *(pair for pair in self._bounds if not start or pair[1] > start[0][1])]
        if not bounds:
            return []
        return [*bounds, (end, self._best[-1][1] if self._is_complete else bounds[-1][1])]

    def _tree(self) -> str:
        """How many nodes lie at which depth."""
        if len(self.depths) < 2:
            return ""
        picture = pages.picture(charts.columns(self.depths), "nodes by depth")
        return pages.section("The tree by depth", picture)

    def _table_of_workers(self) -> str:
        if not self._workers:
            return ""
        head = ("worker", "where", "nodes", "busy", "waiting for verdicts", "reports", "deaths")
        rows = [
            (
                str(number),
                sums.place,
                f"{sums.nodes:,}",
                f"{sums.busy:,.1f} s",
                f"{sums.waiting:,.1f} s",
                f"{sums.reports:,}",
                str(sums.deaths),
            )
            for number, sums in sorted(self._workers.items())
        ]
        return pages.section("Workers", pages.table(head, rows, {2, 3, 4, 5, 6}))

    def _checks(self) -> str:
        last = self._last
        if not self._verdicts and (last is None or not (last.checks or last.cache_hits)):
            return ""
        rows = [(status, f"{number:,}") for status, number in self._verdicts.most_common()]
        if last is not None:
            rows.append(("questions to z3", f"{last.checks:,}"))
            rows.append(("answered by the cache", f"{last.cache_hits:,}"))
        return pages.section(
            "Verdicts and their cache", pages.table(("verdict", "count"), rows, {1})
        )

    def _list_of_improvements(self) -> str:
        if not self._improvements:
            return ""
        head = ("number", "after", "cost", "worker", "solution")
        rows = [
            (
                str(event.number),
                f"{event.seconds:.2f} s",
                "" if event.cost is None else f"{event.cost:g}",
                str(event.worker),
                _shortened(event.solution),
            )
            for event in reversed(self._improvements)
        ]
        name = f"The last {len(rows)} solutions" if len(rows) > 1 else "The solution"
        return pages.section("", pages.details(name, pages.table(head, rows, {0, 1, 2, 3})))

    def _told_warnings(self) -> str:
        if not self._warnings:
            return ""
        counts: Mapping[str, int] = Counter(self._warnings)
        items = (
            pages.element("li", text if count == 1 else f"{text} ({count} times)")
            for text, count in counts.items()
        )
        return pages.section("Warnings", f"<ul>{''.join(items)}</ul>")


def _shortened(value: object) -> str:
    text = " ".join(repr(value).split())
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."


def _gap(cost: float, bound: float) -> str:
    return f"{gap_share(cost, bound):.1%}"


def _gaps(best: Series, bounds: Series) -> Series:
    """The gap in per cent, at each moment at which the best cost or the bound changed."""
    gaps: Series = []
    for moment in sorted({seconds for seconds, _ in (*best, *bounds)}):
        costs = [cost for seconds, cost in best if seconds <= moment]
        known = [bound for seconds, bound in bounds if seconds <= moment]
        if costs and known:
            gaps.append((moment, 100 * gap_share(costs[-1], known[-1])))
    return gaps
