"""Our kernels on a GPU beside `jax.jit` and torch, the most important rows first.

    python benchmarks/device/table.py --seconds 190
    python benchmarks/device/table.py --only rms_norm --only gqa --rows 8 --sides ours,torch
    python benchmarks/device/table.py --dry                     # the plumbing, on a CPU

First the kernels that the predictor would try, each beside the program as it is written under
`jax.jit`, which XLA tunes, and its rewritten forms; one row after the other. Then torch, a process
for each row: its libraries, their attention where the program has one, and `torch.compile`. A JSON
line for each figure as it comes, and for each row one that `closing.py` prints.

Three times are told apart: `kernel_us`, what the GPU counts for the kernels of a call whose inputs
lie in no cache; `graph_us`, a turn of one graph of many; `call_us`, a call that is waited for.
"""

from __future__ import annotations

import argparse
import json
import os
import queue
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import IO, Any

from caller import Caller
from sweep import MIRAGE_ROWS, PROGRAMS, Measured, Session, array_shapes, leave, line

AHEAD = 6
"""Processes with torch that are prepared while one is timed."""


class Table(Session):
    """The rows with all their sides."""

    def __init__(self, options: argparse.Namespace, deadline: float) -> None:
        super().__init__(options, deadline)
        self._caller = self._servant(self._usual, Caller, options.dry)
        self._later = ThreadPoolExecutor(1)
        self._calls: list[Future[None]] = []

    def _rows(self) -> list[tuple[str, Any, bytes]]:
        """By rows and then by program, Mirage's row after the first of each program."""
        rows = super()._rows()
        alone = [row for row in rows if row[0].endswith(f", {MIRAGE_ROWS} rows")]
        elsewhere = [row for row in rows if row not in alone]
        first = len([row for row in elsewhere if row[0].endswith((", 8 rows", "batch 8"))])
        return [*elsewhere[:first], *alone, *elsewhere[first:]]

    def _row_ends(self, row: tuple[str, Any, bytes]) -> None:
        right = [measured for measured in self._entries if measured.result.get("right")]
        original = next((measured for measured in right if measured.plain), None)
        plain = min(
            (measured for measured in right if measured.plain), key=_kernel_us, default=None
        )
        ours = min(
            (measured for measured in right if not measured.plain), key=_kernel_us, default=None
        )
        sides = {"jit": original, "ours": ours, "best plain": plain}
        chosen = {
            side: measured
            for side, measured in sides.items()
            if measured is not None and (side != "best plain" or measured is not original)
        }
        for side, measured in chosen.items():
            line(
                table=row[0], side=side, how=measured.how, kernel_us=_kernel_us(measured),
                hot_us=measured.result.get("hot_us"), kernels=measured.result.get("kernels"),
            )  # fmt: skip
        called = {side: measured for side, measured in chosen.items() if side != "best plain"}
        self._calls.append(self._later.submit(self._called, row, called))

    def _called(self, row: tuple[str, Any, bytes], sides: dict[str, Measured]) -> None:
        """Whole calls and graphs; compiling kernels of ours needs no quiet device."""
        name, program, data = row
        types = array_shapes(program)
        try:
            self._caller.start()
            with self._device_free:
                self._caller.ask("case", data, seconds=40.0)
            for side, measured in sides.items():
                ask = ("prepare", side, measured.source, measured.function, types)
                if measured.plain:
                    with self._device_free:
                        took = self._caller.ask(*ask, seconds=60.0)
                else:
                    took = self._caller.ask(*ask, seconds=60.0)
                with self._device_free:
                    times = self._caller.ask("times", side, seconds=20.0)
                line(table=name, side=side, **times, prepared_s=took)
        except RuntimeError as error:
            line(table=name, side="calls", why=str(error))

    def _rows_end(self, rows: Sequence[tuple[str, Any, bytes]]) -> None:
        for call in self._calls:
            try:
                call.result(timeout=max(0.1, self._left()))
            except TimeoutError:
                break
        self._meter.end()
        self._caller.end()
        line(step="torch", seconds=self._seconds())
        if "torch" in self._options.sides:
            TorchSides(self._options, self._left).run(rows)


class TorchOnly(Table):
    """The rows of torch alone."""

    def run(self) -> int:
        rows = self._rows()
        line(step="torch", rows=len(rows), seconds=self._seconds())
        TorchSides(self._options, self._left).run(rows)
        line(step="closing", seconds=self._seconds())
        return 0


class TorchSides:
    """Processes with torch, one for each row: some prepare, and one is on the device."""

    def __init__(self, options: argparse.Namespace, left: Any) -> None:
        self._options, self._left = options, left
        self._folder = Path(tempfile.mkdtemp(prefix="aiosearch-torch-"))

    def run(self, rows: Sequence[tuple[str, Any, bytes]]) -> None:
        begun: list[_TorchProcess] = []
        try:
            for at in range(len(rows)):
                while len(begun) < min(len(rows), at + AHEAD):
                    begun.append(self._process(rows[len(begun)]))
                if self._left() < 4:
                    line(step="out of time", row=rows[at][0])
                    return
                self._read(rows[at][0], begun[at])
        finally:
            for servant in begun:
                servant.end()

    def _process(self, row: tuple[str, Any, bytes]) -> _TorchProcess:
        name, program, data = row
        file = self._folder / f"{abs(hash(name))}.json"
        file.write_bytes(data)
        flags = ["--dry"] if self._options.dry else []
        return _TorchProcess([str(program.name), str(file), *flags])

    def _read(self, name: str, process: _TorchProcess) -> None:
        while True:
            try:
                text = process.lines.get(timeout=max(0.5, self._left() - 1))
            except queue.Empty:
                line(table=name, side="torch", why="no time was left")
                process.end()
                return
            if text is None:
                code = process.end()
                if code:
                    line(table=name, side="torch", why=f"its process ended with exit code {code}")
                return
            fields = json.loads(text)
            if fields.get("step") == "prepared":
                process.go()
            else:
                line(table=name, side=fields.pop("way"), **fields)


class _TorchProcess:
    def __init__(self, arguments: list[str]) -> None:
        script = Path(__file__).with_name("torch_side.py")
        self._process = subprocess.Popen(
            [sys.executable, str(script), *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "JAX_PLATFORMS": "cpu"},
        )
        self.lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        threading.Thread(target=self._forward, daemon=True).start()

    def go(self) -> None:
        """Lets it use the device."""
        assert self._process.stdin is not None
        self._process.stdin.write("go\n")
        self._process.stdin.flush()

    def end(self) -> int | None:
        """Ends it, unless it ended by itself; its exit code."""
        try:
            return self._process.wait(timeout=0.5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return self._process.wait()

    def _forward(self) -> None:
        stdout: IO[str] | None = self._process.stdout
        assert stdout is not None
        for text in stdout:
            if text.startswith("{"):
                self.lines.put(text)
        self._process.wait()
        self.lines.put(None)


def _kernel_us(measured: Measured) -> float:
    cold, hot = measured.result.get("cold_us"), measured.result.get("hot_us")
    return float(cold if cold is not None else hot)


def main() -> int:
    sys.path.append(str(Path(__file__).parent.parent))  # processes that are spawned get it too
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=190.0)
    parser.add_argument("--only", action="append", metavar="NAME", choices=PROGRAMS)
    parser.add_argument("--rows", default="8,1,16,2", help="2 is Mirage's, of rms_norm only")
    parser.add_argument("--points", type=int, default=10, help="kernels tried of each program")
    parser.add_argument("--favourites", type=int, default=10, help="of these, the predictor's")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--compilers", type=int, default=0)
    parser.add_argument("--sides", default="ours,torch")
    parser.add_argument("--dry", action="store_true", help="small, interpreted, on a CPU")
    options = parser.parse_args()
    deadline = time.monotonic() + options.seconds
    kind = Table if "ours" in options.sides else TorchOnly
    with tempfile.TemporaryDirectory(prefix="aiosearch-tuned-") as folder:
        from aiosearch.measure.gpu_compilation import share

        if not options.dry:
            share(folder)
        return kind(options, deadline).run()


if __name__ == "__main__":
    leave(main())
