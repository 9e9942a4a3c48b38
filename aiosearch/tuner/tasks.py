"""Many kernels within one budget: the next trials go where the whole should gain most.

A model runs some kernels often and others once, some for long and others not. Each is a task with a
weight, which says how often it runs. Problem: spend a wall budget on the sum of weight x seconds.
After a first turn each, the task goes on that should lower the sum most by one more turn:

    gain = weight x (0.2 x what its last turns gained + 0.8 x its seconds / its turns so far)

The first part looks back, as what fell just now may fall on; the second hopes that a task falls as
it did on average, so that one that takes long and was hardly tried comes first. A task has
converged when three turns gained less than one percent together, and is left.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field

from ..measure import Executor
from .errors import TunerError
from .kernels import KernelCall
from .pipeline import TuningBudget, TuningProgress, TuningSession, device_executor
from .reports import TuningReport
from .tunables import AnyTunable
from .types import Pytree

BACKWARD = 0.2
WINDOW = 3
CONVERGED = 0.01
TURN = 8
"""Trials of a turn."""
LAST_SHARE = 0.15
"""The share of the budget that is left for the last races of all tasks."""


@dataclass(frozen=True)
class TuningTask:
    """A kernel with the arguments of one kind of call, and how often the whole runs it."""

    kernel: AnyTunable
    arguments: tuple[Pytree, ...]
    weight: float = 1.0


@dataclass
class TaskHistory:
    """What the turns of a task brought: seconds of its best after each."""

    weight: float
    seconds: list[float] = field(default_factory=list)

    @property
    def converged(self) -> bool:
        """Whether the last turns gained next to nothing."""
        if len(self.seconds) <= WINDOW:
            return False
        return self.seconds[-1 - WINDOW] - self.seconds[-1] < CONVERGED * self.seconds[-1]

    def gain(self) -> float:
        """How much the whole should gain by one more turn, in seconds."""
        last = self.seconds[-1]
        back = min(WINDOW, len(self.seconds) - 1)
        fell = (self.seconds[-1 - back] - last) / back if back else 0.0
        return self.weight * (BACKWARD * fell + (1 - BACKWARD) * last / len(self.seconds))


def next_task(histories: Sequence[TaskHistory]) -> int | None:
    """Whose turn it is: who had none, else who should gain most; nobody where all converged."""
    for at, history in enumerate(histories):
        if not history.seconds:
            return at
    going_on = [at for at, history in enumerate(histories) if not history.converged]
    return max(going_on, key=lambda at: histories[at].gain(), default=None)


async def tune_tasks(
    tasks: Sequence[TuningTask],
    *,
    seconds: float,
    turn: int = TURN,
    seed: int = 0,
    again: bool = False,
    executor: Executor | None = None,
    on_progress: Callable[[TuningProgress], None] | None = None,
) -> list[TuningReport]:
    """Tunes all within one wall budget; equal tasks are tuned once and count together.

    Gives a report for each task, in order. What the table has is taken from it, unless all are to
    be tuned `again`.
    """
    if not tasks:
        raise TunerError("there is no task to tune")
    if executor is None:
        async with device_executor() as device:
            return await tune_tasks(
                tasks, seconds=seconds, turn=turn, seed=seed, again=again, executor=device,
                on_progress=on_progress,
            )  # fmt: skip
    started = time.monotonic()
    distinct: dict[tuple[str, tuple[str, ...]], TuningTask] = {}
    weights: dict[tuple[str, tuple[str, ...]], float] = {}
    for task in tasks:
        key = _key(task)
        distinct.setdefault(key, task)
        weights[key] = weights.get(key, 0.0) + task.weight
    reports: dict[tuple[str, tuple[str, ...]], TuningReport] = {}
    async with AsyncExitStack() as stack:
        searches, histories, keys = [], [], []
        for key, task in distinct.items():
            search = TuningSession(
                task.kernel, KernelCall(task.arguments), executor, TuningBudget(), seed=seed,
                again=again, on_progress=on_progress,
            )  # fmt: skip
            record = await stack.enter_async_context(search.opened())
            if record is not None:
                reports[key] = record
                continue
            searches.append(search)
            histories.append(TaskHistory(weights[key]))
            keys.append(key)
        end = started + (1 - LAST_SHARE) * seconds
        while time.monotonic() < end and (at := next_task(histories)) is not None:
            search = searches[at]
            trials = (len(histories[at].seconds) + 1) * turn
            await search.advance(TuningBudget(trials=trials))
            histories[at].seconds.append(search.best or search.baseline)
        for key, search in zip(keys, searches, strict=True):
            reports[key] = await search.finish()
    return [reports[_key(task)] for task in tasks]


def _key(task: TuningTask) -> tuple[str, tuple[str, ...]]:
    return (task.kernel.name, KernelCall(task.arguments).text)
