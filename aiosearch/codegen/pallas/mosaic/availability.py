"""Whether the jax that is installed has Mosaic GPU, which it may lack or be unable to import."""

from __future__ import annotations

LEAST_JAX = (0, 11)
"""Before it, jax lacked rules that printed modules need, as of square roots in whole warpgroups."""


def missing_mosaic() -> str | None:
    """Why no module of `write_mosaic` can be lowered here, in a sentence; None where it can.

    It imports jax.
    """
    import jax

    if jax.__version_info__ < LEAST_JAX:
        least = ".".join(map(str, LEAST_JAX))
        return f"kernels for Mosaic GPU need jax {least} or later, and here is {jax.__version__}"
    try:
        from jax.experimental.pallas import mosaic_gpu
    except ImportError as error:
        return f"jax {jax.__version__} has no Mosaic GPU that can be imported here: {error}"
    if not hasattr(mosaic_gpu, "kernel"):
        return f"the Mosaic GPU of jax {jax.__version__} has no function `kernel`"
    return None
