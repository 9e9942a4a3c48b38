"""Another path to `aiosearch.lab.mirage.blocks`: command lines and scripts name it."""

from .._lazy import lazily

__getattr__ = lazily(
    __name__, dict.fromkeys(("BlockPrefix", "BlockProgram", "Blocks"), "...lab.mirage.blocks")
)
