"""Optimizations that are ended at random moments: what is kept, and what the next one does again.

    python benchmarks/anytime.py [--moments 20] [--effort default] [--only ctrl-c,kill]
    python benchmarks/anytime.py --program energies --moments 4    # some minutes

Ctrl-C: `aiosearch optimize` of five programs in turns gets SIGINT at a moment that is drawn from
the time that the program took undisturbed. Where something faster had been verified by then, it has
to end with exit code 0, the file of `--emit` and a table; those that do are counted.

kill -9: the same optimization, with every compilation, race, run and rewriting written down that
has ended, is killed with all its processes at such a moment, and begun again. A piece of work is
repeated where both have done it and one that nobody ends does it less often than they did together.
Shares are by the seconds that the pieces took the first time; `counted` is by their number.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lib.figures import figure
from lib.optimizer import logged_executor
from lib.optimizer.logged_executor import PROGRAMS

FUNCTIONS = Path(logged_executor.__file__)
GRACE = 120.0
"""Seconds that an optimization may take to end after a signal."""
GAIN = "so far"
"""What is told when something faster is verified."""


@dataclass(frozen=True)
class Undisturbed:
    """An optimization that nobody ended."""

    seconds: float
    first_gain: float | None
    """Seconds until something faster was verified."""
    work: Counter[tuple[str, str]]


def command(program: str, folder: Path, effort: str) -> list[str]:
    """The optimization in a shell."""
    shapes = [f"--arg=f32[{','.join(map(str, shape))}]" for shape in PROGRAMS[program][1]]
    return [
        sys.executable, "-m", "aiosearch", "optimize", f"{FUNCTIONS}:{program}", *shapes,
        f"--effort={effort}", f"--file={folder / 'store'}", f"--emit={folder / 'faster.py'}",
    ]  # fmt: skip


def logged(program: str, folder: Path, log: str, effort: str) -> list[str]:
    """The optimization that writes down its work."""
    module = "lib.optimizer.logged_executor"
    return [sys.executable, "-m", module, program, str(folder / "store"), str(folder / log), effort]


def started(arguments: list[str], output: int = subprocess.PIPE) -> subprocess.Popen[str]:
    """A process with a group of its own, both of whose streams are one."""
    return subprocess.Popen(
        arguments, stdout=output, stderr=subprocess.STDOUT, text=True,
        start_new_session=True, cwd=Path(__file__).parent,
    )  # fmt: skip


def work_of(path: Path) -> list[dict[str, Any]]:
    """The pieces of work of a log; the last line may not be whole."""
    lines = path.read_text().split("\n")[:-1] if path.exists() else []
    return [json.loads(line) for line in lines]


def counted(pieces: list[dict[str, Any]]) -> Counter[tuple[str, str]]:
    return Counter((piece["kind"], piece["key"]) for piece in pieces)


def undisturbed(program: str, effort: str) -> Undisturbed:
    """Runs one to its end."""
    with tempfile.TemporaryDirectory() as name:
        folder, begun, gain = Path(name), time.monotonic(), None
        process = started(logged(program, folder, "log", effort))
        assert process.stdout is not None
        for line in process.stdout:
            if gain is None and GAIN in line:
                gain = time.monotonic() - begun
        if process.wait() != 0:
            raise SystemExit(f"{program} fails with exit code {process.returncode}")
        work = counted(work_of(folder / "log"))
        return Undisturbed(time.monotonic() - begun, gain, work)


def interrupted(program: str, seconds: float, effort: str) -> tuple[bool, bool, float]:
    """Whether something faster was verified before a signal after so many seconds; whether it then
    ended with that; and the seconds that it took to end."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        heard = folder / "heard"
        with heard.open("w") as output:
            process = started(command(program, folder, effort), output.fileno())
        time.sleep(seconds)
        before = heard.read_text()
        process.send_signal(signal.SIGINT)
        begun = time.monotonic()
        process.wait(timeout=GRACE)
        took = time.monotonic() - begun
        after = heard.read_text()
        reported = "times as fast as written" in after or GAIN in after
        kept = process.returncode == 0 and (folder / "faster.py").exists() and reported
        return GAIN in before, kept, took


def killed(program: str, seconds: float, effort: str, whole: Undisturbed) -> dict[str, float]:
    """Seconds of work that were done before it was killed, and of that what was done again."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        process = started(logged(program, folder, "first", effort))
        time.sleep(seconds)
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        again = started(logged(program, folder, "second", effort))
        again.communicate()
        first, second = work_of(folder / "first"), work_of(folder / "second")
    before, after = counted(first), counted(second)
    seconds_of: dict[tuple[str, str], list[float]] = defaultdict(list)
    for piece in first:
        seconds_of[piece["kind"], piece["key"]].append(piece["seconds"])
    repeated = {
        key: min(before[key], after[key], max(0, before[key] + after[key] - whole.work[key]))
        for key in before
    }
    return {
        "done": sum(piece["seconds"] for piece in first),
        "repeated": sum(
            count * sum(seconds_of[key]) / len(seconds_of[key]) for key, count in repeated.items()
        ),
        "pieces": before.total(),
        "repeated pieces": sum(repeated.values()),
        "code": again.returncode,
    }


def main() -> None:
    """Prints the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--moments", type=int, default=20)
    parser.add_argument("--effort", default="default")
    parser.add_argument("--only", default="ctrl-c,kill")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--program", choices=PROGRAMS, help="only this one of the five")
    asked = parser.parse_args()
    chance = random.Random(asked.seed)
    names = [asked.program] if asked.program else [*PROGRAMS][: asked.moments]
    of = f" of {asked.program}" if asked.program else ""
    whole = {name: undisturbed(name, asked.effort) for name in names}
    for name, run in whole.items():
        figure(f"{name}, {asked.effort}: seconds to the end", run.seconds, "s")
        figure(f"{name}, {asked.effort}: seconds to the first gain", run.first_gain, "s")
    moments = [
        (name, chance.uniform(0.05, 0.95) * whole[name].seconds)
        for name in (names[at % len(names)] for at in range(asked.moments))
    ]
    if "ctrl-c" in asked.only:
        outcomes = [interrupted(name, seconds, asked.effort) for name, seconds in moments]
        verified = [outcome for outcome in outcomes if outcome[0]]
        kept = sum(outcome[1] for outcome in verified)
        text = f"Ctrl-C at {asked.moments} random moments{of}: best-so-far kept and reported"
        figure(text, kept, f"of {len(verified)} after the first verified winner")
        took = max((outcome[2] for outcome in outcomes), default=None)
        figure(f"Ctrl-C{of}: the longest time to end", took, "s")
    if "kill" in asked.only:
        outcomes_killed = [
            killed(name, seconds, asked.effort, whole[name]) for name, seconds in moments
        ]
        done = sum(outcome["done"] for outcome in outcomes_killed)
        again = sum(outcome["repeated"] for outcome in outcomes_killed)
        pieces = sum(outcome["pieces"] for outcome in outcomes_killed)
        repeated = sum(outcome["repeated pieces"] for outcome in outcomes_killed)
        figure(
            f"kill -9 at {asked.moments} random moments{of}, then again: share of work repeated",
            100 * again / max(done, 1e-9), "%", target="under 20 %",
            counted=f"{repeated:.0f} of {pieces:.0f} pieces",
            ended=sum(outcome["code"] == 0 for outcome in outcomes_killed),
        )  # fmt: skip


if __name__ == "__main__":
    main()
