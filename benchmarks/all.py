"""Runs the engine's benchmarks in turn: python benchmarks/all.py [--quick] [--long] [NAME ...].

Those of the optimizer and of its referee, which README.md has too, are run one by one. Figures come
out as they are measured, one JSON object a line. Ends with an error when one failed.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from pathlib import Path

from lib.figures import figure

FOLDER = Path(__file__).parent
SOAK = FOLDER.parent / "tests" / "soak"
SOAKS = ("chaos", "hostile", "outages")
NAMES = (
    *("nodes", "roundtrip", "links", "steals", "speedup", "strategies", "simulated"),
    *("checks", "lag", "stall", "starts", "cancel", "resume", "chaos"),
)
LONG = ("hostile", "outages", "curves", "seed", "ray_local")
"""They run when they are named, or with `--long`; the last one needs Ray."""
ONE_SIZE = ("nodes", "roundtrip", "links", "steals", "lag", "stall", "starts")


def run(name: str, quick: bool) -> bool:
    """Runs one; says whether it went well."""
    arguments = ["--quick"] if quick and name not in ONE_SIZE else []
    started = time.monotonic()
    folder = SOAK if name in SOAKS else FOLDER
    done = subprocess.run([sys.executable, folder / f"{name}.py", *arguments], check=False)
    seconds = time.monotonic() - started
    figure(f"benchmark {name}: time taken", seconds, "s", exit_status=done.returncode)
    return done.returncode == 0


def main() -> None:
    every = (*NAMES, *LONG)
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(every))
    parser.add_argument("--quick", action="store_true", help="sanity sizes")
    parser.add_argument("--long", action="store_true", help=f"also {', '.join(LONG)}")
    options = parser.parse_args()
    if unknown := set(options.names) - set(every):
        parser.error(f"no benchmark {', '.join(sorted(unknown))}; there are {', '.join(every)}")
    names = options.names or (every if options.long else NAMES)
    failed = [name for name in names if not run(name, options.quick)]
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
