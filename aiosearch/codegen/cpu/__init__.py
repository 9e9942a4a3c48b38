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
