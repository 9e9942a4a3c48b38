"""Random CUDA kernels without races, with barriers in every kind of control flow.

Each shared array is, between two barriers, either written by each thread at its own place or read
at any place. Every loop and branch around a barrier begins and ends with one, so the phases of its
body may do either. Numbers are unsigned and wrap, or floats that only `+`, `-` and `*` touch, so
that every order of evaluation that is allowed gives the same bits.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

BLOCKS = ((32, 1), (16, 4), (8, 8), (24, 2), (7, 3), (64, 1), (40, 1), (4, 16))


@dataclass
class Program:
    """The text of a kernel `generated(unsigned *a, float *f, unsigned n)` and its block."""

    text: str
    block: tuple[int, int]
    grid: int
    elements: int


@dataclass
class _Writer:
    draw: random.Random
    threads: int
    lines: list[str] = field(default_factory=list)
    depth: int = 1
    names: int = 0
    uniform: list[str] = field(default_factory=lambda: ["n", "blockIdx.x"])
    phases: dict[str, str] = field(default_factory=lambda: {"s": "write", "g": "write"})
    nested: int = 0
    defined: bool = False

    def line(self, text: str) -> None:
        self.lines.append("  " * self.depth + text)

    def open(self, text: str) -> None:
        self.line(text)
        self.depth += 1

    def close(self, text: str = "}") -> None:
        self.depth -= 1
        self.line(text)

    def name(self, prefix: str) -> str:
        self.names += 1
        return f"{prefix}{self.names}"

    def integer(self, depth: int = 2) -> str:
        choices = ["u", "v", "t", str(self.draw.randrange(1, 9)), self.draw.choice(self.uniform)]
        if depth == 0 or self.draw.random() < 0.3:
            return self.draw.choice(choices)
        first, second = self.integer(depth - 1), self.integer(depth - 1)
        operator = self.draw.choice(["+", "*", "^", "-", "&", "|", ">>", "/", "%"])
        if operator == ">>":
            return f"({first} >> ({second} & 7))"
        if operator in "/%" and self.defined:
            return f"({first} {operator} ({second} | 1u))"
        return f"({first} {operator} {second})"

    def number(self) -> str:
        first = self.draw.choice(["x", "y", "1.5f", "(float)(t & 15)", "(float)(u & 63)"])
        second = self.draw.choice(["x", "y", "0.25f", "(float)(v & 7)"])
        return f"({first} {self.draw.choice('+-*')} {second}) * 0.5f"

    def place(self) -> str:
        """Any place of a shared array."""
        return f"[({self.integer(1)}) % {self.threads}u]"

    def condition(self) -> str:
        return f"(({self.integer()}) & {self.draw.choice([1, 3, 7])}u) == {self.draw.randrange(2)}u"

    def uniform_condition(self) -> str:
        name = self.draw.choice(self.uniform)
        return f"(({name} + {self.draw.randrange(4)}u) & 1u) == {self.draw.randrange(2)}u"

    def statement(self) -> None:
        kind = self.draw.randrange(10)
        readable = [item for item, phase in self.phases.items() if phase == "read"]
        writable = [item for item, phase in self.phases.items() if phase == "write"]
        if kind < 2:
            self.line(f"{self.draw.choice('uv')} = {self.integer(3)};")
        elif kind == 2:
            self.line(f"{self.draw.choice('xy')} = {self.number()};")
        elif kind == 3 and readable:
            array = self.draw.choice(readable)
            target = {"s": "v", "g": "y"}[array]
            self.line(f"{target} += {array}{self.place()};")
        elif kind in (4, 5) and writable:
            array = self.draw.choice(writable)
            value = self.integer() if array == "s" else self.number()
            self.line(f"{array}[t] = {value};")
        elif kind == 6:
            self.line(f"loc[{self.integer(1)} & 3] = {self.integer(1)};")
            self.line(f"u += loc[{self.integer(1)} & 3];")
        elif kind == 7:
            self.open(f"if ({self.condition()}) {{")
            self.statement()
            if self.draw.random() < 0.5:
                self.close("} else {")
                self.depth += 1
                self.statement()
            self.close()
        elif kind == 8:
            name = self.name("i")
            bound = f"({self.integer(1)} & 3u) + 1u"
            self.open(f"for (unsigned {name} = 0; {name} < {bound}; ++{name}) {{")
            self.line(f"u += {name} * {self.draw.randrange(1, 5)}u;")
            if self.draw.random() < 0.3:
                self.line(f"if ({self.condition()}) {self.draw.choice(['break', 'continue'])};")
            self.line(f"v ^= u + {name};")
            self.close()
        else:
            self.line(f"u = ({self.condition()}) ? {self.integer(1)} : {self.integer(1)};")

    def barrier(self) -> None:
        self.line("__syncthreads();")
        for array in self.phases:
            self.phases[array] = self.draw.choice(["read", "write"])

    def phase(self) -> None:
        for _ in range(self.draw.randrange(1, 4)):
            self.statement()

    def body(self, count: int) -> None:
        """Phases and control flow around barriers."""
        for _ in range(count):
            kind = self.draw.randrange(7) if self.nested < 2 else 0
            self.nested += 1
            if kind in (0, 1, 2):
                self.phase()
                self.barrier()
            elif kind == 3:
                self.open(f"if ({self.uniform_condition()}) {{")
                self.barrier()
                self.body(2)
                if self.draw.random() < 0.6:
                    self.close("} else {")
                    self.depth += 1
                    self.barrier()
                    self.body(1)
                self.close()
                self.barrier()
            elif kind in (4, 5):
                self.loop()
            else:
                self.repeated()
            self.nested -= 1

    def loop(self) -> None:
        name = self.name("k")
        bound = self.draw.choice(["0u", "2u", "3u", "(n & 3u)"])
        self.open(f"for (unsigned {name} = 0; {name} < {bound}; ++{name}) {{")
        self.uniform.append(name)
        self.barrier()
        self.body(self.draw.randrange(1, 3))
        if self.draw.random() < 0.3:
            self.line(f"if ({name} == {self.draw.randrange(3)}u) break;")
            self.barrier()
            self.phase()
            self.barrier()
        self.uniform.remove(name)
        self.close()
        self.barrier()

    def repeated(self) -> None:
        name = self.name("w")
        self.line(f"unsigned {name} = {self.draw.choice(['4u', '8u', '(n & 7u)'])};")
        self.uniform.append(name)
        self.open(f"while ({name} > 0u) {{")
        self.barrier()
        self.body(1)
        self.line(f"{name} >>= 1;")
        self.close()
        self.barrier()
        self.uniform.remove(name)


def program(seed: int, *, defined: bool = False) -> Program:
    """The kernel of a seed.

    Divisions by zero, which give 0 here and on most machines, are left out of a `defined` one: C++
    and MLIR take it that there are none, and make 1 of `t / t`.
    """
    draw = random.Random(seed)
    block = draw.choice(BLOCKS)
    threads, grid = block[0] * block[1], 3
    writer = _Writer(draw, threads, defined=defined)
    writer.body(draw.randrange(2, 5))
    head = [
        "__global__ void generated(unsigned *a, float *f, unsigned n) {",
        f"  __shared__ unsigned s[{threads}];",
        f"  __shared__ float g[{threads}];",
        "  unsigned t = threadIdx.y * blockDim.x + threadIdx.x;",
        "  unsigned id = blockIdx.x * blockDim.x * blockDim.y + t;",
        "  unsigned loc[4] = {t, 1, 2, 3};",
    ]
    if draw.random() < 0.3:
        head += [
            "  s[t] = t; g[t] = (float)t;",
            "  __syncthreads();",
            "  if (id >= n * 8u) return;",
        ]
        head += ["  unsigned u = a[id], v = id; float x = f[id], y = 0.5f;"]
    else:
        head += ["  unsigned u = a[id], v = id; float x = f[id], y = 0.5f;"]
        head += ["  s[t] = u; g[t] = x;", "  __syncthreads();"]
    tail = ["  a[id] = u ^ v ^ loc[1];", "  f[id] = x + y;", "}"]
    text = "\n".join([*head, *writer.lines, *tail]) + "\n"
    return Program(text, block, grid, threads * grid)
