"""Functions as people write them: how much faster does `optimize` make them, if at all?

`uv run --group bench python benchmarks/optimize.py [--what corpus] [--effort quick] [NAME ...]`

The forty of `corpus.py` and the built-in programs (`lib/optimizer/builtin_cases.py`). Each is
optimized from nothing, with a store of its own. Then the function under `jax.jit` and what came
back are timed here, in turns, and their results compared. A function counts as slower where it is
so beyond its own noise, here and again in a fresh process. Where kernels of ours are the answer,
the best plain JAX is found too, and timed beside it. Where torch is installed, `torch.compile` with
max-autotune is timed beside it (`lib/optimizer/torch_algebra.py` says how to install it). Figures
go to standard output, a table for people to standard error.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import lib.optimizer.builtin_cases as layers
from corpus import CORPUS, Case
from lib.optimizer.contest import Outcome, Setting, contest, known
from lib.optimizer.summary import as_table, tell, tell_all

from aiosearch.measure import JaxExecutor
from aiosearch.optimizer.device_kind import platform
from aiosearch.optimizer.effort import Effort
from aiosearch.optimizer.errors import OptimizeError

SURROUNDINGS = {
    # The process that times on a GPU needs the memory that jax would take for this one.
    "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
    # torch's threads would spin beside jax's, and wait for a whole time slice for each other.
    "OMP_WAIT_POLICY": "passive",
}
WHAT = ("corpus", "builtins", "all")


def main() -> None:
    for name, value in SURROUNDINGS.items():
        os.environ.setdefault(name, value)
    options = _options()
    try:
        platform(options.target)
    except OptimizeError as error:
        sys.exit(str(error))
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder) / "results.sqlite"
        setting = Setting(options.effort, options.target, options.seconds, store)
        outcomes = asyncio.run(all_of(_cases(options.names, options.what), setting))
    tell_all(outcomes)
    sys.stderr.write(as_table(outcomes) + "\n")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="these alone")
    parser.add_argument("--what", default="all", choices=WHAT)
    parser.add_argument("--effort", default="quick", choices=[one.value for one in Effort])
    parser.add_argument("--target", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--seconds", type=float, default=2.0, help="for each comparison")
    options = parser.parse_args()
    if unknown := set(options.names) - set(known()):
        parser.error(f"no function {', '.join(sorted(unknown))}")
    return options


def _cases(names: Sequence[str], what: str) -> list[Case]:
    if names:
        return [known()[name] for name in names]
    found = list(CORPUS.values()) if what != "builtins" else []
    return found + (list(layers.cases().values()) if what != "corpus" else [])


async def all_of(cases: Sequence[Case], setting: Setting) -> list[Outcome]:
    outcomes = []
    async with JaxExecutor(setting.target) as executor:
        for case in cases:
            outcomes.append(await contest(case, setting, executor))
            tell(outcomes[-1])
    return outcomes


if __name__ == "__main__":
    main()
