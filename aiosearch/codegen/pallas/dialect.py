"""What is Triton's, or of one version of jax: how its words are spelled, and how it is lowered.

Pallas' Triton back end is deprecated upstream. Everything else of the printer says `pl`, `lax` and
`jnp`; what would change with another back end is here.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ...tensor.types import ARRAY_NAMES, DType
from ..llvm.scalars.error_functions import ERFC, ERFC_MIDDLE, ERFC_SHIFT, FLAT
from ..llvm.scalars.gamma_functions import (
    DIGAMMA_FAR,
    DIGAMMA_TAIL,
    DIGAMMA_ZERO,
    FAR,
    HALF_LOG_TAU,
    LOG_PI,
    NEAR_TWO,
    NEAR_ZERO,
    SINE,
    STIRLING,
)

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


ALIAS, IMPORT = "plt", "from jax.experimental.pallas import triton as plt"
"""Under which name a printed module has what is Triton's alone."""

HEADER = f"""\
import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
{IMPORT}
"""

LEAST_DOT_SIZE = 16
"""The least size of a dot along each axis, so that it runs on matrix units."""

LARGEST_TILE_ELEMENTS = 1 << 20
"""The most elements of a tile."""

PLATFORM = "cuda"

CUSTOM_CALLS = ("__gpu$xla.gpu.triton", "mosaic_gpu_v2")
"""Names by which compiled kernels are called in StableHLO: of Triton's back end, and of Mosaic's.

jax does not promise that another version of jax reads them, so `jax.export` refuses them unless it
is told that none will."""


def load(array: str, places: str, mask: str) -> str:
    """A tile of the reference `array` at `places`; zeros where `mask` is false."""
    if not mask:
        return f"{array}[{places}]"
    return f"plt.load({array}.at[{places}], mask={mask}, other=0)"


def store(array: str, places: str, value: str, mask: str) -> str:
    """A statement that writes the tile `value`; nothing is written where `mask` is false."""
    if not mask:
        return f"{array}[{places}] = {value}"
    return f"plt.store({array}.at[{places}], {value}, mask={mask})"


def parameters(warps: int, stages: int) -> str:
    """The options of Triton's compiler."""
    return f"plt.CompilerParams(num_warps={warps}, num_stages={stages})"


_ERF = '''
def _erf(x):
    """Its series near zero; elsewhere Abramowitz and Stegun, 7.1.26, off by at most 1.5e-7."""
    square = x * x
    near = {last}
    for factor in ({others}):
        near = near * square + factor
    size = jnp.abs(x)
    t = 1 / (1 + 0.3275911 * size)
    tail = -1.453152027 + t * 1.061405429
    for factor in (1.421413741, -0.284496736, 0.254829592):
        tail = tail * t + factor
    far = 1 - tail * t * jnp.exp(-square)
    return jnp.where(size < 1, x * near, jnp.where(x < 0, -far, far))
'''

_ERFC = '''
def _erfc(x):
    """e^-x², by a number near x whose square is exact, times a polynomial of x / (x + {beside})."""
    size = jnp.where(jnp.abs(x) > {flat}, {flat}, jnp.abs(x))
    near = jnp.floor(64 * size) / 64
    falling = jnp.exp(-near * near) * jnp.exp((near + size) * (near - size))
    part = 1 / (size + {beside})
    middle = size * part - {middle}
    factor = {last}
    for other in ({others}):
        factor = factor * middle + other
    above = falling * part * factor
    return jnp.where(x < 0, 2 - above, above)
'''

_LGAMMA = '''
def _lgamma(x):
    """ln |Γ(x)|, as `gamma_functions` has it: one logarithm, and a second one below zero."""
    def polynomial(at, factors):
        total = 0.0 * at
        for factor in factors:
            total = total * at + factor
        return total
    size = jnp.abs(x)
    above = jnp.where(x < 0, size + 1, size)
    number = jnp.floor(above + 0.5)
    u = above - number
    product = jnp.where(number < 0.5, above * (above + 1), jnp.where(number < 1.5, above, 1.0))
    for passed in ({passed}):
        product = product * jnp.where(number > passed + 1.5, above - passed, 1.0)
    logarithm = jnp.log(jnp.where(above < {far}, product, above))
    near = u * polynomial(u, ({near})) + jnp.where(number < 1.5, -logarithm, logarithm)
    inverse = 1 / above
    tail = inverse * polynomial(inverse * inverse, ({stirling})) + {half}
    value = jnp.where(above < {far}, near, (above - 0.5) * (logarithm - 1) + tail)
    part = jnp.abs(size - jnp.floor(size + 0.5))
    sine = part * polynomial(part * part, ({sine}))
    mirrored = jnp.where(sine == 0, jnp.inf, {log_pi} - jnp.log(sine) - value)
    return jnp.where(size < jnp.inf, jnp.where(x < 0, mirrored, value), size)
'''

_DIGAMMA = '''
def _digamma(x):
    """The slope of ln |Γ(x)|, as `gamma_functions` has it."""
    def polynomial(at, factors):
        total = 0.0 * at
        for factor in factors:
            total = total * at + factor
        return total
    above = jnp.where(x < 0, 1 - x, x)
    number = jnp.floor(above)
    part = above - number
    over, under = jnp.where(number < 0.5, -1.0, 0.0), jnp.where(number < 0.5, above, 1.0)
    for passed in ({passed}):
        factor = above - passed
        beyond = number > passed + 0.5
        over, under = (
            jnp.where(beyond, over * factor + under, over),
            jnp.where(beyond, under * factor, under),
        )
    near = ((part - {zero}) - {beside}) * polynomial(part - 0.5, ({near})) + over / under
    inverse = 1 / above
    square = inverse * inverse
    tail = inverse * 0.5 + square * polynomial(square, ({tail}))
    value = jnp.where(above < {far}, near, jnp.log(above) - tail)
    rest = x - jnp.floor(x + 0.5)
    size = jnp.abs(rest)
    sine = rest * polynomial(rest * rest, ({sine}))
    cosine = (0.5 - size) * polynomial((0.5 - size) * (0.5 - size), ({sine}))
    mirrored = jnp.where(sine == 0, jnp.nan, value - {pi} * cosine / sine)
    return jnp.where(x <= 0, mirrored, value)
'''

_ROUND = '''
def _round(x):
    """To the nearest whole number, halves to even."""
    floor = jnp.floor(x)
    rest = x - floor
    even = floor == 2 * jnp.floor(floor / 2)
    return jnp.where((rest < 0.5) | ((rest == 0.5) & even), floor, floor + 1)
'''

_MAXIMUM = '''
def _maximum(x, y):
    """The larger one; no number where one is none, which Triton's own passes over."""
    return jnp.where((x >= y) | (x != x), x, y)
'''

_MINIMUM = '''
def _minimum(x, y):
    """The smaller one; no number where one is none, which Triton's own passes over."""
    return jnp.where((x <= y) | (x != x), x, y)
'''

_LARGEST = '''
def _largest(x, axis):
    """The largest ones; no number where one is none, which Triton's own passes over."""
    lost = jnp.sum((x != x).astype(jnp.int32), axis=axis, dtype=jnp.int32) > 0
    return jnp.where(lost, jnp.nan, jnp.max(x, axis=axis))
'''


def _series(terms: int) -> list[float]:
    """The first `terms` factors of erf's series in the square of its argument."""
    # erf x is 2/√π times the sum of (-1)^n x^(2n+1) / (n! (2n+1)); twelve terms are exact in single
    # precision below 1.
    scale = 2 / math.sqrt(math.pi)
    return [scale * (-1) ** n / (math.factorial(n) * (2 * n + 1)) for n in range(terms)]


def _erf() -> str:
    *factors, last = _series(12)
    return _ERF.format(last=last, others=", ".join(map(repr, reversed(factors))))


def _erfc() -> str:
    *factors, last = ERFC["float"]
    listed = ", ".join(map(repr, reversed(factors)))
    numbers = {"beside": ERFC_SHIFT, "middle": ERFC_MIDDLE, "flat": FLAT["float"]}
    return _ERFC.format(last=last, others=listed, **numbers)


def _listed(coefficients: Sequence[float]) -> str:
    """Coefficients from the highest power down."""
    return ", ".join(map(repr, reversed(coefficients)))


def _lgamma() -> str:
    return _LGAMMA.format(
        passed=", ".join(map(str, range(1, round(FAR["float"]) - 1))),
        far=FAR["float"],
        near=_listed(NEAR_TWO["float"]),
        stirling=_listed(STIRLING["float"]),
        sine=_listed(SINE["float"]),
        half=HALF_LOG_TAU,
        log_pi=LOG_PI,
    )


def _digamma() -> str:
    zero, beside = DIGAMMA_ZERO["float"]
    far = DIGAMMA_FAR["float"]
    return _DIGAMMA.format(
        passed=", ".join(map(str, range(1, round(far) - 1))),
        far=far,
        zero=zero,
        beside=beside,
        near=_listed(NEAR_ZERO["float"]),
        tail=_listed(DIGAMMA_TAIL["float"]),
        sine=_listed(SINE["float"]),
        pi=math.pi,
    )


HELPERS = {
    "_erf": _erf(),
    "_erfc": _erfc(),
    "_lgamma": _lgamma(),
    "_digamma": _digamma(),
    "_round": _ROUND,
    "_maximum": _MAXIMUM,
    "_minimum": _MINIMUM,
    "_largest": _LARGEST,
}
"""Functions that Triton's lowering has no rule for, or none like jax's, written with others."""


def without_backend_warning() -> None:
    """Has jax not say which back end these kernels use, whose user did not choose it."""
    warnings.filterwarnings("ignore", "The Pallas Triton backend is deprecated")


def lowered(function: Callable[..., Any], arguments: Sequence[Any], device: str, units: int) -> Any:
    """`function` lowered for a GPU that need not be there; from jax 0.11 the device has to be
    named.
    """
    import jax

    with _described(device, units):
        return jax.jit(function).trace(*arguments).lower(lowering_platforms=(PLATFORM,))


def staged(function: Callable[..., Any], arguments: Sequence[Any], device: str, units: int) -> Any:
    """`function` lowered for arguments that say where they lie, ready to be compiled."""
    import jax

    with _described(device, units):
        return jax.jit(function).lower(*arguments)


def argument(dtype: DType, shape: tuple[int, ...], sharding: Any = None) -> Any:
    """What a function is lowered with in the place of an array of `dtype` and `shape`."""
    import jax

    make: Any = jax.ShapeDtypeStruct
    return make(shape, ARRAY_NAMES[dtype], sharding=sharding)


@contextmanager
def _described(device: str, units: int) -> Iterator[None]:
    """The context in which jax lowers for the GPU `device` of `units` multiprocessors."""
    from jax.sharding import AbstractDevice, AbstractMesh, use_abstract_mesh

    target_device = AbstractDevice(device_kind=device, platform="gpu", num_cores=units)
    with (
        use_abstract_mesh(AbstractMesh((), (), abstract_device=target_device)),
        warnings.catch_warnings(),
    ):
        without_backend_warning()
        yield
