"""From the tile IR to LLVM IR for a CPU.

- `schedule` says what is free in how a kernel runs; `space` has the schedules worth a trial and
  their constraints, `cost` predicts their time, `description` prints one as text.
- `index_roles` finds out which index of a kernel is vectorised and which is the row;
  `register_layout` lays a stage into registers.
- `packing` describes packed layouts, `coded_format` and `panel_encoder` those of bf16 in three
  quarters of its bytes.
- `prepare` changes a kernel as its schedule asks.
- `emit` prints it: `emit.kernel` functions and blocks, `emit.stage` loops around register tiles,
  `emit.expression` one element or vector, `emit.access` loads and stores.
- `reduce` prints the innermost loops of reductions: in vector registers, by dot instructions, by
  AMX.

`docs/why/kernels.md` follows one kernel through all of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..._lazy import lazily

if TYPE_CHECKING:
    from .cost.kernel_cost import KERNEL_START_SECONDS
    from .description import describe_schedule
    from .emit.joining import phases_by_rows, rows_in_common
    from .emit.kernel import expand_copies, print_module
    from .packing import PackedLayout
    from .register_layout import RegisterRequest
    from .schedule import Schedule
    from .space.choices import dissimilar_schedules, schedule_space

__all__ = [
    "KERNEL_START_SECONDS",
    "PackedLayout",
    "RegisterRequest",
    "Schedule",
    "describe_schedule",
    "dissimilar_schedules",
    "expand_copies",
    "phases_by_rows",
    "print_module",
    "rows_in_common",
    "schedule_space",
]

__getattr__ = lazily(
    __name__,
    {
        "KERNEL_START_SECONDS": ".cost.kernel_cost",
        "describe_schedule": ".description",
        "expand_copies": ".emit.kernel",
        "phases_by_rows": ".emit.joining",
        "print_module": ".emit.kernel",
        "rows_in_common": ".emit.joining",
        "PackedLayout": ".packing",
        "RegisterRequest": ".register_layout",
        "Schedule": ".schedule",
        "dissimilar_schedules": ".space.choices",
        "schedule_space": ".space.choices",
    },
)
