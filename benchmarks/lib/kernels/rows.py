"""What kernels are measured on: programs, sizes and types, and what is asked of each.

`BY_HAND` is from a study of 2026: packed kernels written in C for two cores of Zen 5, over the best
plain JAX of its day, as ratios of CPU time on a busy machine. What is asked is of wall time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TypeAlias

from msgspec import Struct

from aiosearch.tensor import Program
from aiosearch.tensor.programs import BUILTINS, builtin

Key: TypeAlias = tuple[str, str, int]
"""A program, a type, and how many rows or batches."""

SQUARE = 4096
HEADS = 2
TYPES = ("bf16", "f32")
ROWS = (1, 8, 16)
ASKED: Mapping[Key, float] = MappingProxyType(
    {
        ("rms_norm", "bf16", 1): 2.0,
        ("rms_norm", "bf16", 8): 2.0,
        ("rms_norm", "bf16", 16): 1.5,
        ("gated_mlp", "bf16", 1): 3.0,
        ("gated_mlp", "bf16", 8): 2.0,
        ("gated_mlp", "bf16", 16): 2.0,
        ("rms_norm", "f32", 8): 1.2,
        ("rms_norm", "f32", 16): 1.3,
        ("gated_mlp", "f32", 8): 1.2,
        ("gated_mlp", "f32", 16): 1.3,
        ("gqa", "bf16", 1): 1.6,
        ("gqa", "bf16", 8): 1.5,
        ("gqa", "f32", 8): 1.2,
    }
)
BY_HAND: Mapping[Key, str] = MappingProxyType(
    {
        ("rms_norm", "bf16", 1): "2.2",
        ("rms_norm", "bf16", 8): "2.0",
        ("rms_norm", "bf16", 16): "1.2 to 1.6",
        ("gated_mlp", "bf16", 1): "over 3",
        ("gated_mlp", "bf16", 8): "2.1",
        ("gated_mlp", "bf16", 16): "2.0",
        ("rms_norm", "f32", 8): "1.2",
        ("rms_norm", "f32", 16): "1.3",
        ("gated_mlp", "f32", 8): "1.2",
        ("gated_mlp", "f32", 16): "1.2 to 1.5",
        ("gqa", "bf16", 1): "1.8",
        ("gqa", "bf16", 8): "1.6",
        ("gqa", "f32", 8): "1.2",
    }
)
ON_GPU: Mapping[str, float] = MappingProxyType(
    {"rms_norm": 1.5, "gated_mlp": 1.2, "lora": 2.0, "qk_norm": 3.0}
)
"""What is asked over `jax.jit`."""
LEVEL: Mapping[str, float] = MappingProxyType({"gqa": 1.0, "attention": 1.0})
"""What is asked over the attention of a library."""


class Row(Struct, frozen=True):
    """A program at some size."""

    key: Key
    program: Program
    constant: tuple[int, ...] = ()
    """The inputs that stay the same from call to call, and may be prepared."""
    asked: float | None = None
    by_hand: str = ""
    """What was reached by hand."""
    over_naive: bool = False
    """Whether that is asked over `jax.jit`, rather than over the best plain JAX."""
    apart: str = ""
    """What sets it apart from rows of the same program, type and size."""

    @property
    def name(self) -> str:
        program, dtype, rows = self.key
        size = f"{rows} row{'s' * (rows > 1)}" if not _attends(program) else f"batch {rows}"
        return ", ".join([program, dtype, size, *([self.apart] if self.apart else ())])


SIZED = ("rms_norm", "gated_mlp", "gqa", "lora", "qk_norm", "ntrans")
"""On a processor; those without anything asked are there for information."""


def cpu_rows() -> Iterator[Row]:
    """In the order of the table."""
    for program in SIZED:
        for dtype in TYPES:
            for rows in (1, 8) if _attends(program) else ROWS:
                yield row(program, dtype, rows)


def lying_rows() -> Iterator[Row]:
    """Where weights are like any input: they may change, and nothing is made of them beforehand."""
    for program in ("rms_norm", "gated_mlp"):
        for dtype in TYPES:
            for rows in ROWS:
                one = row(program, dtype, rows)
                yield Row(one.key, one.program, apart="weights as they lie")


def gpu_rows(counts: Sequence[int] = ROWS) -> Iterator[Row]:
    """Every built-in program at its own sizes but for the rows."""
    for program, found in BUILTINS.items():
        for rows in counts:
            given = found.program("bf16", **_given(program, rows))
            yield Row((program, "bf16", rows), given, asked=ON_GPU.get(program), over_naive=True)


def row(program: str, dtype: str, rows: int) -> Row:
    """A row of the processor's table."""
    key = program, dtype, rows
    square = {"column": SQUARE} if program == "rms_norm" else {}
    found = builtin(program, dtype, **_given(program, rows), **square)
    return Row(key, found, CONSTANT.get(program, ()), ASKED.get(key), BY_HAND.get(key, ""))


CONSTANT: Mapping[str, tuple[int, ...]] = MappingProxyType(
    {
        "rms_norm": (1,),
        "gated_mlp": (1, 2),
        "lora": (1, 2, 3),
    }
)
"""Weights, by their places."""


def _given(program: str, rows: int) -> dict[str, int]:
    sizes = BUILTINS[program].sizes
    if "head" in sizes:
        return {"head": HEADS * rows}
    return {"row" if "row" in sizes else "batch": rows}


def _attends(program: str) -> bool:
    return "head" in BUILTINS[program].sizes
