"""Kernels after fission, on vectors and cores, compute what the interpreter says they do."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from barrierprograms import program

from aiosearch import cuda
from aiosearch.cuda.compiled.lowering import Choices
from aiosearch.cuda.ir.text import parsed
from aiosearch.cuda.passes.minimum_cut import Policy

EXACT = Choices(contract=False)


def _both(text: str, kernel: str, shape: Any, *arguments: Any, choices: Choices = EXACT) -> None:
    """Runs a kernel both ways, and compares every array that it was given."""
    module = cuda.load(f"\n{text}", choices=choices)
    ours = [item.copy() if isinstance(item, np.ndarray) else item for item in arguments]
    theirs = [item.copy() if isinstance(item, np.ndarray) else item for item in arguments]
    module[kernel][shape](*ours)
    assert module[kernel][shape].check(*theirs) == ()
    changed = False
    for first, second, before in zip(ours, theirs, arguments, strict=True):
        if isinstance(first, np.ndarray):
            np.testing.assert_array_equal(first, second)
            changed |= not np.array_equal(first, before)
    assert changed, "the kernel wrote nothing"


def _floats(count: int) -> Any:
    return np.random.default_rng(count).integers(-8, 8, count).astype(np.float32)


REDUCTION = """
__global__ void total(const float *in, float *out) {
  extern __shared__ float s[];
  unsigned t = threadIdx.x;
  s[t] = in[blockIdx.x * blockDim.x + t];
  __syncthreads();
  for (unsigned k = blockDim.x / 2; k > 0; k >>= 1) {
    if (t < k) s[t] += s[t + k];
    __syncthreads();
  }
  if (t == 0) out[blockIdx.x] = s[0];
}"""


@pytest.mark.parametrize("threads", [32, 64, 256])
def test_a_halving_reduction_in_dynamic_shared_memory_gives_the_sum_of_each_block(
    threads: int,
) -> None:
    data, out = _floats(4 * threads), np.zeros(4, np.float32)
    cuda.load(f"{REDUCTION}\n").total[4, threads, 4 * threads](data, out)
    np.testing.assert_array_equal(out, data.reshape(4, -1).sum(1))
    _both(REDUCTION, "total", (4, threads, 4 * threads), data, np.zeros(4, np.float32))


def test_a_store_behind_a_condition_reaches_all_threads_after_the_barrier() -> None:
    text = """
    __global__ void spread(float *a) {
      __shared__ float s;
      if (threadIdx.x == 0) s = a[0];
      __syncthreads();
      a[threadIdx.x] = s + threadIdx.x;
    }"""
    array = _floats(64) + 20
    expected = array[0] + np.arange(64, dtype=np.float32)
    cuda.load(f"{text}\n").spread[1, 64](array)
    np.testing.assert_array_equal(array, expected)


def test_a_read_before_a_write_behind_a_barrier_sees_the_old_value() -> None:
    text = """
    __global__ void rotate(int *a) {
      __shared__ int s[64];
      int t = threadIdx.x;
      s[t] = a[t];
      __syncthreads();
      int next = s[(t + 1) % 64];
      __syncthreads();
      s[t] = next;
      __syncthreads();
      a[t] = s[t];
    }"""
    array = np.arange(64, dtype=np.int32)
    cuda.load(f"{text}\n").rotate[1, 64](array)
    np.testing.assert_array_equal(array, np.roll(np.arange(64), -1))
    _both(text, "rotate", (1, 64), np.arange(64, dtype=np.int32))


def test_a_uniform_break_between_barriers_leaves_the_loop_in_all_threads() -> None:
    text = """
    __global__ void pyramid(float *a, int turns) {
      __shared__ float s[64];
      int t = threadIdx.x;
      float mine = a[t];
      bool computed;
      for (int i = 0; i < turns; i++) {
        computed = false;
        s[t] = mine;
        __syncthreads();
        if (t > i && t < 63 - i) { computed = true; mine = s[t - 1] + s[t + 1]; }
        __syncthreads();
        if (i == turns - 1) break;
        if (computed) s[t] = mine;
        __syncthreads();
      }
      if (computed) a[t] = mine;
    }"""
    for turns in (1, 2, 5):
        _both(text, "pyramid", (1, 64), _floats(64), turns)


def test_a_while_loop_whose_condition_comes_from_shared_memory_ends_in_all_threads() -> None:
    text = """
    __global__ void settle(int *a, int *turns) {
      __shared__ int going;
      int t = threadIdx.x, count = 0;
      if (t == 0) going = 1;
      __syncthreads();
      while (going) {
        __syncthreads();
        if (t == 0) going = 0;
        __syncthreads();
        if (a[t] > 1) { a[t] /= 2; atomicExch(&going, 1); }
        count++;
        __syncthreads();
      }
      if (t == 0) *turns = count;
    }"""
    array = np.random.default_rng(0).integers(1, 1000, 64).astype(np.int32)
    _both(text, "settle", (1, 64), array, np.zeros(1, np.int32))


def test_threads_that_return_early_are_not_waited_for() -> None:
    text = """
    __global__ void early(float *a, int n) {
      __shared__ float s[64];
      int i = blockIdx.x * blockDim.x + threadIdx.x;
      s[threadIdx.x] = 1;
      __syncthreads();
      if (i >= n) return;
      s[threadIdx.x] = a[i];
      __syncthreads();
      for (int k = 0; k < 3; k++) {
        float x = s[63 - threadIdx.x];
        __syncthreads();
        s[threadIdx.x] = x + k;
        __syncthreads();
      }
      a[i] = s[threadIdx.x];
    }"""
    for size in (40, 63, 64, 100, 128):
        _both(text, "early", (2, 64), _floats(128), size)


@pytest.mark.parametrize("count", [0, 1, 3])
def test_a_loop_around_a_barrier_may_have_no_trip(count: int) -> None:
    text = """
    __global__ void turn(int *a, int n) {
      __shared__ int s[48];
      int t = threadIdx.x, x = a[t] + 1;
      for (int i = 0; i < n; i++) {
        s[t] = x;
        __syncthreads();
        x = s[(t + i) % 48];
        __syncthreads();
      }
      a[t] = x;
    }"""
    _both(text, "turn", (1, 48), np.arange(48, dtype=np.int32), count)


def test_values_that_change_places_in_a_loop_around_a_barrier_do_so_at_once() -> None:
    text = """
    __global__ void swap(int *a, int n) {
      __shared__ int s[32];
      int t = threadIdx.x, x = a[t], y = t + 100;
      for (int i = 0; i < n; i++) {
        s[t] = y;
        __syncthreads();
        int z = x; x = y; y = z + s[31 - t] % 3;
        __syncthreads();
      }
      a[t] = x * 1000 + y;
    }"""
    _both(text, "swap", (1, 32), np.arange(32, dtype=np.int32), 5)


def test_a_barrier_in_either_arm_of_a_uniform_branch_is_kept_apart() -> None:
    text = """
    __global__ void either(int *a, int n) {
      __shared__ int s[32];
      int t = threadIdx.x, x;
      s[t] = a[t];
      __syncthreads();
      if (n > 2) { x = s[31 - t]; __syncthreads(); s[t] = x + 1; }
      else { x = s[t ^ 1]; __syncthreads(); s[t] = x - 1; __syncthreads(); }
      __syncthreads();
      a[t] = s[(t + 7) & 31] + x;
    }"""
    for value in (1, 3):
        _both(text, "either", (1, 32), np.arange(32, dtype=np.int32), value)


def test_a_loop_whose_results_are_only_in_part_the_same_in_all_threads_is_done_by_threads() -> None:
    text = """
    __global__ void mixed(int *a, int n) {
      __shared__ int s[32];
      int t = threadIdx.x, x = a[t], y = 1, z = a[31 - t], w = 2;
      for (int i = n; i > 0; i /= 2) { x = i; y *= 3; }
      if (n > 2) { z = n; w = n * 5; }
      s[t] = x + z;
      __syncthreads();
      a[t] = s[31 - t] + y * 1000 + w * 10000;
    }"""
    for value in (0, 1, 7):
        _both(text, "mixed", (1, 32), np.arange(32, dtype=np.int32), value)


def test_memory_of_a_thread_that_is_used_across_barriers_stays_its_own() -> None:
    text = """
    __global__ void local(int *a) {
      __shared__ int s[32];
      int t = threadIdx.x, own[4] = {t, t * 2, t * 3, t * 4};
      for (int i = 0; i < 4; i++) {
        s[t] = own[i];
        __syncthreads();
        own[(i + t) & 3] += s[31 - t];
        __syncthreads();
      }
      a[t] = own[0] ^ own[1] ^ own[2] ^ own[3];
    }"""
    _both(text, "local", (1, 32), np.full(32, -1, np.int32))


def test_blocks_whose_width_no_vector_divides_are_masked_at_their_end() -> None:
    text = """
    __global__ void flip(float *a) {
      __shared__ float s[7][3];
      s[threadIdx.x][threadIdx.y] = a[threadIdx.y * 7 + threadIdx.x];
      __syncthreads();
      a[threadIdx.y * 7 + threadIdx.x] = s[6 - threadIdx.x][2 - threadIdx.y] + 1;
    }"""
    _both(text, "flip", (1, (7, 3)), _floats(21))


@pytest.mark.parametrize("policy", Policy)
def test_a_loop_that_only_what_is_computed_again_precedes_is_cut_once(policy: Policy) -> None:
    # Where such a loop is first put between barriers and then has them taken away, a rewriting that
    # goes on until nothing changes does not end.
    text = """
    __global__ void nested(int *a, int n) {
      __shared__ int s[32];
      int t = threadIdx.x, left = (t + 31) % 32, twice = t * 2, x = 0;
      for (int i = 0; i < n; i++) {
        int far = (t + i) % 32;
        for (int j = 0; j < 2; j++) {
          s[t] = left + twice + x;
          __syncthreads();
          x += s[far] + left;
          __syncthreads();
        }
      }
      a[t] = x + twice;
    }"""
    choices = Choices(contract=False, policy=policy)
    _both(text, "nested", (1, 32), np.full(32, -1, np.int32), 3, choices=choices)


def test_threads_of_a_warp_exchange_values() -> None:
    text = """
    __global__ void warp(const int *in, int *out, unsigned *votes) {
      int t = threadIdx.x, v = in[t];
      for (int k = 16; k > 0; k /= 2) v += __shfl_down_sync(~0u, v, k);
      int first = __shfl_sync(~0u, v, 0), up = __shfl_up_sync(~0u, in[t], 3, 8);
      int swapped = __shfl_xor_sync(~0u, in[t], 5);
      votes[t] = __ballot_sync(~0u, in[t] & 1);
      out[t] = first * 3 + up * 5 + swapped * 7 + __any_sync(~0u, t == 40) + __all_sync(~0u, v);
    }"""
    data = np.random.default_rng(1).integers(0, 100, 96).astype(np.int32)
    out, votes = np.zeros(96, np.int32), np.zeros(96, np.uint32)
    _both(text, "warp", (1, 96), data, out, votes)


def test_a_barrier_of_some_dimensions_orders_at_least_those_threads() -> None:
    text = """
    kernel @turn(%1.a a: ptr i32 4) {
      %2.s: ptr = alloc shared i32 256
      %3: u32 = thread.x
      %4: u32 = thread.y
      %5: u32 = mul %4, 8:u32
      %6: u32 = add %5, %3
      %7: i64 = cast %6
      %8: i32 = load [%1.a + %7 * 4]
      store i32 [%2.s + %7 * 4], %8
      barrier block x
      %9: u32 = xor %6, 7:u32
      %10: i64 = cast %9
      %11: i32 = load [%2.s + %10 * 4]
      store i32 [%1.a + %7 * 4], %11
    }"""
    module = cuda.load("__global__ void unused() {}\n")
    kernel = cuda.CudaKernel(module, parsed(text))
    array = np.arange(64, dtype=np.int32)
    expected = array.reshape(8, 8)[:, ::-1].reshape(-1)
    assert kernel[1, (8, 8)].check(array.copy()) == ()
    kernel[1, (8, 8)](array)
    np.testing.assert_array_equal(array, expected)


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize(
    "choices",
    [
        EXACT,
        Choices(contract=False, policy=Policy.STORE, eliminates=False),
        Choices(contract=False, policy=Policy.RELOAD, lanes=4, rows=2),
    ],
    ids=["default", "store-all", "reload"],
)
def test_generated_programs_with_barriers_give_the_same_bits_both_ways(
    seed: int, choices: Choices
) -> None:
    generated = program(seed)
    draw = np.random.default_rng(seed)
    array = draw.integers(0, 1000, generated.elements).astype(np.uint32)
    numbers = draw.integers(0, 16, generated.elements).astype(np.float32)
    shape = (generated.grid, generated.block)
    _both(generated.text, "generated", shape, array, numbers, 7, choices=choices)


def _loop(head: str, body: str = "out[j] = in[j] * 2;") -> str:
    return f"""
    __global__ void filled(int n, unsigned m, const float *in, float *out) {{
      int t = threadIdx.x, first = blockIdx.x * blockDim.x + t;
      float x = 0;
      if (t == 40) return;
      for ({head}) {body}
      out[300 + first] = x;
    }}"""


STRIDED = {
    "a tile": _loop("int j = t; j < n; j += 64"),
    "a step smaller than a vector": _loop("int j = t; j < n; j += 3", "x += in[j];"),
    "an end within": _loop("int j = t; j <= n - 3; j += 64"),
    "an unsigned counter": _loop("unsigned j = threadIdx.x; j < m; j += 64"),
    "a stride of the grid": _loop("int j = first; j < n; j += blockDim.x * gridDim.x"),
}
SCATTERED = {
    "downwards": _loop("int j = n - 1 - t; j >= 0; j -= 64"),
    "lanes that begin in falling order": _loop("int j = 63 - t; j < n; j += 64"),
    "an end for each lane": _loop("int j = t; j < n - t; j += 64"),
    "a step that may be negative": _loop("int j = first; j < n; j += (int)m - n + 128"),
    "a grid's stride that may wrap": _loop(
        "unsigned j = first; j < m; j += blockDim.x * gridDim.x"
    ),
    "a counter that is read behind the loop": """
    __global__ void filled(int n, unsigned m, const float *in, float *out) {
      int j = blockIdx.x * blockDim.x + threadIdx.x, first = j;
      for (; j < n; j += blockDim.x * gridDim.x) out[j] = in[j] * 2;
      out[first] += j;
    }""",
}


@pytest.mark.parametrize("name", STRIDED | SCATTERED)
@pytest.mark.parametrize("count", [150, 129, 64, 5])
def test_a_loop_whose_lanes_begin_apart_gives_the_same_up_to_every_end(
    name: str, count: int
) -> None:
    text = (STRIDED | SCATTERED)[name]
    grid = 2 if "gridDim" in text else 1
    _both(text, "filled", (grid, 64), count, count, _floats(256), np.zeros(428, np.float32))


@pytest.mark.parametrize("name", STRIDED | SCATTERED)
def test_a_counter_keeps_its_stride_where_lane_0_is_the_last_to_leave(name: str) -> None:
    launch = cuda.load(f"\n{(STRIDED | SCATTERED)[name]}").filled[1, 64]
    text = launch.lower().emitted.text
    apart = "masked.gather" in text or "cttz" in text  # by vectors, or lane by lane
    assert apart == (name in SCATTERED)


SEARCHED = """
__global__ void first(const double *limits, const double *wanted, int *at, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x, index = -1;
  for (int x = 0; x < n; x++) {
    if (limits[x] >= wanted[i]) { index = x; break; }
  }
  at[i] = index;
}"""


def test_a_search_that_threads_end_apart_reads_one_number_for_all_that_go_on() -> None:
    draw = np.random.default_rng(0)
    limits, wanted = np.sort(draw.random(50)), 1.1 * draw.random(96)
    _both(SEARCHED, "first", (3, 32), limits, wanted, np.full(96, 7, np.int32), 50)
    kernel = cuda.load(f"{SEARCHED}\n")["first"]
    assert "masked.gather" not in kernel[3, 32].lower().emitted.text


CARRIED = """
__global__ void carried(int *a, int *b, int n) {
  int t = threadIdx.x, x = 1, y = 0, z = 0;
  while (x < 1000 && b[t] > 0) {
    z = x;
    x = x * 3 + 1;
    y += t & x;
    if (y > n) break;
    b[t] -= 1;
    if (a[x & 31] == t) continue;
    y ^= x;
  }
  a[32 + t] = x; a[64 + t] = y; a[96 + t] = z;
}"""


def test_what_lanes_carried_when_they_left_is_what_they_have_behind_a_loop() -> None:
    draw = np.random.default_rng(1)
    a, b = (draw.integers(0, 12, size).astype(np.int32) for size in (128, 32))
    a[:32] += 5
    for limit in (0, 9, 40, 10_000):
        _both(CARRIED, "carried", (1, 32), a, b, limit)


@pytest.mark.parametrize("count", [1, 2, 17, 64, 100])
def test_neighbours_at_clamped_places_are_read_right_at_borders_and_between(count: int) -> None:
    text = """
    __global__ void near(const short *a, const double *b, double *out, int n, int width) {
      int i = blockIdx.x * blockDim.x + threadIdx.x;
      int left = i - 1 < 0 ? 0 : i - 1, right = min(i + 1, n - 1);
      int far = i == 0 ? i : i == n - 1 ? i : i + 1, both = max(min(i - 3, n - 7), 0);
      if (i < n) out[i] = a[left] + 3 * a[right] + 5 * a[far] + 7 * b[both] + b[2 * left];
    }"""
    whole = np.random.default_rng(count).integers(-9, 9, count).astype(np.int16)
    numbers = np.random.default_rng(count).integers(-9, 9, 2 * count).astype(np.float64)
    out = np.full(count, 0.5)
    _both(text, "near", (-(-count // 64), 64), whole, numbers, out, count, 5)


def test_clamped_neighbours_in_several_rows_of_threads_are_those_of_each_row() -> None:
    text = """
    __global__ void near(const float *a, float *out, int n) {
      int x = threadIdx.x, y = threadIdx.y, sum = 0;
      int west = x == 0 ? 0 : x - 1, south = y == 15 ? 15 : y + 1, half = x > y ? y : x;
      for (int k = 0; k < n; k++)
        sum += a[y * 16 + west] + a[south * 16 + x] * k + a[half] + a[south * 16 + half];
      out[y * 16 + x] = sum;
    }"""
    for rows in (1, 4):
        choices = Choices(contract=False, rows=rows)
        data = (_floats(256), np.full(256, 0.5, np.float32), 3)
        _both(text, "near", (1, (16, 16)), *data, choices=choices)


ROWS = """
__global__ void rows(const int *start, const int *place, const float *a, float *x, int *count,
                     float *y, char *last, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float sum = y[i];
  bool any = false;
  int j = start[i];
  for (; j < start[i + 1]; j++) {
    if (a[j] == 0) break;
    sum += a[j] * x[place[j]];
    atomicAdd(&count[place[j]], i);
    any = place[j] > n / 2;
  }
  y[i] = sum + j;
  last[i] = any;
}"""


@pytest.mark.parametrize("lanes", [None, 4, 32])
@pytest.mark.parametrize("count", [5, 64, 200])
def test_loops_of_rows_of_a_sparse_matrix_give_what_each_thread_gives_alone(
    count: int, lanes: int | None
) -> None:
    draw = np.random.default_rng(count)
    start = np.concatenate([[0], np.cumsum(draw.integers(0, 9, count))]).astype(np.int32)
    place = draw.integers(0, count, start[-1]).astype(np.int32)
    choices = Choices(contract=False, lanes=lanes)
    arrays = (start, place, _floats(start[-1]), _floats(count), np.zeros(count, np.int32))
    results = (_floats(count + 1)[:count], np.full(count, 7, np.int8))
    _both(ROWS, "rows", (-(-count // 64), 64), *arrays, *results, count, choices=choices)


def test_a_loop_of_few_computations_for_each_place_goes_lane_by_lane_and_others_do_not() -> None:
    dense = """
    __global__ void dense(const int *start, const float *a, float *y) {
      float x = y[threadIdx.x];
      for (int j = 0; j < start[threadIdx.x]; j++)
        for (int k = 0; k < 9; k++) x = x * x + x * 0.5f - x * x * x + a[k] * x;
      y[threadIdx.x] = x;
    }"""
    sparse, module = cuda.load(f"{ROWS}\n").rows[4, 64], cuda.load(f"{dense}\n")
    assert "cttz" in sparse.lower().emitted.text
    assert "cttz" not in module.dense[4, 64].lower().emitted.text


ALONG_ROWS = """
__global__ void rows(int n, int m, const TYPE *a, const TYPE *x, TYPE *y) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  TYPE sum = y[i];
  for (int j = 0; j < m; j++) sum += a[i * 40 + 3 + j] * x[m - j];
  y[i] = sum;
}
__global__ void squares(int n, int m, const TYPE *a, const TYPE *x, TYPE *c) {
  int j = blockIdx.x * blockDim.x + threadIdx.x, i = blockIdx.y * blockDim.y + threadIdx.y;
  TYPE sum = 0;
  for (int k = 1; k < m; k++) sum = sum * x[k] + a[i * 40 + k] * a[j * 40 + k];
  c[i * n + j] = sum;
}"""


@pytest.mark.parametrize("type", ["float", "double"])
@pytest.mark.parametrize("count", [0, 1, 7, 8, 9, 35])
def test_rows_that_lanes_read_turn_after_turn_give_the_same_up_to_every_end(
    type: str, count: int
) -> None:
    draw = np.random.default_rng(0)
    dtype = np.float32 if type == "float" else np.float64
    a, x, y, c = (draw.random(size).astype(dtype) for size in (64 * 40 + 3, 40, 40, 1024))
    text = ALONG_ROWS.replace("TYPE", type)
    if count:  # without a turn nothing changes, which `_both` would not have
        _both(text, "rows", (2, 32), 40, count, a, x, y)
    _both(text, "squares", ((2, 4), (16, 8)), 32, count, a, x, c)


def test_rows_that_lanes_read_turn_after_turn_are_read_as_squares() -> None:
    low = cuda.load(ALONG_ROWS.replace("TYPE", "double"))["squares"][(2, 4), (16, 8)].lower()
    # The turns that no strip has are the only ones that gather.
    text = low.emitted.text
    assert text.count("call <16 x double> @llvm.masked.gather") == 1
    assert "load <8 x double>" in text or "load <4 x double>" in text


@pytest.mark.parametrize(
    "change",
    [
        "for (int j = 0; j < m; j += 2)",  # every second of a row
        "for (unsigned char j = 0; j < m; j++)",  # a counter that wraps
        "for (int j = 0; j < m && sum < 3; j++)",  # turns that some lanes do not have
    ],
)
def test_what_is_no_row_of_neighbours_is_read_one_by_one(change: str) -> None:
    draw = np.random.default_rng(0)
    text = ALONG_ROWS.replace("TYPE", "double").replace("for (int j = 0; j < m; j++)", change)
    assert text != ALONG_ROWS.replace("TYPE", "double")
    a, x, y = (draw.random(size) for size in (40 * 33, 40, 32))
    _both(text, "rows", (1, 32), 32, 33, a, x, y)
    assert "load <8 x double>" not in cuda.load(text)["rows"][1, 32].lower().emitted.text


def test_a_loop_that_writes_reads_no_turns_ahead() -> None:
    text = """
    __global__ void running(int m, double *a) {
      int i = threadIdx.x;
      double sum = 0;
      for (int j = 0; j < m; j++) { sum += a[i * 20 + j]; a[(i * 20 + j + 1) % 640] = sum; }
    }"""
    _both(text, "running", (1, 1), 20, np.ones(640))
    assert "load <8 x double>" not in cuda.load(text)["running"][1, 32].lower().emitted.text


COLUMNS = """
__global__ void columns(int n, int m, const double *a, const double *x, double *y) {
  int j = blockIdx.x * blockDim.x + threadIdx.x;
  if (j >= n) return;
  double sum = y[j];
  for (int i = 0; i < m; i++) sum += a[i * n + j] * x[i];
  y[j] = sum;
}"""


def test_threads_that_walk_down_columns_are_as_many_lanes_as_sums_have_registers() -> None:
    draw = np.random.default_rng(0)
    a, x, y = (draw.random(size) for size in (200 * 9, 9, 200))
    _both(COLUMNS, "columns", (2, 128), 200, 9, a, x, y)
    kernel = cuda.load(COLUMNS)["columns"]
    few, many = (kernel[200 // size + 1, size].lower().grouping.lanes for size in (8, 128))
    assert few <= 8 < 32 <= many
    # Rows side by side are not read along the lanes.
    rows = cuda.load(ALONG_ROWS.replace("TYPE", "double"))["rows"][1, 128].lower().grouping.lanes
    assert rows < many
