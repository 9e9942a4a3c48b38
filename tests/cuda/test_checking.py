"""Faults of kernels are named with their lines, and right kernels are clean."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from aiosearch.cli import main
from aiosearch.cuda.checker import check, read
from aiosearch.cuda.errors import LaunchError
from aiosearch.cuda.interpreter.findings import FindingKind
from aiosearch.cuda.modules import load

HEAD = """__global__ void k(float *a, float *b, int n) {
  __shared__ float s[64];
  int t = threadIdx.x;
"""
LAUNCH = "k[2, 64](f32[128], zeros(f32[128]), 64)"

FAULTS = {
    "a read of what a neighbour writes": ("s[t] = a[t];\nb[t] = s[63 - t];", FindingKind.RACE, 5),
    "a write of what a neighbour reads": (
        "s[t] = a[t]; __syncthreads();\nfloat x = s[63 - t];\ns[t] = x;",
        FindingKind.RACE,
        6,
    ),
    "two writes to one place": ("s[t / 2] = a[t];", FindingKind.RACE, 4),
    "a write and an atomic": ("s[t] = 0;\natomicAdd(&s[0], 1.0f);", FindingKind.RACE, 5),
    "two blocks in one place": ("b[t] = a[t];", FindingKind.RACE, 4),
    "a loop without its second barrier": (
        "s[t] = a[t];\nfor (int i = 0; i < 3; i++) {\n__syncthreads();\ns[t] += s[63 - t];\n}",
        FindingKind.RACE,
        7,
    ),
    "a barrier that half of the threads reach": (
        "if (t < 32)\n__syncthreads();",
        FindingKind.DIVERGENT_BARRIER,
        5,
    ),
    "a loop of different counts around a barrier": (
        "for (int i = 0; i < t; i++)\n__syncthreads();",
        FindingKind.DIVERGENT_BARRIER,
        5,
    ),
    "a write behind the end": ("b[blockIdx.x * 64 + t + 1] = a[t];", FindingKind.OUT_OF_BOUNDS, 4),
    "a read before the beginning": ("s[t] = a[t - 1];", FindingKind.OUT_OF_BOUNDS, 4),
    "shared memory behind its end": ("s[t + 1] = 1;", FindingKind.OUT_OF_BOUNDS, 4),
    "shared memory that nobody wrote": (
        "if (t) s[t] = 1;\nfloat x = s[t];",
        FindingKind.UNINITIALIZED,
        5,
    ),
    "own memory that nobody wrote": (
        "float m[4];\nm[0] = 1;\ns[t] = m[t & 3];",
        FindingKind.UNINITIALIZED,
        6,
    ),
    "a number between two places": ("s[t] = *(int *)((char *)a + 2);", FindingKind.MISALIGNED, 4),
    "a shuffle from a thread that is absent": (
        "if (t < 16)\ns[t] = __shfl_down_sync(0xffff, 1.0f, 8);",
        FindingKind.WARP,
        5,
    ),
    "an assertion": ("assert(n < 3);", FindingKind.ASSERTION, 4),
}


@pytest.mark.parametrize(("body", "kind", "line"), FAULTS.values(), ids=FAULTS.keys())
def test_a_fault_is_found_at_its_line(body: str, kind: FindingKind, line: int) -> None:
    findings = check(load(f"{HEAD}{body}\n}}\n"), read(LAUNCH))
    assert (kind, line) in {(item.kind, item.at.line) for item in findings}


CLEAN = {
    "own places": "b[blockIdx.x * 64 + t] = a[t];",
    "a barrier between": "s[t] = a[t]; __syncthreads(); b[blockIdx.x * 64 + t] = s[63 - t];",
    "atomics only": "if (!t) s[0] = 0; __syncthreads(); atomicAdd(&s[0], a[t]);",
    "a uniform condition": "if (n > 3) { s[t] = 1; __syncthreads(); a[0]; s[63 - t] += 1; }",
    "a return before a barrier": (
        "if (t > 40) return; s[t] = 1; __syncthreads(); float x = s[40 - t];"
    ),
    "two barriers in a loop": (
        "s[t] = a[t]; for (int i = 0; i < 3; i++) { __syncthreads(); float x = s[63 - t];"
        " __syncthreads(); s[t] = x; }"
    ),
}


@pytest.mark.parametrize("body", CLEAN.values(), ids=CLEAN.keys())
def test_a_right_kernel_is_clean(body: str) -> None:
    assert check(load(f"{HEAD}{body}\n}}\n"), read(LAUNCH)) == ()


@pytest.mark.parametrize(
    "text",
    [
        "k",
        "k[1, 2]",
        "k[1, 2](f32)",
        "k[1, 2](q8[4])",
        "k[a, b](1)",
        "k[1, 2](same(3))",
        "k[1, 2](f32[-4])",
        "k[1, 2](f32['4'])",
        "k[1, 2](f32[1000000, 1000000])",
        "k[1, 2](zeros(f32[4], at=3))",
        "k[-1, 2](f32[4])",
    ],
)
def test_a_launch_that_cannot_be_read_is_refused_in_a_sentence(text: str) -> None:
    module = load("__global__ void k(float *a) { a[0] = 1; }\n")
    with pytest.raises(LaunchError):
        check(module, read(text))


def test_the_command_ends_with_0_where_nothing_is_wrong_1_where_something_is_and_2_else(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "kernels.cu"
    file.write_text(
        "__global__ void fine(int *a) { a[threadIdx.x] = 1; }\n"
        "__global__ void racy(int *a) { a[0] = threadIdx.x; }\n"
        "__global__ void odd(int *a) { goto end; end: a[0] = 1; }\n"
    )
    assert main(["cuda", "check", str(file), "--launch", "fine[1, 32](i32[32])"]) == 0
    assert main(["cuda", "check", str(file), "--launch", "racy[1, 32](i32[32])", "--json"]) == 1
    assert f'"file":"{file}","line":2' in capsys.readouterr().out
    assert main(["cuda", "check", str(file), "--launch", "odd[1, 32](i32[32])"]) == 2
    assert f"{file}:3: a goto stmt is not supported" in capsys.readouterr().out
    assert main(["cuda", "check", str(file)]) == 2


def test_a_grid_that_the_interpreter_takes_long_for_is_announced(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "kernels.cu"
    file.write_text("__global__ void k(int *a) { if (blockIdx.x > 2000) return; }\n")
    command = ["cuda", "check", str(file), "--launch"]
    assert main([*command, "k[1024, 1024](i32[1])"]) == 0
    assert "k[1024, 1024](i32[1]) has 1048576 threads" in capsys.readouterr().err
    assert main([*command, "k[1024, 1024](i32[1])", "--compiled"]) == 0
    assert main([*command, "k[4, 1024](i32[1])"]) == 0
    assert not capsys.readouterr().err


def test_a_read_beside_an_array_that_a_gpu_forgives_is_reported_and_changes_nothing() -> None:
    text = """
    __global__ void left(const float *a, float *b) {
      int i = threadIdx.x;
      float x = a[i - 1];
      if (i == 0) x = 0;
      b[i] = x;
    }"""
    around = np.arange(40, dtype=np.float32)
    array, out = around[4:36], np.zeros(32, np.float32)
    launch = load(f"{text}\n").left[1, 32]
    (finding,) = launch.check(array, out)
    assert (finding.kind, finding.at.line) == (FindingKind.OUT_OF_BOUNDS, 4)
    checked = out.copy()
    launch(array, out)
    assert out.tolist() == checked.tolist() == [0, *range(4, 35)]


def test_fidelity_goes_on_behind_a_kernel_that_is_not_understood(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "kernels.cu"
    file.write_text(
        "__global__ void wrong(int *a) { a[0] = unknown; }\n"
        "__global__ void fine(float *a) { a[0] = expf(a[1]); }\n"
    )
    assert main(["cuda", "fidelity", str(file)]) == 2
    shown = capsys.readouterr().out
    assert f"wrong: not understood: {file}:1: use of undeclared identifier 'unknown'" in shown
    assert "fine:\n" in shown
    assert "exp.f32 (1) approximate" in shown
    assert main(["cuda", "fidelity", str(file), "--json"]) == 2
    assert '"wrong":{"refused":' in capsys.readouterr().out


def test_a_file_without_kernels_is_refused_with_what_is_wrong_in_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "kernels.cu"
    for text, words in (("", "has no kernels"), ("nonsense\n", ":1: unknown type name")):
        file.write_text(text)
        assert main(["cuda", "fidelity", str(file)]) == 2
        assert words in capsys.readouterr().err
