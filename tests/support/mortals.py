"""Workers of a board that a test may freeze or kill at any moment.

They are forked off from a process that has everything loaded and only one thread; they note what
they do in a file, each line in one write of `LINE` bytes to what begins empty: one who is killed
while it writes leaves all of it or nothing, as no line lies across two pages.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from aiosearch_stealing.board import SharedBoard

from aiosearch.memory import lock

LINE = 32
"""Bytes of a line of notes: a page is a multiple of it."""


def payload(owner: int, number: int) -> bytes:
    """What an offer holds, for whoever finds it to see that it is whole."""
    return f"{owner}/{number};".encode() * (1 + 400 * (number % 4))


class Mortals:
    """Starts them; what is left of them ends with the block."""

    def __init__(self, board: SharedBoard, notes: Path) -> None:
        self.notes = notes
        notes.touch()
        self._nursery = subprocess.Popen(
            [sys.executable, __file__, board.path, str(notes)],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def start(self, life: str, place: int, owner: int) -> int:
        """Starts one and gives its process id; one that freezes itself has done so by then."""
        return int(self._ask(life, place, owner))

    def bury(self, pid: int) -> int:
        """Waits until one is gone; gives its exit status."""
        return int(self._ask("bury", pid, 0))

    def kill(self, pid: int) -> None:
        os.kill(pid, signal.SIGKILL)
        self.bury(pid)

    def read(self) -> list[list[str]]:
        """What all have noted, word by word."""
        return [line.split() for line in self.notes.read_text().splitlines()]

    def _ask(self, *words: object) -> str:
        stdin, stdout = self._nursery.stdin, self._nursery.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write(" ".join(map(str, words)) + "\n")
        stdin.flush()
        return stdout.readline()

    def __enter__(self) -> Mortals:
        return self

    def __exit__(self, *error: object) -> None:
        self._nursery.communicate()
        assert self._nursery.returncode == 0


class Mortal:
    """One life of one worker."""

    def __init__(self, path: str, notes: Path, place: int, owner: int) -> None:
        self.place = place
        self.owner = owner
        self._exchange = SharedBoard.join(path, place, owner, lambda: None)
        self.file = os.open(path.partition("#")[0], os.O_RDWR)
        self._notes = os.open(notes, os.O_WRONLY | os.O_APPEND)
        self._number = 0

    def note(self, *words: object) -> None:
        line = " ".join(map(str, words)).ljust(LINE - 1) + "\n"
        assert len(line) == LINE
        os.write(self._notes, line.encode())

    def offer(self) -> None:
        if self._exchange.room:
            self._number += 1
            self._exchange.offer(self._number, payload(self.owner, self._number), 0.5)

    def look(self) -> None:
        for number, taker in self._exchange.taken():
            self.note("gone", self.owner, number, taker)

    def regain(self) -> None:
        for number in self._exchange.regain():
            self.note("regained", self.owner, number, self.owner)

    def take(self) -> None:
        for taken in self._exchange.take():
            whole = taken.blob == payload(taken.owner, taken.number)
            self.note("took" if whole else "torn", taken.owner, taken.number, self.owner)


def busy(mortal: Mortal) -> None:
    """Does whatever a worker does, in any order, for ever."""
    dice = random.Random(mortal.owner)
    deeds: list[Callable[[], None]] = [mortal.offer, mortal.look, mortal.take, mortal.regain]
    while True:
        dice.choices(deeds, (6, 2, 3, 1))[0]()


def greedy(mortal: Mortal) -> None:
    """Takes what comes, for ever."""
    while True:
        mortal.take()


def frozen(mortal: Mortal) -> None:
    """Freezes while it holds the lock of the place before its own."""
    lock(mortal.file, mortal.place - 1, 1)
    os.kill(os.getpid(), signal.SIGSTOP)


LIVES = {life.__name__: life for life in (busy, greedy, frozen)}


def live(life: Callable[[Mortal], None], path: str, notes: Path, place: int, owner: int) -> None:
    """Lives in a process of its own, to its end."""
    status = 1
    try:
        life(Mortal(path, notes, place, owner))
        status = 0
    finally:
        os._exit(status)


def serve(path: str, notes: Path) -> None:
    """Forks them off, one for each line that asks for one."""
    for line in sys.stdin:
        life, first, second = line.split()
        if life == "bury":
            answer = os.waitstatus_to_exitcode(os.waitpid(int(first), 0)[1])
        elif answer := os.fork():
            if life == "frozen":
                os.waitpid(answer, os.WUNTRACED)
        else:
            live(LIVES[life], path, notes, int(first), int(second))
        print(answer, flush=True)  # noqa: T201  # it is a protocol


if __name__ == "__main__":
    serve(sys.argv[1], Path(sys.argv[2]))
