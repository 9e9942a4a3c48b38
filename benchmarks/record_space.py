"""Measures every point of a kernel's space once, and writes the recorded space.

    python benchmarks/record_space.py softmax matmul --folder benchmarks/recorded

Search algorithms race on the files without a device: `benchmarks/tuning.py --only replay`, and
`aiosearch tune --replay FILE`.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from pathlib import Path

from lib.tuned_kernels import KERNELS

from aiosearch.tuner import RecordTable
from aiosearch.tuner.kernels import Call
from aiosearch.tuner.pipeline import TuningRun
from aiosearch.tuner.recordings import RecordedSpace

ROUNDS = 7
"""More than a search has, as a point that is lucky once would be the goal of every replay."""


async def record(name: str, folder: Path) -> None:
    kernel, arguments = KERNELS[name]
    with tempfile.TemporaryDirectory() as scratch:
        kernel.table = RecordTable(Path(scratch) / "table.json")
        run = TuningRun(
            kernel, Call(arguments()), trials=1 << 20, algorithm="exhaustive", rounds=ROUNDS
        )
        report = await run.run()
    recorded = RecordedSpace.of(report)
    recorded.save(folder / f"{name}.json")
    sys.stdout.write(
        f"{name}: {len(recorded.points)} points, best {recorded.best:.3g} s\n{report}\n"
    )
    sys.stdout.flush()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=list(KERNELS))
    parser.add_argument("--folder", type=Path, default=Path(__file__).parent / "recorded")
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    for name in arguments.names:
        asyncio.run(record(name, arguments.folder))


if __name__ == "__main__":
    main()
