"""How far a function is off: in units of the last place of what it should be."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from aiosearch.codegen.ir import Operation
from aiosearch.tensor.types import DType

Exact = Callable[..., Any]

WIDER: dict[Any, Any] = {np.float32: np.float64, np.float64: np.longdouble}


def erf(x: Any) -> Any:
    """By a series of which all terms have one sign, in the precision that is given."""
    size = np.minimum(np.abs(x), 7)
    term = total = size
    for n in range(1, 220):
        term = term * (2 * size * size / (2 * n + 1))
        total = total + term
    pi = 4 * np.arctan(np.ones(1, total.dtype))
    return np.copysign(2 / np.sqrt(pi) * np.exp(-size * size) * total, x)


def erfc(x: Any) -> Any:
    """By a continued fraction from one on, and below by what the series lacks to one."""
    size = np.minimum(np.abs(x), 40)
    far = np.maximum(size, 1)
    below = far
    for n in range(400, 0, -1):
        below = far + n / (2 * below)
    pi = 4 * np.arctan(np.ones(1, size.dtype))
    beyond = falling(far) / (np.sqrt(pi) * below)
    above = np.where(size < 1, 1 - erf(np.minimum(size, 1)), beyond)
    return np.where(x < 0, 2 - above, above)


def falling(x: Any) -> Any:
    """e^-x², of which the square is exact but for what is small."""
    high = x.astype(np.float32).astype(x.dtype)
    return np.exp(-high * high) * np.exp(-(x + high) * (x - high))


def lgamma(x: Any) -> Any:
    """Above zero: by the series around two and factors, and from fifteen on by Stirling's."""
    number = np.rint(np.minimum(np.where(np.isnan(x), 0, x), 15))
    u = x - number
    euler = np.longdouble("0.57721566490153286060651209").astype(x.dtype)
    series = (1 - euler) * u
    for k in range(2, 60):
        zeta = np.sum(np.arange(2, 2000, dtype=x.dtype)[::-1] ** -float(k))
        # What is left of ζ(k) - 1 from there on, by Euler and Maclaurin.
        n = np.asarray(2000, x.dtype)
        zeta = zeta + n ** (1.0 - k) / (k - 1) + n**-k / 2 + k * n ** (-k - 1.0) / 12
        zeta = zeta - k * (k + 1) * (k + 2) * n ** (-k - 3.0) / 720
        series = series + (-1) ** k * zeta * u**k / k
    factors = np.ones_like(x)
    for passed in range(1, 14):
        factors = factors * np.where(number >= passed + 2, x - passed, 1)
    lower = np.where(number < 1, np.log1p(u) + np.log(np.where(number < 1, x, 1)), np.log1p(u))
    near = series + np.where(number < 1.5, -lower, np.log(factors))
    terms = [(12, 1), (-360, 3), (1260, 5), (-1680, 7), (1188, 9), (-360360 / 691, 11), (156, 13)]
    tail = sum(1 / (np.asarray(below, x.dtype) * x**power) for below, power in terms)
    half = np.log(8 * np.arctan(np.ones(1, x.dtype))) / 2
    return np.where(x < 15, near, (x - 0.5) * (np.log(x) - 1) + (half - 0.5) + tail)


def digamma(x: Any) -> Any:
    """Above zero: the distance from its zero z times the sum of 1 / ((n + x) (n + z)), its end by
    Euler and Maclaurin; from twenty on by its asymptotic series."""
    kind, count = x.dtype.type, 400
    zero, lacks = kind(1.4616321449683622), kind(9.54999542996569771518e-17)
    inside = np.where((x >= 0) & (x < 20), x, 1)
    away = (inside - zero) - lacks
    n = np.arange(count, dtype=kind)[::-1].reshape(-1, *[1] * x.ndim)
    total = np.sum(1 / ((n + inside) * (n + zero)), axis=0)
    a, b = count + inside, count + zero
    part = away / b
    ratio = np.where(part == 0, 1, np.log1p(part) / np.where(part == 0, 1, part))
    falls = (1 / a + 1 / b) / (a * b)
    total = total + ratio / b + 1 / (2 * a * b) + falls / 12
    total = total - (a**-3 + a**-2 / b + b**-2 / a + b**-3) / (120 * a * b)
    far = np.where(x >= 20, x, 20)
    terms = [(12, 2), (-120, 4), (252, 6), (-240, 8), (132, 10), (-32760 / 691, 12), (12, 14)]
    series = sum(1 / (np.asarray(below, kind) * far**power) for below, power in terms)
    above = np.where(x < 20, away * total, np.log(far) - 1 / (2 * far) - series)
    return np.where(x > 0, above, np.nan)


EXACT: dict[Operation, Exact] = {
    Operation.COS: np.cos,
    Operation.DIGAMMA: digamma,
    Operation.ERF: erf,
    Operation.ERFC: erfc,
    Operation.EXP: np.exp,
    Operation.EXPM1: np.expm1,
    Operation.FLOOR: np.floor,
    Operation.LGAMMA: lgamma,
    Operation.LOG: np.log,
    Operation.LOG1P: np.log1p,
    Operation.MAXIMUM: np.maximum,
    Operation.MINIMUM: np.minimum,
    Operation.POW: np.power,
    Operation.REM: np.fmod,
    Operation.ROUND: np.rint,
    Operation.SIN: np.sin,
    Operation.SQRT: np.sqrt,
    Operation.TANH: np.tanh,
}
"""The functions for numbers of more bits, whose own errors are not felt."""

AWKWARD = (
    0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, 2.0, -2.0, 3.0, -3.0, 1e30,
)  # fmt: skip


def off(results: Any, exact: Any) -> Any:
    """Zero where both are no numbers or the same; infinite where only one is a finite number."""
    with np.errstate(all="ignore"):
        near = exact.astype(results.dtype)
        finite = np.isfinite(near) & np.isfinite(results)
        unit = np.spacing(np.abs(np.where(np.isfinite(near), near, 1))).astype(exact.dtype)
        distance = np.abs(results.astype(exact.dtype) - exact) / unit
    same = (results == near) | (np.isnan(results) & np.isnan(near))
    return np.where(finite, distance, np.where(same, 0, np.inf))


def worst(scalar: Any, exact: Exact, *operands: Any) -> float:
    """How far a function is off at most."""
    return float(off(scalar(*operands), wider(exact, *operands)).max())


def wider(exact: Exact, *operands: Any) -> Any:
    """What a function should be, in more bits."""
    with np.errstate(all="ignore"):
        return exact(*(one.astype(WIDER[one.dtype.type]) for one in operands))


def drawn(dtype: DType, size: int, seed: int = 0) -> Any:
    """Bits of every kind, numbers of usual sizes, near one, and tiny, and the awkward ones."""
    kind, whole = (np.float32, np.uint32) if dtype is DType.F32 else (np.float64, np.uint64)
    random = np.random.default_rng(seed)
    quarter = size // 4
    bits = random.integers(0, np.iinfo(whole).max, size, whole, endpoint=True).view(kind)
    bits[:quarter] = random.uniform(-20, 20, quarter)
    bits[quarter : 2 * quarter] = random.choice([-1, 1], quarter) * random.uniform(0.4, 2, quarter)
    tiny = random.integers(0, 1 << 20, quarter // 4, whole)
    bits[-tiny.size :] = tiny.view(kind)
    special = [*AWKWARD, *edges(kind)]
    bits[: len(special)] = special
    return bits


def edges(kind: Any) -> list[Any]:
    """The numbers between which something changes, and their neighbours."""
    limits = np.finfo(kind)
    places = [limits.tiny, *(np.log(kind(one)) for one in (limits.max, limits.tiny))]
    places += [np.log(limits.smallest_subnormal), kind(2.0**20), kind(2) ** limits.nmant]
    near = [np.nextafter(kind(one), kind(to)) for one in places for to in (-np.inf, one, np.inf)]
    return [limits.max, -limits.max, *near]
