"""For authors of schedule modules: `check_schedule_module(module)` says what one breaks, and
`check_tile_module(module)` of one that schedules kernels of the tile IR.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..tuner.schedules.modules import ScheduleModule
    from ..tuner.schedules.tile_modules import KernelTarget, TileModule
    from ..tuner.space.hardware import Hardware

POINTS = 12
MOST_POINTS = 96
"""Points that are drawn until a branch of the module is taken: of some, few points take one."""
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


def check_tile_module(module: TileModule, target: KernelTarget | None = None) -> None:
    """Puts a module among the standard ones and raises AssertionError where it breaks something.

    It schedules a product with an epilogue and a softmax, on small arrays, for this processor or
    for the `target`. Each point that takes one of its branches has to compute what XLA does, and to
    be the same when it is replayed from JSON; and every point without the module has to be left.
    """
    import jax
    import jax.numpy as jnp

    key = jax.random.key(0)
    x, w = jax.random.normal(key, (48, 96)), jax.random.normal(key, (96, 64))

    def product(x: jax.Array, w: jax.Array) -> jax.Array:
        return jnp.maximum(x @ w, 0)

    def softmax(x: jax.Array) -> jax.Array:
        return jax.nn.softmax(x, axis=-1)

    programs: tuple[tuple[Any, tuple[Any, ...]], ...] = ((product, (x, w)), (softmax, (x,)))
    branches = [_check_program(module, target, *program) for program in programs]
    name = module.__name__
    assert any(branches), f"{name}: no branch was taken in {MOST_POINTS} points of each program"


def _check_program(
    module: TileModule, target: KernelTarget | None, function: Any, arrays: tuple[Any, ...]
) -> bool:
    """Whether a branch of the module was taken in a point of this program."""
    import numpy as np

    from ..tuner.kernels import KernelCall
    from ..tuner.schedules.modules import SKIP
    from ..tuner.schedules.programs import tunable_program
    from ..tuner.schedules.tile_modules import STANDARD
    from ..tuner.space.traces import Trace

    name = module.__name__
    standard = [known for known in STANDARD if known.__name__ != name]
    call = KernelCall(arrays)
    kernel = tunable_program(function, modules=[*standard, module], target=target)
    plain = tunable_program(function, modules=standard, target=target)
    whole, without = kernel.search_space(call), plain.search_space(call)
    exact = np.asarray(function(*arrays))
    random, branches = Random(0), False
    skipped: dict[str, str] = {}
    for count in range(MOST_POINTS):
        if count >= POINTS and branches:
            break
        trace = whole.sample(random)
        again = whole.replay(Trace.from_json(trace.to_json()).decisions)
        assert again == trace, f"{name}: a point replayed from JSON is another, {again.decisions}"
        forks = [site for site in trace.decisions if site.endswith(f".{name}")]
        skipped |= dict.fromkeys(forks, SKIP)
        if any(trace.decisions[site] != SKIP for site in forks):
            branches = True
            values = np.asarray(kernel.original(*arrays, **trace.decisions))
            error = float(np.abs(values - exact).max())
            assert error <= _TOLERANCE * float(np.abs(exact).max()), (
                f"{name}: {trace.decisions} computes another thing, off by {error:.3g}"
            )
    for _ in range(POINTS):
        point = without.sample(random)
        assert whole.contains({**skipped, **point.decisions}), (
            f"{name}: {point.decisions} could be reached without the module, and cannot with it"
        )
    return branches
