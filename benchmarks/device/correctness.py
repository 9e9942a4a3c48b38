"""Kernels of every built-in program on a GPU against float64, into memory that holds NaN.

    python benchmarks/device/correctness.py --seconds 120          # 39 rows, two kernels of each
    python benchmarks/device/correctness.py --only gqa --rows 8
    python benchmarks/device/correctness.py --dry                   # the plumbing, on a CPU

`benchmarks/gpuwinners.py` asks the same of Pallas' interpreter. A JSON line for each kernel, with
`right`, why not, whether a second run gives the same bits, and the GPU's own count of its time.
The exit code is 1 where one is wrong or none is right, and 124, as of `timeout`, where the time was
over before all were tried.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from sweep import PROGRAMS, Session, leave

from aiosearch.tensor.programs import BUILTINS


class Correctness(Session):
    """Every built-in program, those of the kernel table first."""

    programs = (*PROGRAMS, *(name for name in BUILTINS if name not in PROGRAMS))

    def exit_code(self) -> int:
        """1 where a kernel is wrong or none is right, and 124 where kernels were left untried."""
        if self._counts["wrong"]:
            return 1
        return super().exit_code() or (124 if self._late else 0)


def main() -> int:
    sys.path.append(str(Path(__file__).parent.parent))  # processes that are spawned get it too
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=120.0)
    parser.add_argument("--only", action="append", metavar="NAME", choices=list(BUILTINS))
    parser.add_argument("--rows", default="8,1,16")
    parser.add_argument("--points", type=int, default=2, help="kernels of each program")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--compilers", type=int, default=0)
    parser.add_argument("--dry", action="store_true", help="small, interpreted, on a CPU")
    options = parser.parse_args()
    options.favourites = options.points
    if options.dry:
        options.only, options.rows = options.only or ["ntrans", "moe_gate"], "8"
    return Correctness(options, time.monotonic() + options.seconds).run()


if __name__ == "__main__":
    leave(main())
