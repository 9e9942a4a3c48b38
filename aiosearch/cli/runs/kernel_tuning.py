"""`aiosearch tune` for a kernel: watched, interrupted, printed and written."""

from __future__ import annotations

import ast
import asyncio
import inspect
import os
import re
import sys
import time
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import ExitStack
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, TypeVar

import anyio
import jax
import jax.numpy as jnp

from ...arguments import nearest
from ...tuner.kernels import KernelCall
from ...tuner.pictures import picture
from ...tuner.pipeline import TuningRun
from ...tuner.records import RecordTable, read_seeds
from ...tuner.reports import TuningProgress, TuningReport, explanation
from ...tuner.tasks import TunedFunction, tune_function
from ...tuner.tunables import AnyTunable, Tunable, device_name, frozen_record
from ...tuner.types import Configuration, Function, Pytree
from ..inputs import objects
from ..output.files import require_drawing, require_place, write
from ..output.screen import LiveScreen, NoScreen, PlainScreen, Screen, ticking
from ..output.streams import (
    Exit,
    UsageError,
    give,
    give_json,
    logs_to_stderr,
    reserved_stdout,
    tell,
)
from ..output.units import duration
from ..signals import Interrupts
from .search import fastest_loop

if TYPE_CHECKING:
    from ..commands.tune import TuneArguments

ResultT = TypeVar("ResultT")
WHOLE_SECONDS = 600.0
"""For a whole function where --seconds says nothing."""

_ARRAY = re.compile(r"(\w+)\[\s*(\d+(?:\s*,\s*\d+)*)?\s*\]")
_TYPES = {
    "f64": "float64", "f32": "float32", "f16": "float16", "bf16": "bfloat16",
    "i64": "int64", "i32": "int32", "i16": "int16", "i8": "int8",
    "u64": "uint64", "u32": "uint32", "u16": "uint16", "u8": "uint8", "bool": "bool",
}  # fmt: skip


def run(arguments: TuneArguments) -> int:
    """Tunes a kernel, prints the closing table, and gives the exit code."""
    # The process that times on a GPU needs the memory that jax would take for this one.
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    require_drawing(arguments.plot)
    require_place(arguments.plot)
    assert arguments.kernel is not None
    if arguments.whole:
        return _tune_whole(arguments.kernel, arguments)
    text = ""
    with reserved_stdout(), logs_to_stderr(False):
        kernel = _kernel(arguments.kernel)
        if arguments.table is not None:
            kernel.table = RecordTable(Path(arguments.table))
        call = _call(arguments.kernel, kernel.original, arguments.arg)
        command = TuneCommand(kernel, call, arguments)
        if arguments.explain:
            record = frozen_record(kernel, call)
            text = explanation(kernel, call, record)
        else:
            report = _awaited(command.run)
    if arguments.explain:
        if arguments.json:
            facts = TuningReport(record, remembered=True).facts()
            give_json({"record": facts["record"], "explanation": text.splitlines()})
        else:
            give(text)
        return Exit.FINE
    if report is None:
        found = kernel.table.find(kernel.name, command.device, kernel.key(call))
        kept = "nothing is kept" if found is None else f"{kernel.table.path} has the fastest so far"
        tell(f"interrupted; {kept}")
        return Exit.INTERRUPTED
    write(arguments.plot, lambda: picture(report))
    if arguments.json:
        give_json(report.facts())
    else:
        give(str(report))
        give(f"  in {kernel.table.path}")
    return Exit.FINE


class TuneCommand:
    """Tunes on the running loop; made and used once."""

    def __init__(
        self, kernel: AnyTunable | None, call: KernelCall, arguments: TuneArguments
    ) -> None:
        self._kernel = kernel
        self._call = call
        self._seeds = read_seeds(arguments.seeds) if arguments.seeds is not None else []
        self._arguments = arguments
        self._screen: Screen = NoScreen()
        self._now = "compiling the untuned form, once nobody else tunes it"
        self._bests: dict[str, float] = {}
        """Of each kernel, as the regions of a function take turns."""
        self.device = ""

    async def run(self) -> TuningReport | None:
        """Gives what was found; nothing where a second signal broke it off."""
        self.device = await asyncio.to_thread(device_name)
        given = self._arguments
        options: Configuration = {"seconds": given.seconds, "trials": given.trials}
        assert self._kernel is not None
        tuning = TuningRun(
            self._kernel,
            self._call,
            algorithm=(given.algorithm or ["evolution"])[0],
            model=given.model,
            seed=given.seed,
            again=given.again,
            frozen=given.frozen,
            seeds=self._seeds,
            on_progress=self._progress,
            **options,
        )
        return await self._watched(tuning.run, tuning.stop)

    async def run_whole(self, function: Function) -> TunedFunction | None:
        """The same for all regions of a function; a signal ends it, and keeps what is verified."""
        given = self._arguments
        return await self._watched(
            lambda: tune_function(
                function,
                *self._call.arguments,
                seconds=given.seconds or WHOLE_SECONDS,
                seed=given.seed,
                again=given.again,
                table=given.table,
                on_progress=self._progress,
                tell=self._tell,
            )
        )

    def _tell(self, text: str) -> None:
        self._now = text

    async def _watched(
        self,
        work: Callable[[], Awaitable[ResultT]],
        stop: Callable[[], None] | None = None,
    ) -> ResultT | None:
        self._started = time.monotonic()
        with ExitStack() as stack, anyio.CancelScope() as scope:
            if not self._arguments.quiet:
                terminal = sys.stderr.isatty()
                self._screen = LiveScreen() if terminal else PlainScreen(scope.cancel)
            stack.callback(self._screen.close)
            stack.enter_context(Interrupts(stop or scope.cancel, scope.cancel))
            async with ticking(self._screen, lambda: f"{self._past():>6}  {self._now} ..."):
                return await work()
        return None

    def _progress(self, progress: TuningProgress) -> None:
        best = progress.best or progress.baseline
        named = f"{progress.kernel}: " if self._kernel is None else ""
        gain = f"best {duration(best)}, {progress.baseline / best:.2f}x the untuned form"
        self._now = f"{named}{progress.trials} tried, {gain}"
        earlier = self._bests.get(progress.kernel)
        if earlier is None or best < earlier:
            self._bests[progress.kernel] = best
            entry = progress.measurement
            shown = "" if entry is None else ", ".join(
                f"{name}={value}" for name, value in entry.trace.decisions.items()
            )  # fmt: skip
            self._screen.line(f"{self._past():>6}  {named}{gain}: {shown}")

    def _past(self) -> str:
        return duration(time.monotonic() - self._started)


def _kernel(target: str) -> AnyTunable:
    kernel = objects.find(target, _tunables)
    if not isinstance(kernel, Tunable):
        raise UsageError(
            f"{target} is not tunable; decorate it with @aiosearch.tunable(space), or give --whole"
            " to tune the kernels of a plain JAX function"
        )
    return kernel


def _tune_whole(target: str, arguments: TuneArguments) -> int:
    """Tunes the regions of a plain function, prints the closing table, and gives the exit code."""
    with reserved_stdout(), logs_to_stderr(False):
        function = objects.find(target, _tunables)
        if not callable(function) or isinstance(function, Tunable):
            raise UsageError(
                f"{target} is no plain function; without --whole a tunable one is tuned"
            )
        call = _call(target, function, arguments.arg)
        if call.keywords:
            raise UsageError(f"{target}: --whole takes arguments by place, without NAME=")
        command = TuneCommand(None, call, arguments)
        tuned = _awaited(lambda: command.run_whole(function))
    if tuned is None:
        tell("interrupted; the table has what was verified of each region")
        return Exit.INTERRUPTED
    if arguments.json:
        give_json(tuned.facts())
    else:
        give(str(tuned))
    return Exit.FINE


def _tunables(module: ModuleType) -> str:
    names = [name for name, value in vars(module).items() if isinstance(value, Tunable)]
    return f"it has the kernels {', '.join(names)}" if names else "it has no tunable kernel"


def _awaited(work: Callable[[], Coroutine[None, None, ResultT | None]]) -> ResultT | None:
    """What a coroutine gives; nothing where Ctrl-C breaks it off."""
    with asyncio.Runner(loop_factory=fastest_loop()) as runner:
        try:
            return runner.run(work())
        except KeyboardInterrupt:
            return None


def _call(target: str, function: Function, texts: list[str]) -> KernelCall:
    """The call that `--arg` describes; complains of what is missing before jax does."""
    placed, named = [], {}
    for text in texts:
        name, equals, value = text.partition("=")
        if equals:
            named[name] = _argument(value)
        else:
            placed.append(_argument(text))
    try:
        inspect.signature(function).bind(*placed, **named)
    except TypeError as error:
        raise UsageError(
            f"{target}: {error}; give each, as --arg f32[16,4096] or --arg name=3"
        ) from None
    return KernelCall(tuple(placed), named)


def _argument(text: str) -> Pytree:
    """An array's type, or a plain value of Python's."""
    array = _ARRAY.fullmatch(text.strip())
    if array is not None:
        if array[1] not in _TYPES:
            close = nearest(array[1], _TYPES)
            raise UsageError(f"--arg {text}: no such type{close}; there are {', '.join(_TYPES)}")
        shape = tuple(int(size) for size in array[2].split(",")) if array[2] else ()
        return jax.ShapeDtypeStruct(shape, jnp.dtype(_TYPES[array[1]]))  # type: ignore[no-untyped-call]  # jax's
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        raise UsageError(f"--arg {text}: write a type as f32[16,4096], or a number") from None
