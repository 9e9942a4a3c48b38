"""What every `Executor` does, whatever the device."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import Protocol, Self, TypeAlias

from .candidates import Array, Candidate, Compiled, Failure
from .race import LEAST_ROUNDS, Race

Inputs: TypeAlias = int | Sequence[Array]
"""A seed to draw inputs from, in the device's own process, or the arrays themselves."""

ROUNDS = 21


class Executor(Protocol):
    """Compiles and times candidates on one device; each that fails is out alone.

    Every method may be called at any time and by many tasks; what must not overlap waits its turn.
    After `close` no process, file or task of it is left.
    """

    @property
    def virtual(self) -> bool:
        """Whether its clock is a `VirtualClock`, so that it says nothing of what else runs here."""
        ...

    @property
    def platform(self) -> str:
        """What jax calls the device: "cpu" or "cuda"."""
        ...

    async def __aenter__(self) -> Self: ...
    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...

    async def compile(self, candidate: Candidate) -> Compiled | Failure:
        """Compiles beside the device, within limits of time and memory."""
        ...

    async def run(self, compiled: Compiled, inputs: Inputs) -> tuple[Array, ...] | Failure:
        """Gives the outputs, flat; half types are widened to float32, which is exact."""
        ...

    async def race(
        self,
        contenders: Sequence[Compiled],
        *,
        seed: int = 0,
        rounds: int = ROUNDS,
        seconds: float | None = None,
        deciding: bool = False,
        least: int = LEAST_ROUNDS,
    ) -> Race:
        """Times all of them in turns, the first one twice; no round begins after `seconds`.

        At `least` so many rounds are run in any case, by default those that a ratio needs. With
        `deciding` they run in no `Way` but the one that decides, which takes a fraction of the
        time.
        """
        ...

    async def close(self) -> None:
        """Ends every process and returns when it is gone. Safe to call twice."""
        ...
