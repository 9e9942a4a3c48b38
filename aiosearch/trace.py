"""A Chrome trace of a search: a file that Perfetto shows as one lane per process."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import IO, Any

import msgspec

from .errors import AiosearchError
from .events import (
    AnyEvent,
    Checked,
    Improved,
    Progress,
    SearchFinished,
    SearchStarted,
    TaskAssigned,
    Warned,
    WorkerJoined,
    WorkerLost,
    WorkReported,
)

SEARCH, WORKERS, Z3 = 1, 2, 3
"""The groups of lanes, which the format calls processes."""
_NAMES = {SEARCH: "search", WORKERS: "workers", Z3: "z3 processes"}
_START = b'{"displayTimeUnit":"ms","traceEvents":[\n'
_LONGEST = 200
"""Characters of a solution that are shown."""

_encode = msgspec.json.Encoder().encode


class ChromeTrace:
    """A hook that writes a trace: `Search(problem, on=ChromeTrace("search.json"))`.

    The file appears, whole, when the search has finished; until then it grows beside its place.
    It is opened with the first event, or by `with`, which closes it if the search does not finish.
    """

    def __init__(self, path: str | Path) -> None:
        self._path = Path(path)
        self._growing = self._path.with_name(f"{self._path.name}.tmp")
        self._file: IO[bytes] | None = None
        self._closed = False
        self._heard = False
        self._lanes: dict[tuple[int, int], float] = {}

    def __enter__(self) -> ChromeTrace:
        self._open()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __call__(self, event: AnyEvent) -> None:
        """Writes an event down; raises `AiosearchError`, once, when the file cannot be written."""
        if self._closed:
            return
        if self._file is None:
            self._open()
        self._heard = True
        try:
            self._take(event)
        except OSError as error:
            self._give_up(error)
        if isinstance(event, SearchFinished):
            self.close()

    def close(self) -> None:
        """Puts the file in its place, if anything has happened. Safe to call twice."""
        closed, self._closed = self._closed, True
        if closed or self._file is None:
            return
        if not self._heard:
            self._discard()
            return
        try:
            with self._file as file:
                file.write(b"\n]}\n")
            self._growing.replace(self._path)
        except OSError as error:
            self._give_up(error)

    def _open(self) -> None:
        self._require_own()
        try:
            self._file = self._growing.open("wb")
            groups = [_meta("process_name", group, 0, name) for group, name in _NAMES.items()]
            self._file.write(_START)
            self._file.write(b",\n".join(map(_encode, groups)))
        except OSError as error:
            self._give_up(error)

    def _require_own(self) -> None:
        """Refuses to replace what is no trace: somebody may miss it."""
        path = self._path
        if not os.path.exists(path):  # or it may not be seen, which opening it says
            return
        if path.is_file():
            with suppress(OSError), path.open("rb") as file:
                if file.read(len(_START)) in (_START, b""):
                    return
        self._closed = True
        raise AiosearchError(f"{path} is there already and is no trace; take another name")

    def _give_up(self, error: OSError) -> None:
        self._closed = True
        self._discard()
        raise AiosearchError(f"cannot write the trace {self._path}: {error.strerror}") from None

    def _discard(self) -> None:
        if self._file is not None:
            with suppress(OSError):
                self._file.close()
            self._growing.unlink(missing_ok=True)

    def _take(self, event: AnyEvent) -> None:
        match event:
            case WorkReported():
                self._work(event)
            case Progress():
                self._progress(event)
            case Checked():
                self._span(Z3, event.process, "check", event.started, event.seconds, event)
            case Improved():
                self._instant(WORKERS, event.worker, "improved", event)
            case TaskAssigned():
                self._instant(WORKERS, event.worker, "assigned", event)
            case WorkerJoined():
                self._instant(WORKERS, event.worker, "joined", event)
            case WorkerLost():
                self._instant(WORKERS, event.worker, "lost", event)
            case SearchStarted():
                self._instant(SEARCH, 0, "started", event)
            case SearchFinished():
                self._instant(SEARCH, 0, "finished", event)
            case Warned():
                self._instant(SEARCH, 0, "warning", event)

    def _work(self, event: WorkReported) -> None:
        """Draws a `WorkReported` as one span of waiting and one of work, the latter up to
        the report."""
        begun = event.seconds - event.busy
        if event.waiting:
            waited = begun - event.waiting
            self._span(WORKERS, event.worker, "wait for z3", waited, begun, None)
        if event.busy:
            self._span(WORKERS, event.worker, "explore", begun, event.seconds, event)

    def _progress(self, event: Progress) -> None:
        self._counter("nodes/s", event.seconds, event.nodes_per_second)
        self._counter("open subtrees", event.seconds, event.open)
        if event.best_cost is not None:
            self._counter("best cost", event.seconds, event.best_cost)

    def _span(
        self, group: int, lane: int, name: str, start: float, end: float, event: AnyEvent | None
    ) -> None:
        """Writes a span without what earlier ones of its lane cover: clocks differ a little."""
        self._introduce(group, lane)
        start = max(start, self._lanes[group, lane])
        if end <= start:
            return
        self._lanes[group, lane] = end
        entry = _entry("X", group, lane, name, start)
        self._write(entry | {"dur": _micro(end - start), "args": _arguments(event)})

    def _instant(self, group: int, lane: int, name: str, event: AnyEvent) -> None:
        self._introduce(group, lane)
        entry = _entry("i", group, lane, name, event.seconds)
        self._write(entry | {"s": "t", "args": _arguments(event)})

    def _counter(self, name: str, seconds: float, value: float) -> None:
        self._write(_entry("C", SEARCH, 0, name, seconds) | {"args": {"value": value}})

    def _introduce(self, group: int, lane: int) -> None:
        """Names a lane when it is first used."""
        if (group, lane) in self._lanes:
            return
        self._lanes[group, lane] = 0.0
        names = {SEARCH: "search", WORKERS: f"worker {lane}", Z3: f"z3 {lane}"}
        self._write(_meta("thread_name", group, lane, names[group]))
        self._write(_meta("thread_sort_index", group, lane, lane))

    def _write(self, entry: dict[str, Any]) -> None:
        assert self._file is not None
        self._file.write(b",\n" + _encode(entry))


def _entry(kind: str, group: int, lane: int, name: str, seconds: float) -> dict[str, Any]:
    return {"ph": kind, "pid": group, "tid": lane, "name": name, "ts": _micro(seconds)}


def _meta(kind: str, group: int, lane: int, value: str | int) -> dict[str, Any]:
    key = "sort_index" if kind.endswith("sort_index") else "name"
    return {"ph": "M", "pid": group, "tid": lane, "name": kind, "args": {key: value}}


def _micro(seconds: float) -> float:
    return round(seconds * 1e6, 1)


def _arguments(event: AnyEvent | None) -> dict[str, Any]:
    """Gives what an event says beside its time, long values cut short."""
    if event is None:
        return {}
    names = [name for name in event.__struct_fields__ if name != "seconds"]
    return {name: _brief(getattr(event, name)) for name in names}


def _brief(value: Any) -> Any:
    if value is None or isinstance(value, bool | int | float):
        return value
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
