"""The platform and kind of the device that jax uses here, as the key of an answer records it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache

import jax

from ..codegen.pallas import missing_mosaic
from ..devices import described_as, undescribed
from ..measure.processor import cpu_kind
from .errors import OptimizeError

TARGETS = ("auto", "cpu", "cuda")
"""What the option `target` may be."""


def platform(target: str, places: Iterable[jax.sharding.Sharding | None] = ()) -> str:
    """The platform that `target` means here, for arrays with these shardings. Blocks.

    Raises `OptimizeError` where it is absent, or where arrays lie elsewhere, or on several devices:
    what is fast on one says nothing of another.
    """
    if target not in TARGETS:
        raise OptimizeError(f"no target {target!r}: there are {', '.join(TARGETS)}")
    devices_here = _present()
    if target == "cuda" and not any(device.platform == "gpu" for device in devices_here):
        raise OptimizeError("jax has no GPU here that it can use; the target cpu works everywhere")
    sets: list[set[jax.Device]] = [place.device_set for place in places if place]
    if any(len(device_set) > 1 for device_set in sets):
        raise OptimizeError(
            "an array is spread over several devices, and what is faster is found for one: give"
            " arrays that lie on one (jax.device_put)"
        )
    devices = [device for device_set in sets for device in device_set]
    platforms = {"cuda" if device.platform == "gpu" else device.platform for device in devices}
    if target == "auto":
        # Arrays that are on no device yet, such as NumPy's, go where jax puts them.
        usual = "cuda" if jax.default_backend() == "gpu" else "cpu"
        target = next(iter(platforms)) if len(platforms) == 1 and platforms <= {*TARGETS} else usual
    for elsewhere in sorted(platforms - {target}):
        raise OptimizeError(
            f"an array lies on {elsewhere}, and the target is {target}: put all arrays there"
            " (jax.device_put), or give the target on which they lie"
        )
    return target


def _present() -> Sequence[jax.Device]:
    """All devices that jax has; raises `OptimizeError` where it finds none."""
    try:
        return jax.devices()
    except Exception as error:
        reason = str(error) or type(error).__name__
        raise OptimizeError(f"jax has no device here that it can use: {reason}") from error


def device(platform_name: str) -> jax.Device:
    """The first device of a platform."""
    return jax.devices(platform_name)[0]


def described_gpu() -> str:
    """The name of the GPU, or of one that is built alike, of those that kernels are made for."""
    gpu = jax.devices("cuda")[0]
    return described_as(gpu.device_kind, getattr(gpu, "compute_capability", ""))


def gpu_units() -> int:
    """The multiprocessors of the GPU, as jax counts them; 0 where it does not."""
    return int(getattr(jax.devices("cuda")[0], "core_count", 0))


def has_mosaic() -> bool:
    """Whether the GPU has warpgroups, and this jax has `plgpu.kernel` for them."""
    if not getattr(jax.devices("cuda")[0], "compute_capability", "").startswith("9."):
        return False
    return missing_mosaic() is None


def undescribed_reason() -> str:
    """Why no kernels are made for the GPU that is here; nothing where they are."""
    if described_gpu():
        return ""
    gpu = jax.devices("cuda")[0]
    return undescribed(gpu.device_kind, getattr(gpu, "compute_capability", ""))


@cache
def device_kind(platform_name: str) -> str:
    """Names the kind of device of a platform, and of a GPU also what drives it.

    Answers for one kind hold for all devices of it. Example: `cpu: AMD EPYC, 2 cores`.
    """
    if platform_name == "cpu":
        return cpu_kind()
    device = jax.devices(platform_name)[0]
    driver = " ".join(str(device.client.platform_version).split())
    return f"{platform_name}: {device.device_kind}, {driver}"
