"""Records: what was found for a kind of call, in tables that people review and keep in git.

A table is one JSON file: sorted, indented, a record for each kernel, device and kind of arguments.
Several processes may write one at a time: each takes a lock, reads what is there, puts its own
record in and replaces the file as a whole, so that nobody loses what another has found and no
reader ever sees half of it.
"""

from __future__ import annotations

import fcntl
import math
import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from hashlib import blake2b
from pathlib import Path

import msgspec
from msgspec import Struct, field

from ..folders import cache_folder, make_folder, replace_file
from .errors import TableError
from .space.sites import Value, as_value
from .types import Configuration, Options, Pytree

FORMAT = 1
ENVIRONMENT = "AIOSEARCH_TUNED"
"""Names the table that is used where neither a call nor a decorator does."""


class TuningRecord(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The winner for one kind of call on one device, and how that is known."""

    kernel: str
    arguments: tuple[str, ...]
    device: str
    configuration: dict[str, Value]
    """The keyword arguments that the function is called with."""
    decisions: dict[str, Value]
    """The point of the space, by site name, from which other shapes are served."""
    winner: str = "tuned"
    """`reference` where the reference itself was fastest, which is then what is called."""
    checked: str = "unchecked"
    """`proved`, `tested` or `unchecked`."""
    evidence: str = ""
    """What was proved or tested, and how."""
    seconds: float | None = None
    baseline_seconds: float | None = None
    speedup: tuple[float, float, float] | None = None
    """Over the untuned form: median, and the ends of its interval."""
    confirmed: bool = True
    """Whether a last race decided; not where the search was interrupted before."""
    measured: int = 0
    tied: int = 0
    """How many others could not be told from it; the first of them in the space's order won."""
    source: str = ""
    """A digest of the function's text when it was tuned."""
    versions: str = ""

    @property
    def key(self) -> tuple[str, str, tuple[str, ...]]:
        return (self.kernel, self.device, self.arguments)


class _TableFile(Struct):
    format: int = FORMAT
    records: list[TuningRecord] = field(default_factory=list)


class RecordTable:
    """A table in a file, read again when another process has changed it."""

    def __init__(self, path: str | os.PathLike[str] | None = None) -> None:
        """Takes the file; by default that of AIOSEARCH_TUNED, or one in the user's cache."""
        chosen = path or os.environ.get(ENVIRONMENT) or cache_folder() / "tuned.json"
        self.path = Path(chosen).expanduser()
        self._stamp: tuple[int, int, int] | None = None
        self._records: dict[tuple[str, str, tuple[str, ...]], TuningRecord] = {}

    @property
    def records(self) -> tuple[TuningRecord, ...]:
        """All of them, in the order of the file."""
        self._refresh()
        return tuple(self._records.values())

    def find(self, kernel: str, device: str, arguments: Sequence[str]) -> TuningRecord | None:
        """The record of exactly this kind of call."""
        self._refresh()
        return self._records.get((kernel, device, tuple(arguments)))

    def nearest(
        self,
        kernel: str,
        device: str,
        arguments: Sequence[str],
        fits: Callable[[TuningRecord], bool] = lambda record: True,
    ) -> TuningRecord | None:
        """The record of the most similar call that fits: of this device first, then of any.

        Calls are similar whose arguments differ in extents alone; how much is the sum of the
        logarithms of their ratios, so that 64 is as far from 128 as 128 from 256.
        """
        similar = self.similar(kernel, device, arguments)
        return next((record for record in similar if fits(record)), None)

    def similar(self, kernel: str, device: str, arguments: Sequence[str]) -> list[TuningRecord]:
        """All records of calls that differ in extents alone, the most similar first."""
        self._refresh()
        near = []
        for record in self._records.values():
            distance = _distance(record.arguments, arguments) if record.kernel == kernel else None
            if distance is not None:
                near.append((record.device != device, distance, record.key, record))
        return [row[-1] for row in sorted(near, key=lambda row: row[:3])]

    def put(self, *records: TuningRecord) -> None:
        """Writes records in the place of those of the same calls; all others stay."""
        # Read under the lock, whatever was read before: another process may have written since.
        with locked(self.path):
            self._stamp = None
            self._refresh()
            self._records |= {record.key: record for record in records}
            self._records = dict(sorted(self._records.items()))
            self._write()

    def _write(self) -> None:
        text = msgspec.json.encode(_TableFile(FORMAT, list(self._records.values())))
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            replace_file(self.path, msgspec.json.format(text, indent=1) + b"\n")
        except OSError as error:
            raise TableError(f"cannot write the table {self.path}: {error.strerror}") from error
        self._stamp = _stamp(self.path)

    def _refresh(self) -> None:
        stamp = _stamp(self.path)
        if stamp is None or stamp == self._stamp:
            if stamp is None:
                self._records = {}
            return
        records = read_records(self.path)
        self._records = {record.key: record for record in records}
        self._stamp = stamp


def read_records(path: Path) -> list[TuningRecord]:
    """What a table holds; raises TableError where the file is none."""
    try:
        content = msgspec.json.decode(path.read_bytes(), type=_TableFile)
    except OSError as error:
        raise TableError(f"cannot read the table {path}: {error.strerror}") from error
    except msgspec.DecodeError as error:
        raise TableError(f"{path} is no table of tuned kernels: {error}") from None
    if content.format != FORMAT:
        raise TableError(f"{path} has format {content.format}; this aiosearch reads {FORMAT}")
    return [_with_tuples(record) for record in content.records]


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Holds the lock of a path: one process at a time, and none that has died.

    It lies in the user's cache and not beside the file, which may be in a repository.
    """
    name = blake2b(str(path.absolute()).encode(), digest_size=8).hexdigest()
    folder = cache_folder() / "locks"
    try:
        make_folder(folder)
        descriptor = os.open(folder / name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise TableError(f"cannot lock {path} in {folder}: {error.strerror}") from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _stamp(path: Path) -> tuple[int, int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return (status.st_ino, status.st_mtime_ns, status.st_size)


def _with_tuples(record: TuningRecord) -> TuningRecord:
    """JSON has lists alone, and kernels may take tuples."""
    fields: dict[str, Options] = {
        "configuration": {name: as_value(value) for name, value in record.configuration.items()},
        "decisions": {name: as_value(value) for name, value in record.decisions.items()},
    }
    return msgspec.structs.replace(record, **fields)


_NUMBER = re.compile(r"(?<=[\[,])\d+(?=[,\]])")


def read_seeds(path: str | os.PathLike[str]) -> list[Configuration]:
    """Configurations of a file, to begin a search with: `tune(kernel, x, seeds=read_seeds(path))`.

    It may be a table of ours; one of tokamax, whose keys are arguments and configurations as JSON,
    the fastest of each kind of arguments first; a list of mappings from names of sites to values;
    or a mapping from anything to such mappings. Raises TableError for any other.
    """
    try:
        content = msgspec.json.decode(Path(path).read_bytes())
    except OSError as error:
        raise TableError(f"cannot read {path}: {error.strerror}") from error
    except msgspec.DecodeError as error:
        raise TableError(f"{path} is no JSON: {error}") from None
    seeds = [seed for seed in _configurations(content) if seed]
    if not seeds:
        raise TableError(
            f"{path} has no configurations: it is neither a table, nor a list of mappings from"
            " names of sites to values, nor a mapping to such"
        )
    # Tables have the same few configurations for many shapes.
    return list({repr(sorted(seed.items())): seed for seed in seeds}.values())


def _configurations(content: Pytree) -> Iterator[Configuration]:
    match content:
        case list():
            for entry in content:
                if isinstance(entry, dict):
                    yield _plain(entry)
        case {"records": [*records]}:
            for record in records:
                yield _plain(record.get("decisions", {}))
        case dict():
            for entry in content.values():
                if not isinstance(entry, dict):
                    continue
                measured = [(_parsed(key), times) for key, times in entry.items()]
                if measured and all(parsed is not None for parsed, _ in measured):
                    fastest = sorted(measured, key=lambda pair: _milliseconds(pair[1]))
                    yield from (_plain(parsed) for parsed, _ in fastest if parsed is not None)
                else:
                    yield _plain(entry)


def _plain(entry: Options) -> Configuration:
    """What a site may hold: numbers, texts, truth values, and lists of them."""
    return {name: as_value(value) for name, value in entry.items() if not isinstance(value, dict)}


def _parsed(key: str) -> Options | None:
    """A key that is a configuration as JSON, as tokamax has them."""
    try:
        return msgspec.json.decode(key, type=dict)
    except msgspec.DecodeError:
        return None


def _milliseconds(entry: Pytree) -> float:
    times = entry.get("evaluation_times_ms") if isinstance(entry, dict) else None
    return min(times) if times else math.inf


def _distance(first: Sequence[str], second: Sequence[str]) -> float | None:
    """How far apart the extents of two calls are; None where more than extents differs."""
    if len(first) != len(second):
        return None
    total = 0.0
    for a, b in zip(first, second, strict=True):
        if _NUMBER.sub("#", a) != _NUMBER.sub("#", b):
            return None
        for x, y in zip(_NUMBER.findall(a), _NUMBER.findall(b), strict=True):
            total += abs(math.log2((int(x) or 1) / (int(y) or 1)))
    return total
