"""Blocks become one block, and launches one launch, only where no order of accesses changes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from barrierprograms import program

from aiosearch import cuda
from aiosearch.cuda.compiled.lowering import Choices
from aiosearch.cuda.ir.verifier import verify

FUSING = Choices(fuses=True)
FLIP = """
__global__ void flip(const int *in, int *out, int n) {
  __shared__ int s[8];
  int i = blockIdx.x * 8 + threadIdx.x;
  s[threadIdx.x] = in[i];
  for (int k = 0; k < n; k++) {
    __syncthreads();
    int x = s[7 - threadIdx.x];
    __syncthreads();
    s[threadIdx.x] = x + blockIdx.x + gridDim.x;
  }
  __syncthreads();
  out[i] = s[(threadIdx.x + 1) % 8];
}
"""


@pytest.mark.parametrize("blocks", [2, 4, 8])
def test_blocks_that_become_one_keep_shared_memory_of_their_own(blocks: int) -> None:
    data = np.arange(128, dtype=np.int32)
    expected, out = np.zeros_like(data), np.zeros_like(data)
    cuda.load(FLIP).flip[16, 8].interpret(data, expected, 3)
    launch = cuda.load(FLIP, choices=Choices(blocks=blocks)).flip[16, 8]
    launch(data, out, 3)
    np.testing.assert_array_equal(out, expected)
    low = launch.lower()
    assert low.blocks == blocks
    verify(low.before)
    verify(low.after)


def test_a_grid_that_the_number_does_not_divide_is_done_block_by_block() -> None:
    data = np.arange(24, dtype=np.int32)
    expected, out = np.zeros_like(data), np.zeros_like(data)
    cuda.load(FLIP).flip[3, 8].interpret(data, expected, 1)
    launch = cuda.load(FLIP, choices=Choices(blocks=2)).flip[3, 8]
    launch(data, out, 1)
    np.testing.assert_array_equal(out, expected)
    assert launch.lower().blocks == 1


REFUSED = {
    "a condition around a barrier may differ": (
        "if (blockIdx.x > 1) __syncthreads(); a[0] = 1;",
        (4, 8),
    ),
    "shared memory has a size that only the launch tells": (
        "extern __shared__ int s[]; s[0] = 1;",
        (4, 8, 64),
    ),
    "threads return before a barrier": (
        "if (a[threadIdx.x]) return; __syncthreads(); a[threadIdx.x] = 1;",
        (4, 8),
    ),
    "a warp would reach into the next block": (
        "a[threadIdx.x] = __shfl_sync(~0u, a[threadIdx.x], 0);",
        (4, 16),
    ),
    "the block has three dimensions already": ("a[0] = 1;", (4, (2, 2, 2))),
}


@pytest.mark.parametrize(("body", "shape"), REFUSED.values(), ids=REFUSED.keys())
def test_blocks_stay_apart_where_they_must_and_the_reason_is_told(
    body: str, shape: Any, request: pytest.FixtureRequest
) -> None:
    text = f"__global__ void k(int *a) {{ {body} }}\n"
    low = cuda.load(text, choices=Choices(blocks=4)).k[shape].lower()
    assert low.blocks == 1
    assert request.node.callspec.id in low.refusal
    assert any(low.refusal in reason for reason in low.reasons())


@pytest.mark.parametrize("seed", range(12))
def test_generated_programs_give_the_same_in_larger_blocks(seed: int) -> None:
    generated = program(seed)
    results = []
    for choices in (Choices(contract=False), Choices(contract=False, blocks=3)):
        draw = np.random.default_rng(seed)
        array = draw.integers(0, 1000, generated.elements).astype(np.uint32)
        numbers = draw.integers(0, 16, generated.elements).astype(np.float32)
        launch = cuda.load(generated.text, choices=choices)["generated"]
        launch[generated.grid, generated.block](array, numbers, 7)
        results.append((array, numbers))
    np.testing.assert_array_equal(results[0][0], results[1][0])
    np.testing.assert_array_equal(results[0][1], results[1][1])


CHAIN = """
__global__ void scale(const float *x, float *y, int width, int height, float by) {
  int i = blockIdx.x * blockDim.x + threadIdx.x, j = blockIdx.y * blockDim.y + threadIdx.y;
  if (i < width && j < height) y[j * width + i] = x[j * width + i] * by;
}
__global__ void shift(float *y, int width, int height, float by) {
  int i = blockIdx.x * blockDim.x + threadIdx.x, j = blockIdx.y * blockDim.y + threadIdx.y;
  if (i < width && j < height) y[j * width + i] += by;
}
__global__ void left(const float *y, float *z, int width, int height) {
  int i = blockIdx.x * blockDim.x + threadIdx.x, j = blockIdx.y * blockDim.y + threadIdx.y;
  if (i < width && j < height) z[j * width + i] = y[j * width + (i + 1) % width];
}
void steps(const float *x, float *y, float *z, int width, int height, int turns) {
  dim3 grid((width + 15) / 16, (height + 7) / 8), block(16, 8);
  for (int k = 0; k < turns; k++) {
    scale<<<grid, block>>>(x, y, width, height, 2.0f);
    shift<<<grid, block>>>(y, width, height, 1.0f);
    left<<<grid, block>>>(y, z, width, height);
  }
}
"""


def _steps(choices: Choices) -> tuple[Any, Any, Any]:
    module = cuda.load(CHAIN, choices=choices)
    draw = np.random.default_rng(0)
    x, y, z = (draw.random((20, 50)).astype(np.float32) for _ in range(3))
    host = module.steps
    host(x, y, z, 50, 20, 2)
    np.testing.assert_array_equal(y, x * 2 + 1)
    np.testing.assert_array_equal(z, np.roll(x * 2 + 1, -1, 1))
    return host, y, z


def test_launches_that_touch_the_same_in_the_same_thread_become_one() -> None:
    # 50 does not divide into blocks of 16, so some threads beyond a row's end have addresses of the
    # next row: whether they are guarded is not seen, and the launches would stay apart.
    text = CHAIN.replace("(width + 15) / 16", "width / 16")
    module = cuda.load(text, choices=FUSING)
    x, y, z = (np.ones((16, 64), np.float32) for _ in range(3))
    ran: list[str] = []
    run = module.run_launch
    module.run_launch = lambda launch: (ran.append(launch.kernel.function.name), run(launch))[1]  # type: ignore[method-assign]  # to hear of launches
    module.steps(x, y, z, 64, 16, 2)
    assert ran == ["scale_shift", "left"] * 2
    np.testing.assert_array_equal(z, np.full((16, 64), 3))
    ((pair, reason),) = module.steps.refusals.items()
    assert pair == ("scale_shift", "left")
    assert reason == "left may touch what another thread of scale_shift touches"


def test_launches_whose_threads_may_meet_stay_apart_and_give_the_same() -> None:
    host, _, _ = _steps(FUSING)
    assert ("scale", "shift") in host.refusals
    _steps(Choices())


def test_views_of_one_array_are_not_taken_for_different_memory() -> None:
    text = """
    __global__ void put(int *a) { a[threadIdx.x] = threadIdx.x; }
    __global__ void get(const int *b, int *c) { c[threadIdx.x] = b[threadIdx.x]; }
    void both(int *a, const int *b, int *c) { put<<<1, 32>>>(a); get<<<1, 32>>>(b, c); }
    """
    a, c = np.full(40, -1, np.int32), np.zeros(32, np.int32)
    cuda.load(text, choices=FUSING).both(a[:32], a[1:33], c)
    np.testing.assert_array_equal(c, a[1:33])


def test_a_host_function_measures_whether_it_fuses() -> None:
    module = cuda.load(CHAIN)
    arrays = [np.ones((16, 64), np.float32) for _ in range(3)]
    assert module.steps.tune(*arrays, 64, 16, 1, rounds=2) in (True, False)
    assert module.steps.fuses is not None
    np.testing.assert_array_equal(arrays[1], 1)
