"""Measures diverse points of the Pallas tiling space on a GPU beside what is predicted of them.

    python benchmarks/device/sweep.py --seconds 150                # six programs, 8 rows, 1, 16
    python benchmarks/device/sweep.py --only rms_norm --rows 8 --points 48
    python benchmarks/device/sweep.py --dry                        # the plumbing, on a CPU

A JSON line for each point, as soon as it is known: its parameters, microseconds predicted and
measured, and whether its result agrees with float64 or why not. Kernel times are the GPU's own
count (CUPTI): `hot_us` with inputs that may lie in its cache, `cold_us` with inputs that take
turns past it. Programs in plain JAX, the original first, are tuned by XLA as usual.

Three kinds of processes: some write sources without a GPU, some compile them, and one runs and
times. Each may die of a candidate, and is replaced. This file imports jax only in those.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import queue
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Sequence
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from meter import Compiler, Meter
from points import Sweep, SweepPoint, sweep
from servants import Servant, reason

PROGRAMS = ("rms_norm", "gated_mlp", "lora", "gqa", "qk_norm", "attention")
MIRAGE_ROWS = 2
"""RMSNorm and a product, 2x4096 by 4096x6144, as in issue 658 of Mirage's repository."""
SMALL = 64
"""The longest axis in a dry run."""
NO_TIME = "no time was left"


def written(program: bytes, gpu: str, options: argparse.Namespace) -> Sweep:
    os.environ["JAX_PLATFORMS"] = "cpu"
    sampled = sweep(program, gpu, options.points, options.favourites, options.seed)
    if not options.dry:
        return sampled
    from msgspec.structs import replace

    points = tuple(
        replace(point, source=point.source.replace("interpret=False)", "interpret=True)"))
        for point in sampled.points
    )
    return replace(sampled, points=points)


def line(**fields: Any) -> None:
    sys.stdout.write(json.dumps(fields) + "\n")
    sys.stdout.flush()


def main() -> int:
    sys.path.append(str(Path(__file__).parent.parent))  # processes that are spawned get it too
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=150.0)
    parser.add_argument("--only", action="append", metavar="NAME")
    parser.add_argument("--rows", default="8,1,16")
    parser.add_argument("--points", type=int, default=24, help="of each program")
    parser.add_argument("--favourites", type=int, default=4, help="of these, the predictor's")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--compilers", type=int, default=0)
    parser.add_argument("--dry", action="store_true", help="small, interpreted, on a CPU")
    options = parser.parse_args()
    return Session(options, time.monotonic() + options.seconds).run()


def leave(code: int) -> NoReturn:
    """Ends this process, whose threads may still wait for processes that were killed."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


class Measured(NamedTuple):
    """What was run of a row, and what came of it."""

    plain: bool
    how: str
    source: str
    function: str
    executable: bytes
    result: dict[str, Any]


class Session:
    """One sweep over all rows until the time is over."""

    programs: Sequence[str] = PROGRAMS
    """Where none is asked for; the most important first."""

    def __init__(self, options: argparse.Namespace, deadline: float) -> None:
        self._options, self._deadline = options, deadline
        self._began = time.monotonic()
        self._servants: list[Servant] = []
        self._local = threading.local()
        platform = {"JAX_PLATFORMS": "cpu"} if options.dry else {"JAX_PLATFORMS": "cuda"}
        flags = os.environ.get("XLA_FLAGS", "")
        self._usual = {
            **platform,
            "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
            "TF_CPP_MIN_LOG_LEVEL": "3",
        }
        self._untuned = {**self._usual, "XLA_FLAGS": f"{flags} --xla_gpu_autotune_level=0".strip()}
        if options.dry:
            self._untuned = self._usual
        self._meter = self._servant(self._usual, Meter, options.dry)
        self._device_free = threading.Lock()
        """Held while something is timed or tuned."""
        self._entries: list[Measured] = []
        self._counts = {"right": 0, "wrong": 0}
        self._broken = self._late = False
        """Whether this failed itself, and whether something was left when the time was over."""

    def run(self) -> int:
        """Measures all rows; an exit code, with which `leave` ends this process."""
        options = self._options
        cores = len(os.sched_getaffinity(0))
        compilers = options.compilers or max(1, min(8, cores // 2))
        rows = self._rows()
        self._meter.start()
        about = self._meter.ready
        writers = ProcessPoolExecutor(
            max(1, min(6, cores // 2)), mp_context=multiprocessing.get_context("spawn")
        )
        texts = [writers.submit(written, data, about["gpu"], options) for _, _, data in rows]
        pool = ThreadPoolExecutor(compilers)
        line(step="ready", **about, rows=len(rows), clocks=clocks(), seconds=self._seconds())
        try:
            line(step="floor", **self._meter.ask("floor", seconds=60.0))
        except RuntimeError as error:
            line(step="floor", why=str(error))
        done: list[queue.SimpleQueue[Any]] = [queue.SimpleQueue() for _ in rows]
        for at, text in enumerate(texts):
            text.add_done_callback(
                lambda future, at=at: self._submit(pool, rows[at], future, done[at])
            )
        try:
            for at, row in enumerate(rows):
                self._entries = []
                if not self._row(row, texts[at], done[at]):
                    break
                self._row_ends(row)
            self._rows_end(rows)
        except Exception:  # what was measured is printed, and the process ends below
            traceback.print_exc()
            self._broken = True
        finally:
            line(
                step="closing", **self._counts, restarts=self._meter.starts - 1,
                clocks=clocks(), seconds=self._seconds(),
            )  # fmt: skip
            self._end(writers, pool)
        return self.exit_code()

    def exit_code(self) -> int:
        """1 where nothing is right, or where this failed itself."""
        return int(self._broken or self._counts["right"] == 0)

    def _row_ends(self, row: tuple[str, Any, bytes]) -> None:
        """What else is measured of a row, from `_entries`."""

    def _rows_end(self, rows: Sequence[tuple[str, Any, bytes]]) -> None:
        """What is measured after all rows."""

    def _rows(self) -> list[tuple[str, Any, bytes]]:
        from lib.kernels.rows import gpu_rows

        from aiosearch.tensor.files import to_json
        from aiosearch.tensor.programs import BUILTINS, builtin

        options = self._options
        names = options.only or self.programs
        counts = [int(count) for count in options.rows.split(",")]
        rows = [
            row
            for row in gpu_rows(counts)
            if row.key[0] in names and (row.key[2] != MIRAGE_ROWS or row.key[0] == "rms_norm")
        ]
        rows.sort(key=lambda row: (counts.index(row.key[2]), names.index(row.key[0])))
        sources = []
        for row in rows:
            program = row.program
            if options.dry:
                sizes = {
                    label: min(size, SMALL) for label, size in BUILTINS[row.key[0]].sizes.items()
                }
                program = builtin(row.key[0], "bf16", **sizes)
            sources.append((row.name, program, to_json(program)))
        return sources

    def _submit(self, pool: ThreadPoolExecutor, row: Any, future: Future[Sweep], done: Any) -> None:
        if future.cancelled() or future.exception() is not None:
            return
        types = array_shapes(row[1])
        for point in future.result().points:
            try:
                pool.submit(self._compiled, point, types, done)
            except RuntimeError:  # the pool was shut down
                return

    def _compiled(self, point: SweepPoint, types: Any, done: Any) -> None:
        if self._left() < 3:
            done.put((point, None, 0.0, NO_TIME))
            return
        if not hasattr(self._local, "servant"):
            self._local.servant = self._servant(self._untuned, Compiler)
        try:
            seconds = max(1.0, min(40.0, self._left()))
            executable, took = self._local.servant.ask(
                "compile", point.source, point.function, types, seconds=seconds
            )
            done.put((point, executable, took, ""))
        except RuntimeError as error:
            why = NO_TIME if self._left() < 1 else f"compiling: {error}"
            done.put((point, None, 0.0, why))

    def _row(self, row: tuple[str, Any, bytes], text: Future[Sweep], done: Any) -> bool:
        """Whether there is time for another."""
        name, program, data = row
        types = array_shapes(program)
        try:
            points = text.result(timeout=max(0.1, self._left()))
        except TimeoutError:
            self._out_of_time(name)
            return False
        except Exception as error:
            self._counts["wrong"] += 1
            line(row=name, right=False, why=f"writing: {reason(error)}")
            return True
        line(
            step="row",
            row=name,
            written_s=round(points.seconds, 1),
            clocks=clocks(),
            seconds=self._seconds(),
        )
        for how, source, function in points.plain[:3]:
            if self._left() < 2:
                break
            measured = self._measured("plain", data, source, function, types)
            self._entries.append(Measured(True, how, source, function, b"", measured))
            line(row=name, plain=how, **measured)
        for _ in points.points:
            left = self._left()
            if left < 1:
                self._out_of_time(name)
                return False
            try:
                point, executable, took, why = done.get(timeout=left)
            except queue.Empty:
                continue
            if why:
                measured = {"right": False, "why": why}
            else:
                measured = self._measured(
                    "point", data, point.source, point.function, types, executable
                )
            if measured.get("why") == NO_TIME:
                self._out_of_time(name)
                continue
            how = str(point.parameters.get("how", point.parameters.get("form", "")))
            self._entries.append(
                Measured(False, how, point.source, point.function, executable or b"", measured)
            )
            self._counts["right" if measured["right"] else "wrong"] += 1
            line(
                row=name, predicted_us=point.predicted_us, **measured,
                compile_s=round(took, 2), **point.parameters,
            )  # fmt: skip
        return True

    def _measured(self, ask: str, data: bytes, *arguments: Any) -> dict[str, Any]:
        try:
            if getattr(self, "_case", None) != (data, self._meter.starts):
                self._meter.start()
                self._meter.ask("case", data, seconds=max(1.0, min(60.0, self._left())))
                self._case = data, self._meter.starts
            seconds = max(1.0, min(60.0 if ask == "plain" else 15.0, self._left()))
            with self._device_free:
                answer: dict[str, Any] = self._meter.ask(ask, *arguments, seconds=seconds)
        except RuntimeError as error:
            text = str(error)
            if "CUDA_ERROR" in text or "illegal" in text:  # its context is lost
                self._meter.end()
            return {"right": False, "why": NO_TIME if self._left() < 1 else f"{ask}: {text}"}
        return answer

    def _out_of_time(self, name: str) -> None:
        self._late = True
        line(step="out of time", row=name, seconds=self._seconds())

    def _servant(self, environment: dict[str, str], begin: Any, *arguments: Any) -> Servant:
        servant = Servant(environment, begin, *arguments)
        self._servants.append(servant)
        return servant

    def _left(self) -> float:
        return self._deadline - time.monotonic()

    def _seconds(self) -> float:
        return round(time.monotonic() - self._began, 1)

    def _end(self, writers: ProcessPoolExecutor, pool: ThreadPoolExecutor) -> None:
        pool.shutdown(wait=False, cancel_futures=True)
        for process in list((getattr(writers, "_processes", None) or {}).values()):
            process.kill()
        for servant in list(self._servants):
            process = servant._process
            if process is not None:
                process.kill()


def array_shapes(program: Any) -> list[tuple[str, tuple[int, ...]]]:
    from aiosearch.optimizer.array_types import array_types

    return [(array_type.dtype, array_type.shape) for array_type in array_types(program)]


def clocks() -> str:
    """What clocks the GPU has at the moment."""
    command = ["nvidia-smi", "--query-gpu=clocks.sm,clocks.mem,power.draw", "--format=csv,noheader"]
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=5).stdout.strip()
    except (OSError, subprocess.TimeoutExpired):
        return ""


if __name__ == "__main__":
    leave(main())
