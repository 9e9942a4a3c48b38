"""From what the values of an input are drawn, and how: the same on every machine for a seed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from msgspec import Struct

if TYPE_CHECKING:
    import numpy as np

    from .candidates import ArrayType

NumPyArray: TypeAlias = "np.ndarray[Any, Any]"
"""An array of any element type and shape; this module is loaded without NumPy."""


class Draw(Struct, frozen=True, array_like=True):
    """Numbers from `low` to below `high`, each as likely; whole ones for an integer type.

    `Draw(-1.0, 1.0, normal=True)` is `NORMAL`: mean 0, deviation 1.
    """

    low: float
    high: float
    normal: bool = False
    """Whether `low` and `high` are no bounds, but one deviation below and above the mean."""

    def __str__(self) -> str:
        if self.normal:
            mean, deviation = self._moments()
            return f"normal around {mean:g} by {deviation:g}" if self != NORMAL else "normal"
        return f"between {self.low:g} and {self.high:g}"

    def _moments(self) -> tuple[float, float]:
        return (self.low + self.high) / 2, (self.high - self.low) / 2

    def floats(self, random: np.random.Generator, shape: tuple[int, ...]) -> NumPyArray:
        import numpy as np

        if self.normal:
            middle, spread = map(np.float32, self._moments())
            drawn = random.standard_normal(shape, np.float32)
        else:
            middle, spread = np.float32(self.low), np.float32(self.high - self.low)
            drawn = random.random(shape, np.float32)
        drawn = np.asarray(drawn)
        drawn *= spread
        drawn += middle
        return drawn


NORMAL = Draw(-1.0, 1.0, normal=True)
WHOLE = Draw(-8.0, 8.0)


def draw(
    type_: ArrayType, seed: int, position: int, distribution: Draw | None = None
) -> NumPyArray:
    """Draws an array that depends on these arguments alone.

    Without a `distribution` whole numbers are small (`WHOLE`), and others normal (`NORMAL`).
    Truth values are as often true as false.
    """
    import ml_dtypes
    import numpy as np

    # Both: two inputs of one candidate must not be the same numbers
    random = np.random.default_rng([seed, position])
    dtype = np.dtype(getattr(ml_dtypes, type_.dtype, type_.dtype))
    if dtype.kind == "b":
        return random.random(type_.shape) < 0.5
    if dtype.kind in "iu":
        low, high = _ends(distribution or WHOLE, dtype.kind == "i")
        return random.integers(low, high, type_.shape).astype(dtype)
    values = (distribution or NORMAL).floats(random, type_.shape)
    if dtype.kind == "c":
        values = values + 1j * (distribution or NORMAL).floats(random, type_.shape)
    return values.astype(dtype)


def _ends(distribution: Draw, signed: bool) -> tuple[int, int]:
    low = int(distribution.low) if signed else max(int(distribution.low), 0)
    return low, max(int(distribution.high), low + 1)
