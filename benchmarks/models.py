"""Models and training steps at small real sizes: how much faster does `optimize` make them?

`uv run --group third-party python benchmarks/models.py [--only NAME ...] [--quick]`

Twelve forward passes and three losses with their gradients, from their libraries where those are
installed and from their formulas (`lib/programs/formulas.py`) where not. Each is searched in a
process with a limit of time; then a fresh process times what was found against `jax.jit` in turns:
each call waited for, with calls in flight, and alternated with other work. Results are compared
with float64. Figures go to standard output, a table for people to standard error. A run that was
cut goes on with `--resume` and the lines that it printed.
"""

from __future__ import annotations

from lib.programs.command import run
from lib.programs.models import TRAINING

TARGETS = {
    "models": {
        "faster beyond noise": 8,
        "geomean over jax.jit": 1.2,
        "slower in any way": 0,
        "wrong": 0,
        "with candidates not judged": 0,
    },
    "training steps": {"no answer within the limit": 0, "slower in any way": 0, "wrong": 0},
}


def main() -> None:
    run("models", (__doc__ or "").partition("\n")[0], TARGETS, {"training steps": TRAINING})


if __name__ == "__main__":
    main()
