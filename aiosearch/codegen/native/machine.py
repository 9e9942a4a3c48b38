"""What a processor can do: for the printer to choose from, and for LLVM to compile for."""

from __future__ import annotations

import ctypes
import functools
import sys
from dataclasses import dataclass, field, replace

from ...measure.processor import USUAL_FIRST, USUAL_PRIVATE, first_cache, private_cache
from .llvm_library import llvm

_AVX512_FEATURES = ("avx512f", "avx512bw", "avx512dq", "avx512vl")
"""The features that vectors of 64 bytes need: processors with fewer lack 16-bit elements or
masks."""
_AMX_FEATURES = ("amx-tile", "amx-bf16")
"""The features that bf16 products by AMX need."""
_ARCH_PRCTL, _ARCH_GET_XCOMP_SUPP, _ARCH_REQ_XCOMP_PERM = 158, 0x1021, 0x1023
"""Linux on x86-64: the number of the system call, and its requests for the supported and for the
permitted state."""
_XFEATURE_XTILEDATA = 18
"""The number of AMX's tile registers in the state that the system saves."""


@dataclass(frozen=True, slots=True)
class CpuMachine:
    """A processor. Two that run the same code are equal; the sizes of their caches may differ."""

    triple: str
    name: str
    """LLVM's name of the processor, such as `znver4`."""
    features: str
    """LLVM's features, each with its sign, between commas: `+avx2,-amx-tile`."""
    l1: int = field(default=USUAL_FIRST, compare=False)
    """Bytes of a core's L1 data cache."""
    l2: int = field(default=USUAL_PRIVATE, compare=False)
    """Bytes of a core's L2 cache."""

    @property
    def width(self) -> int:
        """Bytes of the widest vectors to use."""
        if all(map(self.has, _AVX512_FEATURES)):
            return 64
        # AVX without AVX2 has no 32-byte integers, which positions and masks need.
        return 32 if self.has("avx2") else 16

    @property
    def registers(self) -> int:
        """The number of vector registers."""
        return 32 if self.width == 64 or self.is_arm else 16

    @property
    def fma(self) -> bool:
        """Whether it has fused multiply-add, rounded once."""
        return self.has("fma") or self.is_arm

    @property
    def f16c(self) -> bool:
        """Whether instructions convert between f16 and f32; without them LLVM would call a library
        that is not there."""
        return self.has("f16c") or self.is_arm

    @property
    def scaling(self) -> bool:
        """Whether one instruction multiplies by powers of two (`vscalef`)."""
        return self.width == 64

    @property
    def bf16_dot(self) -> bool:
        """Whether it has AVX-512's dot instruction for bf16 pairs, and its rounding to bf16."""
        return self.has("avx512bf16") and self.width == 64

    @property
    def slow_dots(self) -> bool:
        """Whether the dot instruction takes longer than multiply-adds of f32 for as many products.

        An Emerald Rapids takes twice as long (`benchmarks/dots.py`). Where that was not measured,
        Zen counts as fast and all others as slow.
        """
        return self.bf16_dot and not self.name.startswith("znver")

    @property
    def bf16_matrix(self) -> bool:
        """Whether it has AMX with bf16."""
        return self.bf16_dot and all(map(self.has, _AMX_FEATURES))

    @property
    def is_arm(self) -> bool:
        """Whether it is a 64-bit Arm."""
        return self.triple.startswith(("aarch64", "arm64"))

    def has(self, feature: str) -> bool:
        """Whether LLVM's feature of this `name` is on."""
        return f"+{feature}" in _signed(self.features)

    def runs(self, target: CpuMachine) -> bool:
        """Whether code for `target` runs on this machine."""
        here, there = (_signed(machine.features) for machine in (self, target))
        required = {feature for feature in there if feature.startswith("+")}
        return required <= here and _kind(self) == _kind(target)


@functools.lru_cache(maxsize=16)
def _signed(features: str) -> frozenset[str]:
    """The `features`, each with its sign; cached, as every schedule asks."""
    return frozenset(features.split(","))


@functools.cache
def host() -> CpuMachine:
    """The processor that this process runs on, with the features that the operating system
    supports."""
    # L1 and L2 sizes come from the system; they steer schedules, and never which instructions are
    # legal.
    machine = CpuMachine(
        llvm.get_process_triple(),
        llvm.get_host_cpu_name(),
        llvm.get_host_cpu_features().flatten(),
        first_cache(),
        private_cache(),
    )
    # CPUID may list AMX although a hypervisor or an old kernel does not save its registers.
    if machine.bf16_matrix and not _supports_amx_state():
        return masked(machine, "amx")
    return machine


def masked(machine: CpuMachine, *prefixes: str) -> CpuMachine:
    """The machine without all features whose names begin with a prefix, such as `"avx512"` or
    `"fma"`."""
    features = [
        "-" + feature[1:] if feature[1:].startswith(prefixes) else feature
        for feature in machine.features.split(",")
    ]
    return replace(machine, features=",".join(features))


def portable(machine: CpuMachine) -> CpuMachine:
    """The least processor of the same kind, whose code runs on all of them."""
    return replace(machine, name="generic" if machine.is_arm else "x86-64", features="")


def _kind(machine: CpuMachine) -> str:
    """The architecture, such as `x86_64`."""
    return machine.triple.partition("-")[0]


def request_amx_permission() -> bool:
    """Asks Linux to let this process use AMX, and says whether it does.

    From then on each thread has 8 KiB more to save when it is interrupted. Linux refuses where some
    thread's signal stack is too small for that.
    """
    return _arch_prctl(_ARCH_REQ_XCOMP_PERM, _XFEATURE_XTILEDATA)


def _supports_amx_state() -> bool:
    """Whether Linux would grant AMX if asked."""
    supported = ctypes.c_uint64()
    return _arch_prctl(_ARCH_GET_XCOMP_SUPP, ctypes.addressof(supported)) and bool(
        supported.value >> _XFEATURE_XTILEDATA & 1
    )


def _arch_prctl(what: int, argument: int) -> bool:
    """Whether the system call succeeds."""
    if sys.platform != "linux":
        return False
    call = ctypes.CDLL(None).syscall
    call.restype, call.argtypes = ctypes.c_long, [ctypes.c_long] * 3
    return bool(call(_ARCH_PRCTL, what, argument) == 0)
