"""What a processor can do: for the printer to choose from, and for LLVM to compile for."""

from __future__ import annotations

import functools
import os
from contextlib import suppress
from dataclasses import dataclass, field, replace

import llvmlite.binding as llvm

_WIDEST = ("avx512f", "avx512bw", "avx512dq", "avx512vl")
"""All of them where vectors of 64 bytes are used: fewer lack the 16-bit elements or the masks."""
_USUAL_L1, _USUAL_L2 = 32 << 10, 1 << 20


@dataclass(frozen=True, slots=True)
class Machine:
    """A processor. Two are equal that run the same code; how large their caches are may differ."""

    triple: str
    name: str
    """As LLVM calls it."""
    features: str
    """As LLVM takes them: each with its sign, between commas."""
    l1: int = field(default=_USUAL_L1, compare=False)
    """Bytes of a core's first cache of data."""
    l2: int = field(default=_USUAL_L2, compare=False)

    @property
    def width(self) -> int:
        """Bytes of the widest vectors to use."""
        if all(map(self.has, _WIDEST)):
            return 64
        return 32 if self.has("avx2") else 16

    @property
    def registers(self) -> int:
        """Of vectors."""
        return 32 if self.width == 64 or self.is_arm else 16

    @property
    def fma(self) -> bool:
        """Whether a product and a sum are one instruction, rounded once."""
        return self.has("fma") or self.is_arm

    @property
    def f16c(self) -> bool:
        """Whether instructions turn f16 into f32 and back; else LLVM calls what is not there."""
        return self.has("f16c") or self.is_arm

    @property
    def scaling(self) -> bool:
        """Whether it multiplies by powers of two in one instruction."""
        return self.width == 64

    @property
    def bf16_dot(self) -> bool:
        """Whether it has AVX-512's product of pairs of bf16, and its rounding to bf16."""
        return self.has("avx512bf16") and self.width == 64

    @property
    def is_arm(self) -> bool:
        return self.triple.startswith(("aarch64", "arm64"))

    def has(self, feature: str) -> bool:
        """Whether LLVM's feature of this name is on."""
        return f"+{feature}" in self.features.split(",")

    def runs(self, other: Machine) -> bool:
        """Whether code for the other one runs here."""
        here, there = (set(one.features.split(",")) for one in (self, other))
        wanted = {feature for feature in there if feature.startswith("+")}
        return wanted <= here and _kind(self) == _kind(other)


@functools.cache
def host() -> Machine:
    """The processor that this process runs on."""
    features = llvm.get_host_cpu_features().flatten()
    return Machine(
        llvm.get_process_triple(),
        llvm.get_host_cpu_name(),
        features,
        _size("SC_LEVEL1_DCACHE_SIZE", _USUAL_L1),
        _size("SC_LEVEL2_CACHE_SIZE", _USUAL_L2),
    )


def masked(machine: Machine, *prefixes: str) -> Machine:
    """The same without all features whose names begin like this: `"avx512"`, `"fma"`."""
    features = [
        "-" + one[1:] if one[1:].startswith(prefixes) else one
        for one in machine.features.split(",")
    ]
    return replace(machine, features=",".join(features))


def portable(machine: Machine) -> Machine:
    """The least processor of the same kind: code for it runs on all of them."""
    return replace(machine, name="generic" if machine.is_arm else "x86-64", features="")


def _kind(machine: Machine) -> str:
    return machine.triple.partition("-")[0]


def _size(name: str, usual: int) -> int:
    with suppress(ValueError, OSError):
        return os.sysconf(name) if os.sysconf(name) > 0 else usual
    return usual
