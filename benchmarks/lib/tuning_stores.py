"""What the tuner's files cost: measurements in SQLite beside plain lines, records in JSON."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median

import msgspec

from aiosearch.tuner import Measurement, RecordTable, TuningRecord
from aiosearch.tuner.journals import JournalLine, MeasurementJournal, SearchName
from aiosearch.tuner.space.traces import Trace

COUNT = 2000


def search(number: int) -> SearchName:
    return SearchName("benchmark", (f"f32[{number}]",), "this", "text", "versions")


def measurements(count: int) -> Iterator[Measurement]:
    """As a schedule of the tile IR has them: a dozen sites."""
    for at in range(count):
        sites = {f"matmul.site_{number}": (at, number) for number in range(12)}
        yield Measurement(Trace((), sites), 1e-3, predicted=-6.9, at=at / 7)


def appended(number: int, count: int) -> float:
    """Seconds for a measurement in the store."""
    with MeasurementJournal(search(number)) as journal:
        started = time.perf_counter()
        for measurement in measurements(count):
            journal.write(measurement)
        return (time.perf_counter() - started) / count


def appended_plainly(path: Path, count: int) -> float:
    """Seconds for the same measurement as a line at the end of a file of its own."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    started = time.perf_counter()
    for measurement in measurements(count):
        os.write(descriptor, msgspec.json.encode(JournalLine.of(measurement)) + b"\n")
    spent = time.perf_counter() - started
    os.close(descriptor)
    return spent / count


def appended_at_once(processes: int, count: int) -> list[float]:
    """Seconds for a measurement in each of so many processes, which write to the store at once."""
    command = [sys.executable, __file__]
    writers = [
        subprocess.Popen(
            [*command, str(1000 + at), str(count)], stdout=subprocess.PIPE, text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )
        for at in range(processes)
    ]  # fmt: skip
    return [float(writer.communicate()[0]) for writer in writers]


def recalled(number: int) -> tuple[float, int]:
    """Seconds to read what a search has measured, and how much that is."""
    started = time.perf_counter()
    with MeasurementJournal(search(number)) as journal:
        count = sum(1 for _ in journal.lines())
    return time.perf_counter() - started, count


def table(path: Path, count: int) -> tuple[float, float, float]:
    """Seconds to read a table of so many records, to look one up, and to put one in."""
    records = [
        TuningRecord(
            kernel="benchmark", arguments=(f"f32[{at},64]", "f32[64]"), device="this",
            configuration={"block": at}, decisions={"block": at}, evidence="on normal inputs",
            seconds=1e-3, speedup=(1.5, 1.4, 1.6),
        )
        for at in range(count)
    ]  # fmt: skip
    RecordTable(path).put(*records)
    fresh = RecordTable(path)
    started = time.perf_counter()
    fresh.find("benchmark", "this", ("f32[1,64]", "f32[64]"))
    read = time.perf_counter() - started
    started = time.perf_counter()
    for at in range(1000):
        fresh.find("benchmark", "this", (f"f32[{at % count},64]", "f32[64]"))
    found = (time.perf_counter() - started) / 1000
    puts = []
    for record in records[:5]:
        started = time.perf_counter()
        fresh.put(record)
        puts.append(time.perf_counter() - started)
    return read, found, median(puts)


if __name__ == "__main__":
    sys.stdout.write(f"{appended(int(sys.argv[1]), int(sys.argv[2]))}\n")
