"""Functions of other people's libraries: how much faster does `optimize` make them?

`uv run --group third-party python benchmarks/third_party.py [--only NAME ...] [--limit N]`

Losses, updates, densities, layers, image filters (`lib/programs/third_party.py`), imported from
their libraries with arguments of common sizes. Each is searched in a process with a limit of time;
then a fresh process times what was found against `jax.jit`, as `models.py` does. A run that was cut
goes on with `--resume` and the lines that it printed. Figures go to standard output, a table for
people to standard error.
"""

from __future__ import annotations

from lib.programs.command import run

TARGETS = {
    "third-party": {
        "geomean over jax.jit": 1.8,
        "refused": 2,
        "wrong": 0,
        "slower in any way": 0,
        "claims above 1.25 times the measurement": 2,
        "seconds to the answer, median": 12,
        "seconds to the answer, 90 %": 30,
        "seconds to the answer, most": 60,
    }
}


def main() -> None:
    run("third-party", (__doc__ or "").partition("\n")[0], TARGETS)


if __name__ == "__main__":
    main()
