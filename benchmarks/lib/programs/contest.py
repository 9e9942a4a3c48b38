"""Subjects one after the other: searched and measured in processes with a limit of time."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from lib.programs.subject import Subject
from lib.programs.trial import Measured, Setting, Told
from msgspec import Struct
from msgspec.json import decode, encode

BENCHMARKS = Path(__file__).parents[2]
LAST = 300
"""Characters of what a process wrote before it failed."""
T = TypeVar("T")


class Limits(Struct, frozen=True):
    """How long the processes of one subject may take."""

    search: float
    measurement: float


class Outcome(Struct, frozen=True):
    """What came of one subject."""

    name: str
    origin: str
    told: Told
    """By the process that searched."""
    cpu: float
    """Seconds of all processors until that ended, with imports."""
    measured: Measured | None
    why_not: str = ""
    """Why nothing was measured."""

    @property
    def wall(self) -> dict[str, float]:
        """The ratios where each call is waited for; empty where nothing was measured."""
        return self.measured.ways.get("waited for", {}) if self.measured else {}

    @property
    def ratio(self) -> float:
        """How many times as fast; without an answer the user has the original."""
        return self.wall.get("over_jit", 1.0)

    @property
    def faster(self) -> bool:
        """Whether it is faster beyond noise where calls are waited for, and slower in no way."""
        wall = self.wall
        return bool(wall) and wall["low"] > 1 + wall["noise"] and not self.slower

    @property
    def slower(self) -> tuple[str, ...]:
        return self.measured.slower if self.measured else ()

    @property
    def claimed(self) -> float | None:
        """What the process that measured was told, or else that which searched."""
        told = self.measured.told if self.measured else self.told
        return told.claimed

    @property
    def overclaimed(self) -> bool:
        return bool(self.wall) and (self.claimed or 1.0) > 1.25 * self.ratio

    @property
    def refused(self) -> bool:
        """Whether there was nothing in it that could be searched."""
        return not self.told.programs


def contest(group: str, subject: Subject, setting: Setting, limits: Limits) -> Outcome:
    """Searches with an empty store, then measures in a fresh process."""
    with tempfile.TemporaryDirectory() as folder:
        store, out = Path(folder) / "results.sqlite", Path(folder) / "out.json"
        common = (group, subject.name, str(store), str(out), encode(setting).decode())
        before = children_cpu()
        told = child("search", common, limits.search, out, Told)
        cpu = children_cpu() - before
        if isinstance(told, str):
            failed = Told(limits.search, error=told)
            return Outcome(subject.name, subject.origin, failed, cpu, None, told)
        if told.in_doubt and not told.faster:
            # A fresh process would race the guesses again, and hand back the original meanwhile.
            return Outcome(subject.name, subject.origin, told, cpu, None, "in doubt: the original")
        # What is in doubt is raced again by the process that measures.
        seconds = limits.measurement + (limits.search if told.in_doubt else 0.0)
        measured = child("measure", common, seconds, out, Measured)
        if isinstance(measured, str):
            return Outcome(subject.name, subject.origin, told, cpu, None, measured)
        return Outcome(subject.name, subject.origin, told, cpu, measured)


def child(phase: str, common: tuple[str, ...], seconds: float, out: Path, kind: type[T]) -> T | str:
    """What a process wrote; or why it wrote nothing."""
    out.unlink(missing_ok=True)
    command = [sys.executable, "-m", "lib.programs.trial", phase, *common]
    with tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(
            command, cwd=BENCHMARKS, stderr=errors, stdout=errors, start_new_session=True
        )
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            return f"no answer within {seconds:g} s"
        finally:
            end(process)
        if not out.exists():
            errors.seek(0)
            return f"the process failed: {errors.read()[-LAST:].strip()}"
    return decode(out.read_bytes(), type=kind)


def end(process: subprocess.Popen[bytes]) -> None:
    """Ends a process and all that it started and left."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
    deadline = time.monotonic() + 2
    while process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.05)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def children_cpu() -> float:
    """CPU seconds of all processes that were started and have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime
