"""How long a processor takes for products of bf16 in pairs, by its instruction and by those of f32.

    python benchmarks/dots.py

Sixteen sums stay in registers, and nothing is read from memory: this is what `Machine.slow_dots`
knows of a processor. Needs AVX-512 with bf16.
"""

from __future__ import annotations

import ctypes
import statistics
import sys
import time
from collections.abc import Callable

import numpy as np
from lib.figures import figure, versions

from aiosearch.codegen.ir import Buffer
from aiosearch.codegen.native.compiler import compile_handler, compile_program, load
from aiosearch.codegen.native.kernel_program import KernelPhase, KernelProgram
from aiosearch.codegen.native.machine import host
from aiosearch.tensor import DType

SUMS, LANES = 16, 16
VECTOR = f"<{LANES} x float>"
TURNS, ROUNDS = 2_000_000, 9
DOT = "@llvm.x86.avx512bf16.dpbf16ps.512"
FUSED = "@llvm.fma.v16f32"
ADDED = {DOT: 2, FUSED: 1}
"""Products that an instruction adds to each of its sums."""


def main() -> None:
    machine = host()
    if not machine.bf16_dot:
        sys.stderr.write("there is nothing to compare: this processor adds no pairs of bf16\n")
        return
    instructions = (DOT, FUSED, FUSED)
    texts = [_text(number, one) for number, one in enumerate(instructions)]
    declared = [
        f"declare {VECTOR} {DOT}({VECTOR}, <32 x bfloat>, <32 x bfloat>)",
        f"declare {VECTOR} {FUSED}({VECTOR}, {VECTOR}, {VECTOR})",
    ]
    sums = Buffer("sums", DType.F32, (SUMS, LANES))
    phases = tuple(KernelPhase(TURNS) for _ in instructions)
    native = KernelProgram("dots", "\n".join([*declared, *texts]), (), (sums,), phases)
    library = load(native, compile_program(native, machine), compile_handler(machine))
    room = np.zeros((SUMS, LANES), np.float32)
    calls = [_call(address, room) for address in library.phases]
    rounds = [[call() for call in calls] for _ in range(ROUNDS)]
    dot, fused, again = (statistics.median(one) for one in zip(*rounds, strict=True))
    compared = versions("llvmlite")
    for name, taken, which in (("in pairs of bf16", dot, DOT), ("of f32", fused, FUSED)):
        made = TURNS * SUMS * LANES * ADDED[which]
        figure(
            f"dots: products {name}", made / taken / 1e9, "thousand millions a second",
            nanoseconds_an_instruction=round(taken / TURNS / SUMS * 1e9, 3), compared=compared,
        )  # fmt: skip
    ratio = dot * ADDED[FUSED] / (fused * ADDED[DOT])
    figure(
        "dots: time of a product in a pair, over that of one of f32", ratio, "times",
        noise=round(abs(again / fused - 1), 4), taken_for_slow=machine.slow_dots,
    )  # fmt: skip


def _text(number: int, instruction: str) -> str:
    """Adds the same products to all sums, turn by turn."""
    each = range(SUMS)
    pairs, small = (", ".join(["<32 x bfloat> %pairs"] * 2), ", ".join([f"{VECTOR} %small"] * 2))
    given = f"{VECTOR} %s{{0}}, {pairs}" if instruction == DOT else f"{small}, {VECTOR} %s{{0}}"
    return "\n".join(
        [
            f"define void @dots.{number}(ptr %buffers, ptr %scratch, i64 %begin, i64 %end) {{",
            "entry:",
            "  %to = load ptr, ptr %buffers, align 8",
            f"  %small = load {VECTOR}, ptr %to, align 4",
            f"  %pairs = bitcast {VECTOR} %small to <32 x bfloat>",
            "  br label %loop",
            "loop:",
            "  %turn = phi i64 [ %begin, %entry ], [ %next, %loop ]",
            *(
                f"  %s{at} = phi {VECTOR} [ zeroinitializer, %entry ], [ %n{at}, %loop ]"
                for at in each
            ),
            *(f"  %n{at} = call {VECTOR} {instruction}({given.format(at)})" for at in each),
            "  %next = add i64 %turn, 1",
            "  %more = icmp slt i64 %next, %end",
            "  br i1 %more, label %loop, label %done",
            "done:",
            *(f"  %p{at} = getelementptr {VECTOR}, ptr %to, i64 {at}" for at in each),
            *(f"  store {VECTOR} %n{at}, ptr %p{at}, align 4" for at in each),
            "  ret void",
            "}",
        ]
    )


def _call(address: int, room: np.ndarray) -> Callable[[], float]:
    """Runs it, and says how many seconds of a core it took."""
    function = ctypes.CFUNCTYPE(
        None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64
    )(address)
    pointers = (ctypes.c_void_p * 1)(room.ctypes.data)

    def call() -> float:
        room[:] = 1e-3
        begin = time.thread_time()
        function(pointers, None, 0, TURNS)
        return time.thread_time() - begin

    return call


if __name__ == "__main__":
    main()
