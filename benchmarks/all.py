"""Runs every benchmark in turn: python benchmarks/all.py [--quick] [NAME ...].

Figures come out as they are measured, one JSON object a line. Ends with an error when one failed.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from pathlib import Path

from figures import figure

FOLDER = Path(__file__).parent
NAMES = ("nodes", "roundtrip", "speedup", "checks", "lag", "stall", "cancel", "resume", "chaos")
SLOW = ("nodes", "roundtrip", "lag", "stall")
"""They have one size."""


def run(name: str, quick: bool) -> bool:
    """Runs one; says whether it went well."""
    arguments = ["--quick"] if quick and name not in SLOW else []
    started = time.monotonic()
    done = subprocess.run([sys.executable, FOLDER / f"{name}.py", *arguments], check=False)
    seconds = time.monotonic() - started
    figure(f"benchmark {name}: time taken", seconds, "s", exit_status=done.returncode)
    return done.returncode == 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(NAMES))
    parser.add_argument("--quick", action="store_true", help="sanity sizes: some five minutes")
    options = parser.parse_args()
    if unknown := set(options.names) - set(NAMES):
        parser.error(f"no benchmark {', '.join(sorted(unknown))}; there are {', '.join(NAMES)}")
    failed = [name for name in options.names or NAMES if not run(name, options.quick)]
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
