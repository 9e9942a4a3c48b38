"""The platform and kind of the device that jax uses here, as the key of an answer records it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache

import jax

from ..devices import device_names
from ..measure.processor import cpu_kind
from .errors import OptimizeError

TARGETS = ("auto", "cpu", "cuda")


def platform(target: str, places: Iterable[jax.sharding.Sharding | None] = ()) -> str:
    """The platform that a target means here, for arrays that lie in these places. Blocks.

    Raises OptimizeError where it is absent, or where arrays lie elsewhere, or on several devices:
    what is fast on one says nothing of another.
    """
    if target not in TARGETS:
        raise OptimizeError(f"no target {target!r}: there are {', '.join(TARGETS)}")
    present = _present()
    if target == "cuda" and not any(device.platform == "gpu" for device in present):
        raise OptimizeError("jax has no GPU here that it can use; the target cpu works everywhere")
    sets: list[set[jax.Device]] = [place.device_set for place in places if place]
    if any(len(device_set) > 1 for device_set in sets):
        raise OptimizeError(
            "an array is spread over several devices, and what is faster is found for one: give"
            " arrays that lie on one (jax.device_put)"
        )
    devices = [device for device_set in sets for device in device_set]
    lying = {"cuda" if device.platform == "gpu" else device.platform for device in devices}
    if target == "auto":
        usual = "cuda" if jax.default_backend() == "gpu" else "cpu"
        target = next(iter(lying)) if len(lying) == 1 and lying <= {*TARGETS} else usual
    for elsewhere in sorted(lying - {target}):
        raise OptimizeError(
            f"an array lies on {elsewhere}, and the target is {target}: put all arrays there"
            " (jax.device_put), or give the target on which they lie"
        )
    return target


def _present() -> Sequence[jax.Device]:
    """All devices that jax has. Raises OptimizeError where it finds none."""
    try:
        return jax.devices()
    except Exception as error:
        reason = str(error) or type(error).__name__
        raise OptimizeError(f"jax has no device here that it can use: {reason}") from error


def device(platform_name: str) -> jax.Device:
    """The first device of a platform."""
    return jax.devices(platform_name)[0]


def described_gpu() -> str:
    """The name of the GPU among those that the superoptimizer knows; nothing for another one."""
    kind = jax.devices("cuda")[0].device_kind.casefold()
    return next((name for name in device_names() if name.casefold() in kind), "")


@cache
def device_kind(platform_name: str) -> str:
    """Names the kind of device of a platform, and of a GPU also what drives it.

    Answers of one kind hold for all of it.
    """
    if platform_name == "cpu":
        return cpu_kind()
    device = jax.devices(platform_name)[0]
    driver = " ".join(str(device.client.platform_version).split())
    return f"{platform_name}: {device.device_kind}, {driver}"
