"""Random µgraphs, and answers of the superoptimizer, as machine code against the referee.

Each is lowered and fused in one of the ways that `optimize` tries, and compiled for this
processor, for one without AVX-512 or for the least one, by a schedule that is drawn, too. What the
lowered module means is held to the float64 referee of programs, and what the machine code gives to
that, between forbidden pages.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from random import Random

from lib.figures import figure

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))

from testkit.kernels.error_bounds import Referee, errors
from testkit.kernels.lowered import difference
from testkit.kernels.native_run import MACHINES, drawn, run
from testkit.kernels.random_schedules import drawn_schedules, in_a_way
from testkit.random_mugraphs.printable import mugraphs  # found in the tests' folder


def main(count: int) -> None:
    started, failures, worst, as_good, judged = time.process_time(), [], 0.0, 0, 0
    machines, names = list(MACHINES.values()), list(MACHINES)
    for number, program in enumerate(mugraphs(count)):
        module = in_a_way(program, number)
        at = number % len(machines)
        ways = drawn_schedules(module, Random(number), machines[at])
        inputs = drawn(module, number)
        referee, found = Referee(module, inputs), run(module, inputs, ways, machines[at])
        judged += referee.judges
        error = difference(program, number, module) or referee.wrong(found)
        if error:
            failures.append(f"{number} {names[at]}: {error.splitlines()[0]}")
            continue
        ours, theirs = errors(program, module, inputs, found)
        worst, as_good = max(worst, ours - theirs), as_good + (ours <= theirs)
    figure(
        "random µgraphs as machine code: those that are not what the referee says",
        len(failures),
        "programs",
        target=0,
        programs=count,
        judged=judged,
        failures=failures,
        no_worse_than_plain_32_bits=as_good,
        ulps_worse_at_most=round(worst, 2),
        cpu_seconds=round(time.process_time() - started, 1),
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=200)
    main(parser.parse_args().count)
