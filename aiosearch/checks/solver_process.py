"""The host's handle on one z3 process: what it has been asked, and until when it may think."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct

from ..processes.child import Child, Handle, Spawner
from .protocol import SolverAxioms, SolverBroken, SolverReply, SolverRequest, decode_reply, encode

if TYPE_CHECKING:
    from .questions import PendingQuestion

MODULE = "aiosearch.checks.solver"
BROOD = "z3"
START_SECONDS = 60.0
"""Seconds for loading z3, which takes 0.2; on a machine this slow, nothing else would work either.
"""
LARGEST_RLIMIT = 2**32 - 1


class SolverLimits(Struct, frozen=True):
    """What one check may use."""

    rlimit: int
    seconds: float
    memory_mb: int
    grace: float = 0.5
    """How long after `seconds` a process that does not answer is killed."""


class SolverOwner(Protocol):
    """Who hears of a `SolverProcess`: each method is called from the event loop."""

    def ready(self, process: SolverProcess) -> None: ...
    def answered(
        self, process: SolverProcess, question: PendingQuestion, answer: SolverReply, start: float
    ) -> None: ...
    def lost(self, process: SolverProcess) -> None: ...


class SolverProcess:
    """Answers the questions it holds in their order; the oldest has a deadline.

    The deadline starts when the process can have begun: when the question is sent, or when the
    answer before it arrives.
    """

    def __init__(
        self, index: int, limits: SolverLimits, owner: SolverOwner, spawn: Spawner | None = None
    ) -> None:
        self.index = index
        self.own = spawn is None
        """Whether it runs on this machine."""
        self.loaded = False
        """Whether it has said `SolverReady`, which may be heard before `start` has returned."""
        self.broken = ""
        """Why z3 cannot be loaded, as the process says."""
        self.overdue = False
        """Whether it was killed at a deadline."""
        self.held: deque[PendingQuestion] = deque()
        self._limits = limits
        self._owner = owner
        arguments = (str(limits.seconds), str(limits.memory_mb))
        self._spawn = spawn or partial(Child.spawn, MODULE, arguments=arguments, brood=BROOD)
        self._child: Handle | None = None
        self._killed = False
        self._gone = asyncio.Event()
        self._axioms: dict[str, int] = {"": 0}
        self._started = 0.0
        self._deadline = 0.0
        self._timer: asyncio.TimerHandle | None = None

    async def start(self) -> None:
        """Spawns the process; `SolverOwner.ready` is called when it has loaded z3."""
        try:
            child = await self._spawn(self._on_frame, self._on_gone)
        except BaseException:
            self._gone.set()
            raise
        self._child = child
        if self._killed:
            child.kill()
            return
        self._expect(START_SECONDS)
        if self.loaded:
            self._owner.ready(self)

    @property
    def ready(self) -> bool:
        """Whether it can be asked: z3 is loaded, and there is a way to it."""
        return self.loaded and self._child is not None

    @property
    def pid(self) -> int:
        return self._child.pid if self._child is not None else 0

    def submit(self, question: PendingQuestion) -> None:
        """Sends a question, behind those in `held`."""
        assert self._child is not None
        number = self._axioms.get(question.axioms)
        if number is None:
            number = self._axioms[question.axioms] = len(self._axioms)
            self._child.send(encode(SolverAxioms(number, question.axioms)))
        asked = question.obligation
        # z3 reads it as 32 bits, and a larger one as something small
        rlimit = min(question.rlimit, LARGEST_RLIMIT)
        self._child.send(encode(SolverRequest(asked.query, number, asked.logic, rlimit)))
        question.sent = True
        self.held.append(question)
        if len(self.held) == 1:
            self._begin()

    def take_back(self) -> list[PendingQuestion]:
        """Gives the questions it holds, oldest first, and holds none."""
        questions = list(self.held)
        self.held.clear()
        return questions

    def kill(self) -> None:
        self._killed = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._child is not None:
            self._child.kill()

    async def reap(self) -> None:
        """Waits until the process is gone and nothing of it is left."""
        await self._gone.wait()
        if self._child is not None:
            await self._child.reap()

    def _begin(self) -> None:
        self._started = time.monotonic()
        self._expect(self._limits.seconds + self._limits.grace)

    def _expect(self, seconds: float) -> None:
        """Moves the deadline. A timer that is early enough stays: `_tick` arms it anew."""
        loop = asyncio.get_running_loop()
        self._deadline = loop.time() + seconds
        if self._timer is not None and self._timer.when() > self._deadline:
            self._timer.cancel()
            self._timer = None
        if self._timer is None:
            self._timer = loop.call_at(self._deadline, self._tick)

    def _tick(self) -> None:
        self._timer = None
        loop = asyncio.get_running_loop()
        if self.ready and not self.held:
            return
        if loop.time() < self._deadline:
            self._timer = loop.call_at(self._deadline, self._tick)
            return
        self.overdue = True
        self.kill()

    def _on_frame(self, payload: bytes) -> None:
        reply = decode_reply(payload)
        if isinstance(reply, SolverReply):
            self._on_answer(reply)
        elif isinstance(reply, SolverBroken):
            self.broken = reply.reason
        else:
            self.loaded = True
            if self.ready:
                self._owner.ready(self)

    def _on_answer(self, answer: SolverReply) -> None:
        question = self.held.popleft()
        start = self._started
        if self.held:
            self._begin()
        self._owner.answered(self, question, answer, start)

    def _on_gone(self) -> None:
        self.kill()
        self._gone.set()
        self._owner.lost(self)
