"""`aiosearch place`: a function's plan for this machine, in words, as a drawing and as JSON."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from ...capture.jax_function import placeholders, precision
from ...capture.jax_types import Function, PyTree
from ...mapper import PlacementPlan, place
from ...tensor import TensorType
from ..inputs import programs
from ..inputs.functions import bound
from ..output.files import require_drawing, require_place, write
from ..output.streams import Exit, UsageError, give, reserved_stdout, tell
from .search import fastest_loop

if TYPE_CHECKING:
    from ..commands.place import PlaceArguments


def run(arguments: PlaceArguments) -> int:
    """Places the function, tells the plan, and gives the exit code."""
    require_drawing(arguments.svg)
    require_place(arguments.plan)
    with reserved_stdout():
        types, named = programs.named_types(arguments.arg)
        if named:
            raise UsageError(f"--arg {next(iter(named))}=...: place takes arguments by place only")
        function = programs.function(arguments.function)
        types, _ = bound(arguments.function, function, types, {})
        with precision(types):
            plan = _placed(function, draw_arguments(types, arguments.seed), arguments)
    if plan is None:
        tell("interrupted; nothing is kept")
        return Exit.INTERRUPTED
    write(arguments.svg, plan.timeline)
    write(arguments.plan, lambda: plan.to_json() + "\n")
    give(plan.to_json() if arguments.json else plan.explain())
    return Exit.FINE


def draw_arguments(types: list[TensorType], seed: int) -> list[jax.Array]:
    """Random arrays of these types: numbers of a normal distribution, and small whole numbers."""
    rng = np.random.default_rng(seed)

    def draw(shape: tuple[int, ...], dtype: Any) -> jax.Array:
        if jnp.issubdtype(dtype, jnp.inexact):
            return jnp.asarray(rng.standard_normal(shape), dtype)
        return jnp.asarray(rng.integers(0, 2, shape), dtype)

    return [draw(struct.shape, struct.dtype) for struct in placeholders(types)]


def _placed(
    function: Function, values: list[jax.Array], arguments: PlaceArguments
) -> PlacementPlan[..., PyTree] | None:
    async def placing() -> PlacementPlan[..., PyTree]:
        return await place(
            function,
            *values,
            cluster=arguments.cluster,
            teams=arguments.teams,
            memory=arguments.memory,
            seconds=arguments.seconds,
            seed=arguments.seed,
        )

    with asyncio.Runner(loop_factory=fastest_loop()) as runner:
        try:
            return runner.run(placing())
        except KeyboardInterrupt:
            return None
