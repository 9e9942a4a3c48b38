"""One `optimize` of the console script: begun, watched, interrupted and ended."""

from __future__ import annotations

import sys
import time
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

import anyio
import jax
from anyio import to_thread

from ....capture.jax_function import placeholders, precision
from ....capture.jax_types import Leaf, PyTree
from ....display.live_page import REFRESH_SECONDS, LivePage
from ....measure import ArrayType
from ....measure.random_inputs import draw
from ....optimizer import (
    CALLED,
    WHOLE,
    Optimization,
    Optimized,
    Results,
    device,
    platform,
    running_page,
)
from ...inputs.functions import FunctionTarget
from ...output.screen import LiveScreen, NoScreen, PlainScreen, Screen, ticking
from ...output.streams import tell
from ...output.units import duration
from ...signals import Interrupts

if TYPE_CHECKING:
    from ...commands.optimize import OptimizeArguments


Made: TypeAlias = Optimized[..., PyTree]


class OptimizeCommand:
    """Optimizes on the running loop; made and used once.

    The first signal ends it with the best so far, a second one at once.
    """

    def __init__(self, target: FunctionTarget, arguments: OptimizeArguments) -> None:
        self._target = target
        self._arguments = arguments
        self._screen: Screen = NoScreen()
        self._now = "tracing"
        self._lines: list[str] = []
        self._search: Optimization[..., PyTree] | None = None
        self._results = Results.open(arguments.file)
        self.interrupted = False

    @property
    def kept(self) -> tuple[str, ...]:
        """The names of what was found and kept so far."""
        names = (name.removesuffix(WHOLE).removesuffix(CALLED) for name in self._results.written)
        return tuple(dict.fromkeys(names))

    async def run(self) -> Made | None:
        """Gives what was found; nothing where a signal ended it."""
        self._started = time.monotonic()
        with ExitStack() as stack, anyio.CancelScope() as scope:
            self._screen = self._opened(scope)
            stack.callback(self._screen.close)
            stack.enter_context(Interrupts(partial(self._stop, scope), partial(self._stop, scope)))
            self._serve(stack)
            async with ticking(self._screen, self._status):
                return await self._optimized()
        return None

    def _stop(self, scope: anyio.CancelScope) -> None:
        """Has the search end with the best so far; a second time at once."""
        self.interrupted = True
        if self._search is None:
            scope.cancel()
            return
        if not self._search.stopped:
            self._tell("ending with the best so far; once more to end at once")
        self._search.stop()

    def _status(self) -> str:
        now = self._now if self._search is None else self._search.progress
        return f"{self._past():>6}  {now}"

    def _serve(self, stack: ExitStack) -> None:
        """Serves a page of how it stands, where that is asked for."""
        if self._arguments.watch is not None:
            live = stack.enter_context(LivePage(self._arguments.watch, self._page))
            tell(f"watch it at {live.address}")

    def _page(self) -> str:
        """Called in another thread: it only reads."""
        best = None if self._search is None else self._search.best
        report = None if best is None else best.report
        return running_page(
            self._target.name, self._status(), report, tuple(self._lines), REFRESH_SECONDS
        )

    def _opened(self, scope: anyio.CancelScope) -> Screen:
        if self._arguments.quiet:
            return NoScreen()
        return LiveScreen() if sys.stderr.isatty() else PlainScreen(scope.cancel)

    async def _optimized(self) -> Made:
        arguments, named = self._arguments, self._target.named
        with self._results as results:
            place, seed = arguments.target, arguments.seed
            values = await to_thread.run_sync(_arguments, self._target, place, seed)
            self._search = Optimization(
                self._target.function,
                *values,
                kwargs=dict(zip(named, placeholders(list(named.values())), strict=True)),
                effort=arguments.effort,
                seconds=arguments.seconds,
                target=arguments.target,
                seed=arguments.seed,
                strict=arguments.strict,
                kernels=not arguments.no_kernels,
                constant_argnums=self._target.constant,
                results=results,
                tell=self._tell,
                progress=False,
            )
            return await self._search.run()

    def _tell(self, text: str) -> None:
        self._now = text
        self._lines.append(f"{self._past():>6}  {text}")
        self._screen.line(self._lines[-1])

    def _past(self) -> str:
        return duration(time.monotonic() - self._started)


def _arguments(function: FunctionTarget, name: str, seed: int) -> list[Leaf]:
    """What stands for the arguments; those that stay the same are arrays of the target named."""
    if function.values is not None:
        return list(function.values)
    values = placeholders(function.types)
    for at in function.constant:
        type_ = ArrayType(str(values[at].dtype), values[at].shape)
        with precision(function.all_types):
            values[at] = jax.device_put(draw(type_, seed, at), device(platform(name)))
    return values
