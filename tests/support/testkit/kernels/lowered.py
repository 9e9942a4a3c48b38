"""Lowered programs held to what the programs compute, and small µgraphs to lower."""

from __future__ import annotations

import math

import numpy as np

from aiosearch.codegen.ir import Module
from aiosearch.codegen.ir.interpreter import interpret
from aiosearch.codegen.lower.lowering import lower
from aiosearch.tensor import Block, Program, apply
from aiosearch.tensor.programs import builtin
from aiosearch.tensor.referee import run


def difference(program: Program, seed: int = 0, module: Module | None = None) -> str:
    """What is wrong with a program's lowering, or with what was made of it; else nothing.

    The referee knows nothing of modules.
    """
    draw = np.random.default_rng(seed)
    inputs = [draw.integers(-8, 9, size=term.shape) / 4 for term in program.inputs]
    wanted, module = run(program, inputs), module or lower(program)
    for term, ours, theirs in zip(program.outputs, interpret(module, inputs), wanted, strict=True):
        if ours.shape != term.shape:
            return f"shape {ours.shape} for {term.shape}\n{program}\n{module}"
        if not np.isclose(ours, theirs, rtol=1e-9, atol=1e-11, equal_nan=True).all():
            return f"{ours} for {theirs}\n{program}\n{module}"
    return ill_formed(module)


def ill_formed(module: Module) -> str:
    """Which of the promises of the IR a module breaks, if one."""
    there = set(module.inputs)
    for kernel in module.kernels:
        filled = {stage.target for stage in kernel.stages}
        if not set(kernel.inputs) <= there or filled & there or len(filled) < len(kernel.stages):
            return f"filled twice, or read before it is filled\n{kernel}"
        here = set(kernel.inputs)
        for stage in kernel.stages:
            if not {load.buffer for load in stage.loads} <= here:
                return f"{stage} reads what is not there yet\n{kernel}"
            if math.prod(stage.target.shape) != math.prod(one.size for one in stage.free):
                return f"{stage} does not fill each place once\n{kernel}"
            here.add(stage.target)
        if len({one.name for one in kernel.indices}) < len(kernel.indices):
            return f"two indices of one name\n{kernel}"
        there |= set(kernel.outputs)
    return ""


def norm(grid: int = 4, loop: int = 8) -> Program:
    """The norm before a linear layer in one kernel."""
    x, w = inputs = builtin("rms_norm", "bf16", row=4, feature=64, column=32).inputs
    block = Block((grid,), loop)
    tile = block.load(x, loop=1)
    product = block.accumulate(tile @ block.load(w, (1,), loop=0))
    return Program("norm", inputs, block.results((product / block.accumulate(tile, "rms"), (1,))))


def gated(grid: int = 4, loop: int = 8) -> Program:
    """Both halves of a gated MLP in one kernel."""
    x, one, two = inputs = builtin("gated_mlp", "bf16", row=4, feature=64, hidden=32).inputs
    block = Block((grid,), loop)
    tile = block.load(x, loop=1)
    gate, up = (block.accumulate(tile @ block.load(w, (1,), loop=0)) for w in (one, two))
    return Program("gated", inputs, block.results((apply("silu", gate) * up, (1,))))


def adapted(grid: int = 4) -> Program:
    """A linear layer and its adapter as one product of tensors side by side."""
    x, w, a, b = inputs = builtin("lora", "f16", row=4, feature=24, rank=2, column=12).inputs
    block = Block((grid,))
    tile = block.load(x)
    left = apply("concatenate", tile, tile @ block.load(a), axis=1)
    right = apply("concatenate", block.load(w, (1,)), block.load(b, (1,)), axis=0)
    return Program("adapted", inputs, block.results((block.accumulate(left @ right), (1,))))


def attention(loop: int = 4) -> Program:
    """Attention without a maximum in one kernel, a block for each head and half of its rows."""
    inputs = builtin("gqa", "bf16", head=2, row=8, feature=4, key=32, value=6).inputs
    q, k, v = inputs
    block = Block((2, 2), loop)
    e = apply("exp", block.load(q, (0, 1)) @ block.load(k, (0,), 2))
    found = block.accumulate(e @ block.load(v, (0,), 1)) / block.accumulate(e, "sum")
    return Program("attention", inputs, block.results((found, (0, 1))))


def split_attention() -> Program:
    """The same with the keys over blocks, and a second kernel that adds up."""
    inputs = builtin("gqa", "bf16", head=2, row=8, feature=4, key=32, value=6).inputs
    q, k, v = inputs
    block = Block((2, 2, 2), 4)
    e = apply("exp", block.load(q, (0, 1)) @ block.load(k, (0, None, 2), 2))
    products = block.accumulate(e @ block.load(v, (0, None, 1), 1))
    o, s = block.results((products, (0, 1, 2)), (block.accumulate(e, "sum"), (0, 1, 2)))
    join = Block((2,))
    above = join.accumulate(join.load(o, (0,)), "redtox", 6)
    below = join.accumulate(join.load(s, (0,)), "sum")
    return Program("split", inputs, join.results((above / below, (0,))))
