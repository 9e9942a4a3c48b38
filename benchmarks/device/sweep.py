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
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from points import Sweep, SweepPoint, sweep

PROGRAMS = ("rms_norm", "gated_mlp", "lora", "gqa", "qk_norm", "attention")
ITERATIONS = 20
SMALL = 64
"""The longest axis in a dry run."""


class Servant:
    """A process that answers calls one by one, and is replaced where it dies or is late."""

    def __init__(
        self, environment: dict[str, str], begin: Callable[..., Any], *arguments: Any
    ) -> None:
        self._environment, self._begin, self._arguments = environment, begin, arguments
        self._process: Any = None
        self.starts = 0
        self.ready: Any = None

    def ask(self, name: str, *arguments: Any, seconds: float = 30.0) -> Any:
        """What a method of the servant's object gives; raises RuntimeError with the reason."""
        self.start()
        return self._exchange((name, arguments), seconds)

    def start(self) -> None:
        if self._process is not None and self._process.is_alive():
            return
        context = multiprocessing.get_context("spawn")
        self._connection, other = context.Pipe()
        arguments = (other, self._environment, self._begin, self._arguments)
        self._process = context.Process(target=_serve, args=arguments, daemon=True)
        self._process.start()
        other.close()
        self.starts += 1
        self.ready = self._receive(120.0)

    def end(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.join()
            self._process = None

    def _exchange(self, message: Any, seconds: float) -> Any:
        try:
            self._connection.send(message)
        except OSError as error:
            self.end()
            raise RuntimeError("the process had died") from error
        return self._receive(seconds)

    def _receive(self, seconds: float) -> Any:
        try:
            if not self._connection.poll(seconds):
                self.end()
                raise RuntimeError(f"no answer in {seconds:.0f} s")
            right, answer = self._connection.recv()
        except (EOFError, OSError) as error:
            self._process.join(5)
            code = self._process.exitcode
            self.end()
            raise RuntimeError(f"the process died with exit code {code}") from error
        if not right:
            raise RuntimeError(answer)
        return answer


def _serve(connection: Connection, environment: dict[str, str], begin: Any, arguments: Any) -> None:
    os.environ.update(environment)
    try:
        servant = begin(*arguments)
        connection.send((True, servant.about))
    except Exception as error:
        connection.send((False, _reason(error)))
        return
    while True:
        try:
            name, given = connection.recv()
        except EOFError:
            return
        try:
            connection.send((True, getattr(servant, name)(*given)))
        except Exception as error:
            connection.send((False, _reason(error)))


def _reason(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {' | '.join(lines[:3])}"[:400]


class Compiler:
    """Compiles sources for the device, without tuning anything on it."""

    about = ""

    def __init__(self) -> None:
        import jax

        jax.devices()

    def compile(self, source: str, function: str, types: Any) -> tuple[bytes, float]:
        from aiosearch.measure.worker.executables import build

        began = time.monotonic()
        return build(_text(source, function, types), ()).executable, time.monotonic() - began


class Meter:
    """Runs, checks and times on the device, in one process that torch is not loaded into."""

    def __init__(self, dry: bool) -> None:
        import jax

        self._dry = dry
        device = jax.devices()[0]
        self._judge: Any = None
        self._copies: list[list[Any]] = []
        gpu, cache = "H100", 50 << 20
        if not dry:
            from aiosearch.devices import device as described
            from aiosearch.optimizer.device_kind import described_gpu

            gpu = described_gpu() or "H100"
            cache = described(gpu).cache_bytes
        self._cache = 0 if dry else cache
        self.about = {"device": device.device_kind, "jax": jax.__version__, "gpu": gpu}

    def floor(self) -> dict[str, Any]:
        """What the least kernels take: one that does next to nothing, and one pass over memory."""
        import jax
        import jax.numpy as jnp

        bytes_ = 4096 if self._dry else 4096 * 4096 * 2
        wide = [jnp.ones((bytes_ // 2,), jnp.bfloat16) + at for at in range(1 if self._dry else 4)]
        small = jnp.ones((8, 8), jnp.float32)
        nothing, copy = jax.jit(lambda x: x + 1.0), jax.jit(lambda x: -x)
        reduce_ = jax.jit(lambda x: jnp.max(x.reshape(64, -1), axis=-1))
        found: dict[str, Any] = {"bytes": bytes_}
        for name, function, copies in (
            ("nothing", nothing, [[small]]),
            ("copy", copy, [[one] for one in wide]),
            ("reduce", reduce_, [[one] for one in wide]),
        ):
            found[name] = self._timed(function, copies)
        return found

    def case(self, program: bytes) -> None:
        """Draws the inputs of a program, more of them than the cache holds."""
        import jax
        import jax.numpy as jnp
        import numpy as np
        from lib.optimizer.agreement import Judge
        from lib.optimizer.builtin_cases import written

        from aiosearch.optimizer.array_types import array_types
        from aiosearch.tensor.files import from_json

        found = from_json(program)
        arrays = Judge.drawn(found, {}, 0)
        types = array_types(found)
        first = [jnp.asarray(one, each.dtype) for one, each in zip(arrays, types, strict=True)]
        size = sum(one.nbytes for one in first)
        count = 1 if not self._cache else min(64, 2 + 2 * self._cache // size)
        self._copies = [first, *([one + 0 for one in first] for _ in range(count - 1))]
        jax.block_until_ready(self._copies)
        outputs = [np.asarray(one) for one in jax.tree.leaves(jax.jit(written(found))(*first))]
        self._judge = Judge(found, arrays, outputs)

    def plain(self, source: str, function: str, types: Any) -> dict[str, Any]:
        """Plain JAX, compiled here: nothing else runs on the device while XLA tunes it."""
        from aiosearch.measure.worker.executables import compiled

        began = time.monotonic()
        call = compiled(_text(source, function, types))
        return {"compiled_s": round(time.monotonic() - began, 2), **self._tried(call)}

    def point(self, source: str, function: str, types: Any, executable: bytes) -> dict[str, Any]:
        from aiosearch.measure.worker.executables import loaded

        return self._tried(loaded(_text(source, function, types), executable))

    def _tried(self, call: Any) -> dict[str, Any]:
        import jax
        import numpy as np

        outputs = [np.asarray(one) for one in jax.tree.leaves(call(*self._copies[0]))]
        objection = self._judge.objection(outputs)
        if objection:
            return {"right": False, "why": objection}
        return {"right": True, **self._timed(call, self._copies)}

    def _timed(self, call: Any, copies: Sequence[Sequence[Any]]) -> dict[str, Any]:
        import jax

        jax.block_until_ready([call(*copies[0]) for _ in range(2 if self._dry else 60)])
        turns = [copies[at % len(copies)] for at in range(ITERATIONS)]
        runs = self._counted(call, [*[copies[0]] * ITERATIONS, *turns])
        hot, cold = runs[:ITERATIONS], runs[-ITERATIONS:]
        began = time.perf_counter()
        jax.block_until_ready(call(*copies[0]))
        waited = time.perf_counter() - began
        names = [name for name, _ in hot[0]]
        each = [[run[at][1] for run in hot] for at in range(len(names))]
        return {
            "hot_us": _median(hot),
            "cold_us": _median(cold) if len(copies) > 1 else None,
            "waited_us": round(waited * 1e6, 1),
            "kernels": [
                [name[:40], round(statistics.median(times) * 1e3, 2)]
                for name, times in zip(names, each, strict=True)
            ],
        }

    def _counted(self, call: Any, inputs: Sequence[Sequence[Any]]) -> list[list[tuple[str, float]]]:
        """By call the kernels and their milliseconds, as the GPU counts them."""
        import jax

        if self._dry:
            runs = []
            for one in inputs[:2]:
                began = time.perf_counter()
                jax.block_until_ready(call(*one))
                runs.append([("interpreted", (time.perf_counter() - began) * 1e3)])
            return runs
        from jax.experimental.mosaic.gpu import profiler

        extension = profiler.mosaic_gpu_lib._mosaic_gpu_ext  # `measure` takes no inputs in turns
        extension._cupti_init()
        try:
            jax.block_until_ready([call(*one) for one in inputs])
        finally:
            timings = extension._cupti_get_timings(True)
        if not timings or len(timings) % len(inputs):
            raise RuntimeError(
                f"the GPU counted {len(timings or ())} kernels in {len(inputs)} calls"
            )
        each = len(timings) // len(inputs)
        return [list(timings[at * each : (at + 1) * each]) for at in range(len(inputs))]


def _median(runs: Sequence[Sequence[tuple[str, float]]]) -> float:
    return round(statistics.median(sum(ms for _, ms in run) for run in runs) * 1e3, 2)


def _text(source: str, function: str, types: Any) -> Any:
    from aiosearch.measure.candidates import ArrayType
    from aiosearch.measure.protocol import Text

    inputs = tuple(ArrayType(dtype, tuple(shape)) for dtype, shape in types)
    return Text(source, function, inputs, False, None, "standard")


def written(program: bytes, gpu: str, options: argparse.Namespace) -> Sweep:
    os.environ["JAX_PLATFORMS"] = "cpu"
    found = sweep(program, gpu, options.points, options.favourites, options.seed)
    if not options.dry:
        return found
    from msgspec.structs import replace

    points = tuple(
        replace(one, source=one.source.replace("interpret=False)", "interpret=True)"))
        for one in found.points
    )
    return replace(found, points=points)


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
    deadline = time.monotonic() + options.seconds
    return Session(options, deadline).run()


class Session:
    """One sweep over all rows until the time is over."""

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
        self._counts = {"right": 0, "wrong": 0}

    def run(self) -> int:
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
        line(step="ready", **about, rows=len(rows), clocks=_clocks(), seconds=self._seconds())
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
                if not self._row(row, texts[at], done[at]):
                    break
        finally:
            line(
                step="closing", **self._counts, restarts=self._meter.starts - 1,
                clocks=_clocks(), seconds=self._seconds(),
            )  # fmt: skip
            self._end(writers, pool)
        return int(self._counts["right"] == 0)

    def _rows(self) -> list[tuple[str, Any, bytes]]:
        from lib.kernels.rows import gpu_rows

        from aiosearch.tensor.files import to_json
        from aiosearch.tensor.programs import BUILTINS, builtin

        options = self._options
        names = options.only or PROGRAMS
        wanted = [int(count) for count in options.rows.split(",")]
        rows = [row for row in gpu_rows() if row.key[0] in names and row.key[2] in wanted]
        rows.sort(key=lambda row: (wanted.index(row.key[2]), names.index(row.key[0])))
        found = []
        for row in rows:
            program = row.program
            if options.dry:
                sizes = {
                    label: min(size, SMALL) for label, size in BUILTINS[row.key[0]].sizes.items()
                }
                program = builtin(row.key[0], "bf16", **sizes)
            found.append((row.name, program, to_json(program)))
        return found

    def _submit(self, pool: ThreadPoolExecutor, row: Any, future: Future[Sweep], done: Any) -> None:
        if future.cancelled() or future.exception() is not None:
            return
        types = _types(row[1])
        for point in future.result().points:
            try:
                pool.submit(self._compiled, point, types, done)
            except RuntimeError:  # the pool was shut down
                return

    def _compiled(self, point: SweepPoint, types: Any, done: Any) -> None:
        if self._left() < 3:
            done.put((point, None, 0.0, "no time was left to compile it"))
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
            done.put((point, None, 0.0, f"compiling: {error}"))

    def _row(self, row: tuple[str, Any, bytes], text: Future[Sweep], done: Any) -> bool:
        """Whether there is time for another."""
        name, program, data = row
        types = _types(program)
        try:
            found = text.result(timeout=max(0.1, self._left()))
        except TimeoutError:
            line(step="out of time", row=name, seconds=self._seconds())
            return False
        except Exception as error:
            line(row=name, right=False, why=f"writing: {_reason(error)}")
            return True
        line(
            step="row",
            row=name,
            written_s=round(found.seconds, 1),
            clocks=_clocks(),
            seconds=self._seconds(),
        )
        for how, source, function in found.plain[:3]:
            if self._left() < 2:
                break
            measured = self._measured("plain", data, source, function, types)
            line(row=name, plain=how, **measured)
        for _ in found.points:
            left = self._left()
            if left < 1:
                line(step="out of time", row=name, seconds=self._seconds())
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
            found: dict[str, Any] = self._meter.ask(ask, *arguments, seconds=seconds)
        except RuntimeError as error:
            text = str(error)
            if "CUDA_ERROR" in text or "illegal" in text:  # its context is lost
                self._meter.end()
            return {"right": False, "why": f"{ask}: {text}"}
        return found

    def _servant(self, environment: dict[str, str], begin: Any, *arguments: Any) -> Servant:
        found = Servant(environment, begin, *arguments)
        self._servants.append(found)
        return found

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
        sys.stdout.flush()
        os._exit(0 if self._counts["right"] else 1)  # threads may still wait for what was ended


def _types(program: Any) -> list[tuple[str, tuple[int, ...]]]:
    from aiosearch.optimizer.array_types import array_types

    return [(one.dtype, one.shape) for one in array_types(program)]


def _clocks() -> str:
    """What clocks the GPU has at the moment."""
    command = ["nvidia-smi", "--query-gpu=clocks.sm,clocks.mem,power.draw", "--format=csv,noheader"]
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=5).stdout.strip()
    except (OSError, subprocess.TimeoutExpired):
        return ""


if __name__ == "__main__":
    sys.exit(main())
