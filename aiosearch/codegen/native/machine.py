"""What a processor can do: for the printer to choose from, and for LLVM to compile for."""

from __future__ import annotations

import ctypes
import functools
import sys
from dataclasses import dataclass, field, replace

from ...measure.cache_sizes import USUAL_FIRST, USUAL_PRIVATE, first_cache, private_cache
from .llvm_library import llvm

_AVX512_FEATURES = ("avx512f", "avx512bw", "avx512dq", "avx512vl")
"""All of them where vectors of 64 bytes are used: fewer lack the 16-bit elements or the masks."""
_AMX_FEATURES = ("amx-tile", "amx-bf16")
_ARCH_PRCTL, _ARCH_GET_XCOMP_SUPP, _ARCH_REQ_XCOMP_PERM = 158, 0x1021, 0x1023
"""Of Linux on x86-64: the system call, and what is asked of it."""
_XFEATURE_XTILEDATA = 18
"""The number of the unit's registers, in both answers."""


@dataclass(frozen=True, slots=True)
class CpuMachine:
    """A processor. Two are equal that run the same code; how large their caches are may differ."""

    triple: str
    name: str
    """As LLVM calls it."""
    features: str
    """As LLVM takes them: each with its sign, between commas."""
    l1: int = field(default=USUAL_FIRST, compare=False)
    """Bytes of a core's first cache of data."""
    l2: int = field(default=USUAL_PRIVATE, compare=False)

    @property
    def width(self) -> int:
        """Bytes of the widest vectors to use."""
        if all(map(self.has, _AVX512_FEATURES)):
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
    def slow_dots(self) -> bool:
        """Whether it takes longer than as many products of f32 do.

        On an Emerald Rapids twice as long (`benchmarks/dots.py`). Where that was not measured, Zen
        is taken for fast, and all others for slow.
        """
        return self.bf16_dot and not self.name.startswith("znver")

    @property
    def bf16_matrix(self) -> bool:
        """Whether it has AMX: a unit that adds products of matrices of bf16 to one of f32."""
        return self.bf16_dot and all(map(self.has, _AMX_FEATURES))

    @property
    def is_arm(self) -> bool:
        return self.triple.startswith(("aarch64", "arm64"))

    def has(self, feature: str) -> bool:
        """Whether LLVM's feature of this name is on."""
        return f"+{feature}" in _signed(self.features)

    def runs(self, other: CpuMachine) -> bool:
        """Whether code for the other one runs here."""
        here, there = (_signed(one.features) for one in (self, other))
        wanted = {feature for feature in there if feature.startswith("+")}
        return wanted <= here and _kind(self) == _kind(other)


@functools.lru_cache(maxsize=16)
def _signed(features: str) -> frozenset[str]:
    """The features, each with its sign; asked for with every schedule."""
    return frozenset(features.split(","))


@functools.cache
def host() -> CpuMachine:
    """The processor that this process runs on, as far as its system supports it."""
    machine = CpuMachine(
        llvm.get_process_triple(),
        llvm.get_host_cpu_name(),
        llvm.get_host_cpu_features().flatten(),
        first_cache(),
        private_cache(),
    )
    if machine.bf16_matrix and not _supports_amx_state():
        return masked(machine, "amx")
    return machine


def masked(machine: CpuMachine, *prefixes: str) -> CpuMachine:
    """The same without all features whose names begin like this: `"avx512"`, `"fma"`."""
    features = [
        "-" + one[1:] if one[1:].startswith(prefixes) else one
        for one in machine.features.split(",")
    ]
    return replace(machine, features=",".join(features))


def portable(machine: CpuMachine) -> CpuMachine:
    """The least processor of the same kind: code for it runs on all of them."""
    return replace(machine, name="generic" if machine.is_arm else "x86-64", features="")


def _kind(machine: CpuMachine) -> str:
    return machine.triple.partition("-")[0]


def request_amx_permission() -> bool:
    """Asks the system to let this process use a matrix unit, which it does until it ends.

    From then on each thread has 8 KB more to keep when it is interrupted. A thread that has too
    little room for that is a reason to refuse.
    """
    return _arch_prctl(_ARCH_REQ_XCOMP_PERM, _XFEATURE_XTILEDATA)


def _supports_amx_state() -> bool:
    """Whether the system would, if it was asked."""
    found = ctypes.c_uint64()
    return _arch_prctl(_ARCH_GET_XCOMP_SUPP, ctypes.addressof(found)) and bool(
        found.value >> _XFEATURE_XTILEDATA & 1
    )


def _arch_prctl(what: int, argument: int) -> bool:
    if sys.platform != "linux":
        return False
    call = ctypes.CDLL(None).syscall
    call.restype, call.argtypes = ctypes.c_long, [ctypes.c_long] * 3
    return bool(call(_ARCH_PRCTL, what, argument) == 0)
