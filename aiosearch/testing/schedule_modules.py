"""For authors of schedule modules: `check_schedule_module(module)` says what one breaks."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..tuner.schedules.modules import ScheduleModule
    from ..tuner.space.hardware import Hardware

POINTS = 12
_TOLERANCE = 2e-4


def check_schedule_module(module: ScheduleModule, hardware: Hardware | None = None) -> None:
    """Puts a module among the standard ones and raises AssertionError where it breaks something.

    Each point that takes one of its branches has to compute the contraction, on small arrays; to be
    the same when it is replayed from JSON; and every point without the module has to be left.
    """
    import jax
    import jax.numpy as jnp
    import numpy as np

    from ..tuner.schedules.contractions import EinsumSpec, lower
    from ..tuner.schedules.modules import SKIP, compose, multi_level_tiling
    from ..tuner.space.hardware import this_hardware
    from ..tuner.space.spaces import SearchSpace
    from ..tuner.space.traces import Trace

    key = jax.random.key(0)
    first = jax.random.normal(key, (32, 48))
    second = jax.random.normal(key, (48, 64))
    start = EinsumSpec.of("mk,kn->mn", first, second, epilogue="relu").start()
    wanted = np.maximum(np.asarray(first) @ np.asarray(second), 0)
    tiling = multi_level_tiling()
    device = hardware or this_hardware()
    name = module.__name__

    def space(*modules: Any) -> SearchSpace:
        return SearchSpace(lambda s: compose(modules, s, start), hardware=device)

    without, whole = space(tiling), space(tiling, module)
    random, branches = Random(0), set[str]()
    for _ in range(POINTS):
        trace = whole.sample(random)
        branches.add(trace.decisions[name])
        again = whole.replay(Trace.from_json(trace.to_json()).decisions)
        assert again == trace, f"{name}: a point replayed from JSON is another, {again.decisions}"
        if trace.decisions[name] != SKIP:
            values = np.asarray(lower(whole.build(trace))(jnp.asarray(first), jnp.asarray(second)))
            error = float(np.abs(values - wanted).max())
            assert error <= _TOLERANCE * float(np.abs(wanted).max()), (
                f"{name}: {trace.decisions} computes another thing, off by {error:.3g}"
            )
    assert branches - {SKIP}, f"{name}: no branch was taken in {POINTS} points on {device.name}"
    for _ in range(POINTS):
        point = without.sample(random)
        assert whole.contains({**point.decisions, name: SKIP}), (
            f"{name}: {point.decisions} could be reached without the module, and cannot with it"
        )
