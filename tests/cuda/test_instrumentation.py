"""Compiled checks find races and accesses out of bounds in their lines, and no others."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from barrierprograms import program

from aiosearch import cuda

HEAD = "__global__ void k(float *a, float *b) {\n  __shared__ float s[64];\n"
HEAD += "  int t = threadIdx.x, g = blockIdx.x * 64 + t;\n"

FAULTY = {
    "a neighbour's element without a barrier": ("race", "s[t] = a[t]; b[g] = s[(t + 3) % 64];"),
    "one element of several": ("race", "s[t / 2] = a[t]; __syncthreads(); b[g] = s[t / 2];"),
    "a write behind reads": (
        "race",
        "s[t] = a[t]; __syncthreads(); float x = s[(t + 5) % 64]; s[t] = x; b[g] = s[t];",
    ),
    "a write of what all have read": (
        "race",
        "s[t] = a[t]; __syncthreads(); float x = s[63]; if (t == 63) s[t] = 2; b[g] = x;",
    ),
    "blocks that meet": ("race", "b[t] = a[t];"),
    "an atomic beside a write": ("race", "s[t] = 0; if (t == 5) atomicAdd(&s[4], 1.0f);"),
    "a write too far": ("out-of-bounds", "b[g + 3] = a[t];"),
    "a read in front": ("out-of-bounds", "b[g] = a[g - 2];"),
    "a shared array's end": ("out-of-bounds", "s[t + 1] = 1; __syncthreads(); b[g] = s[t];"),
    "an array of the thread": ("out-of-bounds", "int own[4]; own[t % 4 + 2] = t; b[g] = own[0];"),
}


def _checked(body: str, name: str = "check_compiled") -> tuple[cuda.KernelFault, ...]:
    arrays = np.zeros(128, np.float32), np.zeros(128, np.float32)
    launch = cuda.load(f"{HEAD}{body}\n}}\n").k[2, 64]
    listed: tuple[cuda.KernelFault, ...] = getattr(launch, name)(*arrays)
    return listed


@pytest.mark.parametrize(("kind", "body"), FAULTY.values(), ids=FAULTY.keys())
def test_a_fault_is_found_in_its_line(kind: str, body: str) -> None:
    findings = _checked(body)
    assert {(item.kind, item.at.line) for item in findings} == {(kind, 4)}
    assert any(item.kind == kind for item in _checked(body, "check"))


RIGHT = (
    "s[t] = a[t]; __syncthreads(); b[g] = s[(t + 3) % 64];",
    "for (int i = 0; i < 3; i++) { s[t] = i; __syncthreads(); b[g] += s[63 - t];"
    " __syncthreads(); }",
    "s[t] = 0; __syncthreads(); atomicAdd(&s[t / 8], 1.0f); atomicAdd(&b[t], 1.0f);",
    "s[t] = a[t]; s[t] += s[t]; b[g] = s[t];",
)


@pytest.mark.parametrize("body", RIGHT)
def test_a_right_kernel_has_no_finding(body: str) -> None:
    assert _checked(body) == ()


@pytest.mark.parametrize("seed", range(6))
def test_generated_programs_have_no_finding_and_compute_the_same(seed: int) -> None:
    generated = program(seed)

    def arrays() -> tuple[Any, Any]:
        draw = np.random.default_rng(seed)
        array = draw.integers(0, 1000, generated.elements).astype(np.uint32)
        return array, draw.integers(0, 16, generated.elements).astype(np.float32)

    launch = cuda.load(generated.text, choices=cuda.Choices(contract=False))["generated"]
    ours, theirs = arrays(), arrays()
    assert launch[generated.grid, generated.block].check_compiled(*ours, 7) == ()
    launch[generated.grid, generated.block].interpret(*theirs, 7)
    np.testing.assert_array_equal(ours[0], theirs[0])
    np.testing.assert_array_equal(ours[1], theirs[1])


def test_dynamic_shared_memory_has_the_size_of_the_launch() -> None:
    text = """
    __global__ void k(float *a) {
      extern __shared__ float s[];
      s[threadIdx.x] = a[threadIdx.x];
      __syncthreads();
      a[threadIdx.x] = s[63 - threadIdx.x];
    }
    """
    kernel = cuda.load(text).k
    assert kernel[1, 64, 256].check_compiled(np.zeros(64, np.float32)) == ()
    findings = kernel[1, 64, 128].check_compiled(np.zeros(64, np.float32))
    assert {(item.kind, item.at.line) for item in findings} == {
        ("out-of-bounds", 4),
        ("out-of-bounds", 6),
    }


def test_a_trial_between_guard_pages_survives_what_a_call_might_not() -> None:
    text = """
    __constant__ float factor[1] = {2.0f};
    __global__ void k(float *a, int shift) { a[threadIdx.x + shift] *= factor[0]; }
    """
    launch = cuda.load(text).k[1, 32]
    array = np.ones(32, np.float32)
    launch.trial(array, 0)
    for shift in (1, -1):
        with pytest.raises(cuda.LaunchError, match="outside of its arrays: it died of SIG"):
            launch.trial(array, shift)
    np.testing.assert_array_equal(array, 1)
