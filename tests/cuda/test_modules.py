"""CUDA text as a module: kernels on arrays, host functions, templates, what is refused."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from aiosearch import cuda
from aiosearch.cuda.interpreter import arithmetic
from aiosearch.cuda.ir.types import INTEGERS, ScalarType

TEXT = """
#include <cuda_runtime.h>
__constant__ float weights[3];
struct Pair { float a; int b; };
__global__ void step(const float *in, float *out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i > 0 && i < n - 1)
    out[i] = weights[0] * in[i - 1] + weights[1] * in[i] + weights[2] * in[i + 1];
  else if (i < n) out[i] = in[i];
}
template <typename T, int K> __global__ void scale(T *a, T f) {
  a[threadIdx.x] = a[threadIdx.x] * f + K;
}
__global__ void pairs(Pair *p, Pair more) {
  Pair q = p[threadIdx.x];
  q.a += more.a;
  q.b -= more.b;
  p[threadIdx.x] = q;
}
__global__ void checked(int n) { assert(n < 3); }
int smooth(float *host, int n, int steps) {
  float *a, *b, k[3] = {0.25f, 0.5f, 0.25f};
  cudaMalloc(&a, n * sizeof(float));
  cudaMalloc((void **)&b, n * sizeof(float));
  cudaMemcpyToSymbol(weights, k, sizeof(k));
  cudaMemcpy(a, host, n * sizeof(float), cudaMemcpyHostToDevice);
  dim3 block(64), grid((n + 63) / 64);
  for (int s = 0; s < steps; s++) {
    step<<<grid, block>>>(a, b, n);
    float *t = a; a = b; b = t;
  }
  scale<float, 2><<<1, 32>>>(a, 3.0f);
  cudaMemcpy(host, a, n * sizeof(float), cudaMemcpyDeviceToHost);
  cudaFree(a);
  cudaFree(b);
  return steps;
}
"""


def test_a_host_function_loops_around_launches_and_swaps_pointers() -> None:
    array = np.random.default_rng(0).standard_normal(200).astype(np.float32)
    expected = array.copy()
    for _ in range(5):
        inner = 0.25 * expected[:-2] + 0.5 * expected[1:-1] + 0.25 * expected[2:]
        expected = np.concatenate([expected[:1], inner, expected[-1:]])
    expected[:32] = expected[:32] * 3 + 2
    assert cuda.load(TEXT).smooth(array, 200, 5) == 5
    np.testing.assert_allclose(array, expected, rtol=1e-5, atol=1e-6)


def test_a_template_is_launched_by_its_arguments() -> None:
    array = np.arange(8, dtype=np.float64)
    cuda.load(TEXT)["scale<double, 7>"][1, 8](array, 2.0)
    np.testing.assert_array_equal(array, np.arange(8) * 2 + 7)


def test_structs_are_elements_and_arguments() -> None:
    array = np.array([(1.0, 2), (3.0, 4)], [("a", "f4"), ("b", "i4")])
    cuda.load(TEXT).pairs[1, 2](array, (10.0, 1))
    assert array.tolist() == [(11.0, 1), (13.0, 3)]


def test_an_assertion_that_fails_raises_with_its_line() -> None:
    module = cuda.load(TEXT)
    module.checked[1, 32](2)
    with pytest.raises(cuda.CudaError, match=r":20: an assertion fails"):
        module.checked[1, 32](3)


def test_several_threads_of_python_launch_at_once() -> None:
    text = "__global__ void add(int *a, int n) { a[blockIdx.x * 32 + threadIdx.x] += n; }\n"
    kernel = cuda.load(text).add
    arrays = [np.zeros(32 * 64, np.int32) for _ in range(8)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda pair: kernel[64, 32](pair[1], pair[0]), enumerate(arrays)))
    assert [set(item.tolist()) for item in arrays] == [{number} for number in range(8)]


def test_launches_in_a_row_have_as_much_shared_memory_as_each_asks_for() -> None:
    text = """
    __global__ void turned(int *a) {
      extern __shared__ int s[];
      int *mine = a + blockIdx.x * blockDim.x;
      s[threadIdx.x] = mine[threadIdx.x];
      __syncthreads();
      mine[threadIdx.x] = s[blockDim.x - 1 - threadIdx.x];
    }
    """
    kernel = cuda.load(text).turned
    for threads in (32, 1024, 64, 512):
        array = np.arange(512 * threads, dtype=np.int32)
        for _ in range(3):
            kernel[512, threads, 4 * threads](array)
        expected = np.arange(512 * threads).reshape(512, threads)[:, ::-1]
        np.testing.assert_array_equal(array, expected.ravel())


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_forked_process_launches_on_threads_of_its_own() -> None:
    program = """if True:
    import os
    import numpy as np
    from aiosearch import cuda

    text = "__global__ void add(int *a) { a[blockIdx.x * 256 + threadIdx.x] += 1; }"
    kernel = cuda.load(text + chr(10)).add
    array = np.zeros(256 * 4096, np.int32)
    kernel[4096, 256](array)
    child = os.fork()
    for _ in range(3):
        kernel[4096, 256](array)
    assert (array == 4).all()
    if child == 0:
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    """
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120)


@pytest.mark.parametrize(
    ("shape", "arguments"),
    [
        ((1, 2000), (np.zeros(4, np.float32), 1.0)),
        ((0, 32), (np.zeros(4, np.float32), 1.0)),
        ((1, 32), (np.zeros(4, np.float64), 1.0)),
        ((1, 32), (np.zeros((4, 4), np.float32)[:, 0], 1.0)),
        ((1, 32), (np.zeros(4, np.float32),)),
        ((1, 32), (1.0, 1.0)),
        ((1, 32), (np.zeros(4, np.float32), "x")),
        ((1, 32), (np.zeros(4, np.float32), np.complex64(1))),
        ((1, 32), (np.zeros(4, np.float32), 10**400)),
        ((-1, 32), (np.zeros(4, np.float32), 1.0)),
        ((1.5, 32), (np.zeros(4, np.float32), 1.0)),
        ((None, 32), (np.zeros(4, np.float32), 1.0)),
        (("1", 32), (np.zeros(4, np.float32), 1.0)),
        ((1 << 31, 32), (np.zeros(4, np.float32), 1.0)),
        ((1, 32, "0"), (np.zeros(4, np.float32), 1.0)),
        ((1, 32, -1), (np.zeros(4, np.float32), 1.0)),
        ((1, 32, 64, 0), (np.zeros(4, np.float32), 1.0)),
        (1, (np.zeros(4, np.float32), 1.0)),
    ],
)
def test_a_launch_that_no_gpu_takes_is_refused(
    shape: object, arguments: tuple[object, ...]
) -> None:
    with pytest.raises(cuda.LaunchError):
        cuda.load(TEXT)["scale<float, 1>"][shape](*arguments)


@pytest.mark.parametrize(
    "number", [1 << 32, -(1 << 31) - 1, 0.5, np.nan, -np.inf, 1j, np.str_("1")]
)
def test_what_is_no_number_of_a_parameter_is_refused_with_its_name(number: object) -> None:
    with pytest.raises(cuda.LaunchError, match="checked: n is i32, and cannot be"):
        cuda.load(TEXT).checked[1, 1](number)


def test_a_number_may_be_written_without_its_sign() -> None:
    text = "__global__ void k(int *a, int mask, unsigned most) { a[0] = mask; a[1] = most; }"
    array = np.zeros(2, np.int32)
    cuda.load(text).k[1, 1](array, 0xFFFFFFFE, -1)
    assert array.tolist() == [-2, -1]


def test_a_module_has_the_functions_of_its_text_and_no_others() -> None:
    module = cuda.load(TEXT)
    assert hasattr(module, "step")
    assert not hasattr(module, "stepped")
    with pytest.raises(cuda.SourceError, match=r"no function stepped \(did you mean step\?\)"):
        module.stepped  # noqa: B018  # it is looked up


def test_a_kernel_that_is_called_without_a_shape_says_how_it_is_launched() -> None:
    with pytest.raises(cuda.LaunchError, match=r"step\[grid, block\]"):
        cuda.load(TEXT).step(1)


def test_folders_and_macros_are_lists() -> None:
    with pytest.raises(cuda.CudaError, match=r"include=\['headers'\]"):
        cuda.load(TEXT, include="headers")
    with pytest.raises(cuda.CudaError, match=r"defines=\['N=4'\]"):
        cuda.load(TEXT, defines="N=4")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("__global__ void k(int *a) {\n  goto end; end: a[0] = 1;\n}\n", ":2: a goto stmt"),
        (
            "__device__ int f(int n) { return n ? f(n - 1) : 0; }\n"
            "__global__ void k(int *a) { a[0] = f(3); }\n",
            ":1: the recursion of f",
        ),
        (
            "struct B { int x : 3; };\n__global__ void k(B *b) {\n  b->x = 1;\n}\n",
            "the bit field x",
        ),
        (
            "__device__ int f(int);\n__global__ void k(int *a) {\n  a[0] = f(1);\n}\n",
            ":3: a call of f",
        ),
    ],
)
def test_what_is_outside_is_named_with_its_line(text: str, message: str) -> None:
    with pytest.raises(cuda.UnsupportedConstruct, match=message):
        cuda.load(text).k[1, 1]


def test_text_that_is_no_cpp_is_refused_with_the_compilers_words() -> None:
    with pytest.raises(cuda.SourceError, match="undeclared"):
        cuda.load("__global__ void k() { x = 1; }\n").k[1, 1]


def test_an_error_in_host_code_leaves_kernels_usable() -> None:
    text = "void host() { unknown(); }\n__global__ void k(int *a) { a[threadIdx.x] = 1; }\n"
    array = np.zeros(4, np.int32)
    cuda.load(text).k[1, 4](array)
    assert array.tolist() == [1, 1, 1, 1]


def test_a_struct_with_an_error_is_not_laid_out() -> None:
    text = "struct S { nothing x; int y; };\n__global__ void k(S *a) { a->y = 1; }\n"
    with pytest.raises(cuda.SourceError):
        cuda.load(text).k[1, 1]


def test_importing_the_package_loads_neither_clang_nor_llvm() -> None:
    code = (
        "import sys, aiosearch.cuda;"
        "print([m for m in ('clang', 'llvmlite', 'numpy', 'jax') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_where_libclang_is_not_installed_these_files_are_skipped(tmp_path: Path) -> None:
    (tmp_path / "clang.py").write_text("raise ModuleNotFoundError(name='clang')")
    folder = Path(__file__).parent
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-n0", "-p", "no:cacheprovider", str(folder)],
        env={**os.environ, "PYTHONPATH": str(tmp_path)}, capture_output=True, text=True,
    )  # fmt: skip
    assert run.returncode == pytest.ExitCode.NO_TESTS_COLLECTED, run.stdout + run.stderr
    assert f"{len([*folder.glob('test_*.py')])} skipped" in run.stdout


def test_tuning_leaves_the_arrays_alone_and_results_the_same() -> None:
    text = """
    __global__ void turn(float *a) {
      __shared__ float s[8][16];
      int x = threadIdx.x, y = threadIdx.y;
      s[y][x] = a[y * 16 + x];
      __syncthreads();
      float sum = 0;
      for (int k = 0; k < 8; k++) sum += s[k][x] * s[y][k];
      a[y * 16 + x] = sum;
    }"""
    array = np.arange(128, dtype=np.float32)
    expected = array.copy()
    kernel = cuda.load(f"{text}\n").turn
    kernel[1, (16, 8)].interpret(expected)
    choices = kernel[1, (16, 8)].tune(array, rounds=2)
    np.testing.assert_array_equal(array, np.arange(128))
    assert kernel[1, (16, 8)].choices == choices
    kernel[1, (16, 8)](array)
    np.testing.assert_allclose(array, expected, rtol=1e-6)


def test_an_array_of_jax_is_read_and_not_written() -> None:
    import jax.numpy as jnp

    text = "__global__ void k(const float *a, float *b) { b[threadIdx.x] = 2 * a[threadIdx.x]; }\n"
    kernel, out = cuda.load(text).k, np.zeros(4, np.float32)
    kernel[1, 4](jnp.arange(4.0), out)
    assert out.tolist() == [0, 2, 4, 6]
    with pytest.raises(cuda.LaunchError, match="may write to b"):
        kernel[1, 4](out, jnp.arange(4.0))


@pytest.mark.parametrize("type", sorted(INTEGERS))
def test_numbers_of_host_code_are_those_of_kernels(type: ScalarType) -> None:
    """One by one as on arrays, also where they wrap, and where a divisor is zero."""
    limits = np.iinfo(arithmetic.NUMPY[type])
    least, most = int(limits.min), int(limits.max)
    values = [least, most, 0, 1, max(least, -7), 3, most // 3]
    for name in ("add", "sub", "mul", "div", "rem", "min", "max", "and", "shl", "shr", "lt", "eq"):
        result = ScalarType.BOOL if name in ("lt", "eq") else type
        function = arithmetic.scalar(name, result, (type, type))
        for first, second in itertools.product(values, values):
            arrays = [np.asarray(value, arithmetic.NUMPY[type]) for value in (first, second)]
            expected = arithmetic.apply(name, result, arrays).item()
            assert function(first, second) == expected, (name, first, second)


def test_a_loop_of_host_code_swaps_what_it_carries() -> None:
    text = """
    int fibonacci(int n) {
      int a = 0, b = 1;
      for (int i = 0; i < n; i++) { int next = a + b; a = b; b = next; }
      while (a > 1000) a /= 10;
      return a;
    }"""
    module = cuda.load(text)
    assert module.fibonacci(10) == 55
    assert module.fibonacci(20) == 676


def test_host_code_that_leaves_its_memory_is_named_with_its_line() -> None:
    text = "void f(int n, int *a) {\n  for (int i = 0; i <= n; i++)\n    a[i * i] = i;\n}\n"
    module = cuda.load(text, choices=cuda.Choices(raises=False))
    with pytest.raises(
        cuda.CudaError, match=r":3: out-of-bounds: write of element 9 of a, which has 5"
    ):
        module.f(3, np.zeros(5, np.int32))


REPORTING = r"""
#include <stdio.h>
#include <stdlib.h>
#define CHECK(call) do { cudaError_t e = call; if (e != cudaSuccess) { \
    fprintf(stderr, "error at %s:%d (100%%): %s\n", __FILE__, __LINE__, cudaGetErrorString(e)); \
    exit(EXIT_FAILURE); } } while (0)
__global__ void raise(float *a, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) a[i] += 1;
}
float timed(float *a, int n, int wrong) {
  cudaEvent_t start, stop;
  cudaStream_t stream;
  float milliseconds = -1, *device;
  CHECK(cudaEventCreate(&start));
  CHECK(cudaEventCreate(&stop));
  CHECK(cudaStreamCreate(&stream));
  CHECK(cudaMalloc(&device, n * sizeof(float)));
  CHECK(cudaMemcpyAsync(device, a, n * sizeof(float), cudaMemcpyHostToDevice, stream));
  CHECK(cudaEventRecord(start, stream));
  raise<<<(n + 255) / 256, 256, 0, stream>>>(device, n);
  CHECK(cudaGetLastError());
  CHECK(cudaEventRecord(stop, stream));
  CHECK(cudaEventSynchronize(stop));
  CHECK(cudaEventElapsedTime(&milliseconds, start, stop));
  CHECK(cudaMemcpyAsync(a, device, n * sizeof(float), cudaMemcpyDeviceToHost, stream));
  CHECK(cudaStreamSynchronize(stream));
  CHECK(cudaStreamDestroy(stream));
  CHECK(cudaEventDestroy(start));
  CHECK(cudaEventDestroy(stop));
  CHECK(cudaFree(device));
  fprintf(stderr, "%s: 100%% of %d %s in %.1f\n", "raise", n, "numbers", 0.5f);
  if (wrong)
    exit(3);
  return milliseconds;
}
"""


def test_host_code_that_checks_every_call_and_takes_times_runs(
    capsys: pytest.CaptureFixture[str],
) -> None:
    array = np.zeros(1000, np.float32)
    timed = cuda.load(REPORTING).timed
    assert timed(array, 1000, 0) >= 0
    assert array.tolist() == [1] * 1000
    assert capsys.readouterr().err == "raise: 100% of 1000 numbers in 0.5\n"
    with pytest.raises(cuda.CudaError, match=r":34: the host function ends the program: exit\(3\)"):
        timed(array, 1000, 1)
    with pytest.raises(cuda.LaunchError, match="timed is a host function"):
        timed[1, 1]


TEMPLATE = """
template <typename T> __global__ void moved(T *a, int n) {
  int i = threadIdx.x;
  if (i < n)
    a[i].x = 1;
}
"""


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("moved<float>", "in line 5, member reference base type 'float'"),
        ("moved<floot>", "use of undeclared identifier 'floot'"),
        ("moved<float", "expected '>'"),
    ],
)
def test_a_template_that_does_not_take_its_arguments_is_refused_with_the_compilers_words(
    name: str, words: str
) -> None:
    module = cuda.load(TEMPLATE)
    with pytest.raises(cuda.SourceError, match=rf"{name} cannot be instantiated: {words}"):
        module[name]
    assert module["moved<float4>"].function.name


def test_a_header_that_is_not_there_is_named_where_something_of_it_is_used() -> None:
    text = '#include "sizes.h"\n__global__ void k(int *a) {\n  a[SIZE] = 1;\n}\n'
    with pytest.raises(
        cuda.SourceError, match=r":1: 'sizes.h' file not found; .*:3: use of undeclared.*`include`"
    ):
        cuda.load(text).k  # noqa: B018  # it is translated


def test_a_text_of_one_line_is_a_text_and_an_empty_one_has_no_kernels() -> None:
    assert cuda.load("__global__ void k(int *a) { a[0] = 1; }").kernels == ("k",)
    assert cuda.load("").kernels == ()
