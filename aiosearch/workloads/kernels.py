"""Another path to `aiosearch.lab.mirage.kernels`: command lines and scripts name it."""

from .._lazy import lazily

__getattr__ = lazily(
    __name__, dict.fromkeys(("Chain", "Kernels", "Stage"), "...lab.mirage.kernels")
)
