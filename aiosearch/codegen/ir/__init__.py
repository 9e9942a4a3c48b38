"""The tile IR: what a kernel computes, element by element, before anyone says in which order.

A norm and the matrix product behind it are two kernels, which are printed as they are meant:

>>> from aiosearch.codegen.lower.lowering import lower
>>> from aiosearch.tensor.programs import builtin
>>> norm, product = lower(builtin("rms_norm", "f32", row=8, feature=64, column=32)).kernels
>>> print(norm)
kernel rms_norm_0(X: f32[8, 64]) -> (t1: f32[8, 64])
    for i < 8
    for j < 64
    t0[i] = sum over j of multiply(X[i, j], X[i, j])
    t1[i, j] = divide(X[i, j], sqrt(divide(t0[i], 64)))
>>> print(product)
kernel rms_norm_1(t1: f32[8, 64], W: f32[64, 32]) -> (out: f32[8, 32])
    for i < 8
    for j < 32
    for k < 64
    out[i, j] = sum over k of multiply(t1[i, k], W[k, j])

A kernel is a list of stages, one a line. A stage fills one buffer: each element is an expression
over elements of other buffers, or such an expression folded over some more indices. `t1` is an
output, and the second kernel reads it by its name; `t0` is none, so it lasts as long as its kernel.
Stages of a kernel that share an index may run along it together: to begin with a row of `t1`, no
more has to be done than the same row of `t0`.

Not said is in which order the indices run, which of them are cut into tiles, how large, and what
goes to which vector register. That is the business of a schedule (`codegen.cpu.schedule`) or of a
tiling (`codegen.pallas`).

`positions` declares what stands in brackets, `expressions` what stands behind an equals sign, and
`kernels` the rest. `codegen.ir.interpreter` says with NumPy what all of it means.
"""

from .expressions import (
    Apply,
    BoundedValue,
    Buffer,
    BufferLoad,
    Constant,
    Expression,
    Operation,
    PositionValue,
    Round,
    places,
    used_indices,
    walk,
)
from .kernels import KernelStage, Module, ReductionKind, TileKernel
from .positions import (
    Affine,
    LoopIndex,
    Mixed,
    Position,
    Quotient,
    Remainder,
    affine,
    index,
    indices,
    single_index,
)

__all__ = [
    "Affine",
    "Apply",
    "BoundedValue",
    "Buffer",
    "BufferLoad",
    "Constant",
    "Expression",
    "KernelStage",
    "LoopIndex",
    "Mixed",
    "Module",
    "Operation",
    "Position",
    "PositionValue",
    "Quotient",
    "ReductionKind",
    "Remainder",
    "Round",
    "TileKernel",
    "affine",
    "index",
    "indices",
    "places",
    "single_index",
    "used_indices",
    "walk",
]
