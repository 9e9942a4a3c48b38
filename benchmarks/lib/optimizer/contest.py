"""One function against what `optimize` makes of it: first found, then timed here in turns."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from importlib.util import find_spec
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax
import lib.optimizer.builtin_cases as layers
from corpus import CORPUS, Case
from lib.optimizer.agreement import alike, as_near, in_float64, leaves
from lib.optimizer.paired_timing import Call, Compared, compared

from aiosearch.capture import CaptureError
from aiosearch.measure import Executor
from aiosearch.optimizer.handback.optimized import Optimized
from aiosearch.optimizer.optimization import optimize
from aiosearch.optimizer.outcomes.report import Found, Report
from aiosearch.optimizer.outcomes.results import Results

if TYPE_CHECKING:
    from lib.optimizer.torch_programs import TorchSide


@dataclass(frozen=True)
class Setting:
    """How all functions are optimized and timed."""

    effort: str
    target: str
    seconds: float
    """For each comparison."""
    store: Path

    def values(self, case: Case) -> list[jax.Array]:
        """The arguments, on the device."""
        device = jax.devices(self.target)[0]
        return [jax.device_put(value, device) for value in case.values()]


@dataclass(frozen=True)
class Outcome:
    """What came of one function."""

    case: Case
    report: Report
    times: Compared
    """What was found against `jax.jit`, as all that follows against what its name says."""
    right: bool
    again: Compared | None
    """In a fresh process, where it seemed slower."""
    over_plain: Compared | None
    """Kernels against what is found without them, where they are the answer."""
    torch: Compared | str
    """Against `torch.compile`; or why not."""
    by_hand: Compared | None
    """The best spelling by hand against `jax.jit`, where one is known."""

    @property
    def slower(self) -> bool:
        return self.times.slower and (self.again is None or self.again.slower)


def known() -> dict[str, Case]:
    """Every function that can be asked for, by name."""
    return {**CORPUS, **layers.cases()}


@dataclass(frozen=True)
class Pair:
    """A function as it is, and what was found for it, at some arguments."""

    case: Case
    values: list[jax.Array]
    naive: Callable[..., Any]
    found: Optimized[..., Any]

    @classmethod
    async def of(
        cls, case: Case, setting: Setting, executor: Executor | None = None, *, kernels: bool = True
    ) -> Pair:
        """Optimizes it, unless the answer is remembered."""
        values, naive = setting.values(case), jax.jit(case.function)
        with Results.open(setting.store) as store:
            found = await optimize(
                naive,
                *values,
                effort=setting.effort,
                target=setting.target,
                kernels=kernels,
                results=store,
                executor=executor,
            )
        return cls(case, values, naive, found)

    def ready(self, function: Callable[..., Any]) -> Call:
        return lambda: jax.block_until_ready(function(*self.values))  # type: ignore[no-untyped-call]

    def compared(self, seconds: float) -> Compared:
        return compared(self.ready(self.naive), self.ready(self.found), seconds)

    def agrees(self, theirs: Sequence[Any]) -> bool:
        """Whether results are the function's, but for rounding or as much of it as its own."""
        ours = leaves(self.naive(*self.values))
        return alike(ours, theirs) or as_near(ours, theirs, in_float64(self.naive, self.values))


async def contest(case: Case, setting: Setting, executor: Executor) -> Outcome:
    """Finds, checks and times; a loss is timed once more elsewhere."""
    pair = await Pair.of(case, setting, executor)
    times = pair.compared(setting.seconds)
    assert pair.found.report is not None
    return Outcome(
        case,
        pair.found.report,
        times,
        pair.agrees(leaves(pair.found(*pair.values))),
        in_fresh_process(case, setting) if times.slower else None,
        await over_plain(pair, setting, executor),
        against_torch(pair, setting.seconds),
        by_hand(pair, setting.seconds),
    )


def is_kernel(found: Found) -> bool:
    """Whether the answer is machine code of ours."""
    return any(word in found.answer.source for word in ("carried(", "pl.pallas_call("))


async def over_plain(pair: Pair, setting: Setting, executor: Executor) -> Compared | None:
    """Times kernels in turns with the best plain JAX that is found instead of them."""
    assert pair.found.report is not None
    if not any(map(is_kernel, pair.found.report.found)):
        return None
    plain = await Pair.of(pair.case, setting, executor, kernels=False)
    return compared(plain.ready(plain.found), pair.ready(pair.found), setting.seconds)


def in_fresh_process(case: Case, setting: Setting) -> Compared:
    """The same comparison where nothing else ever ran; the answer is remembered."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(_again, case.name, setting).result()


def _again(name: str, setting: Setting) -> Compared:
    return asyncio.run(Pair.of(known()[name], setting)).compared(setting.seconds)


def by_hand(pair: Pair, seconds: float) -> Compared | None:
    spelling = layers.BY_HAND.get(pair.case.name)
    if spelling is None:
        return None
    return compared(pair.ready(pair.naive), pair.ready(jax.jit(spelling)), seconds)


def against_torch(pair: Pair, seconds: float) -> Compared | str:
    """Times what was found against the same program in torch, if that computes the same."""
    torch = in_torch(pair)
    if isinstance(torch, str):
        return torch
    return compared(torch.call, pair.ready(pair.found), seconds)


def in_torch(pair: Pair, *, compiles: bool = True) -> TorchSide | str:
    """The same program in torch; or why there is none that computes the same."""
    if find_spec("torch") is None:
        return "torch is not installed"
    from lib.optimizer.torch_programs import TorchSide

    try:
        torch = TorchSide(pair.case, pair.values, compiles=compiles)
        results = torch.results()
    except CaptureError as error:
        return f"not one program: {error.obstacle}"
    except RuntimeError as error:
        reason = first_line(error)
        return f"torch fails: {type(error).__name__}: {reason}"
    if not pair.agrees(results):
        return "torch computes something else"
    return torch


def first_line(error: Exception) -> str:
    """What went wrong, in a table."""
    return str(error).partition("\n")[0]
