"""Loop nests of plain C run as kernels, and give what the loops give in any order of threads."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from aiosearch import cuda
from aiosearch.cuda.compiled.lowering import Choices
from aiosearch.cuda.ir.operations import ConstantOperand, For, walk
from aiosearch.cuda.ir.types import ScalarType
from aiosearch.cuda.passes import affine

LOOPS = Path(__file__).parents[1] / "support" / "loops.c"
SIZE = 14
EXACT = Choices(contract=False)


def _arguments(function: Any) -> list[Any]:
    """Matrices and vectors that no nest overflows with, drawn."""
    draw = np.random.default_rng(0)
    listed: list[Any] = []
    for parameter in function.parameters:
        if parameter.stride == 8 * SIZE:
            listed.append(draw.random((SIZE, SIZE)) + SIZE * np.eye(SIZE))
        elif parameter.stride:
            listed.append(draw.random(SIZE))
        else:
            listed.append(3 if parameter.value.type.is_integer else 0.5)
    return listed


RAISED = {
    "product": 2,
    "two_products": 2,
    "both_ways": 2,
    "there_and_back": 2,
    "symmetric_update": 2,
    "triangular_product": 1,
    "triangular_solve": 1,
    "factors": 1,
    "shortest_paths": 1,
    "smoothed": 1,
    "smoothed_in_place": 1,
    "waves": 1,
    "covariance": 3,
    "transposed": 1,
    "backwards": 1,
    "shifted_down": 1,
}
"""How many kernels each is at least."""


@pytest.fixture(autouse=True)
def _small_nests_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """The interpreter, which says what is right, takes long for nests that are worth compiling."""
    monkeypatch.setattr(affine, "_FEWEST_ITERATIONS", 100)
    monkeypatch.setattr(affine, "_FEWEST_PER_LAUNCH", 100)
    monkeypatch.setattr(affine, "_LITTLE", 4)


def _load(choices: Choices) -> cuda.CudaModule:
    return cuda.load(LOOPS, defines=[f"N={SIZE}"], choices=choices)


@pytest.mark.parametrize("name", RAISED)
def test_a_nest_as_kernels_gives_the_bits_of_the_loops(name: str) -> None:
    function = _load(EXACT).host(name)
    plain = _load(Choices(raises=False)).host(name)
    ours, theirs = _arguments(function.function), _arguments(function.function)
    function(*ours)
    plain(*theirs)
    for first, second in zip(ours, theirs, strict=True):
        np.testing.assert_array_equal(first, second)
    assert len(function.decisions) >= RAISED[name]
    assert plain.decisions == ()


def _decided(name: str) -> str:
    function = _load(EXACT).host(name)
    function(*_arguments(function.function))
    return "; ".join(item.partition(": ")[2] for item in function.decisions)


@pytest.mark.parametrize(
    ("name", "decisions"),
    [
        ("product", "threads along j and i; threads along j and i"),
        ("transposed", "threads along i and j"),
        ("triangular_solve", "threads along nothing"),
        ("smoothed_in_place", "threads along nothing"),
        ("backwards", "threads along j"),
        ("triangular_product", "threads along j"),
        ("symmetric_update", "threads along j and i; threads along j and i"),
    ],
)
def test_loops_whose_iterations_are_independent_become_threads_and_no_others(
    name: str, decisions: str
) -> None:
    assert _decided(name) == decisions


def test_the_loop_along_which_memory_is_read_in_order_is_that_of_neighbouring_threads() -> None:
    text = """
    void columns(int n, float *a) {
      for (int j = 0; j < n; j++) for (int i = 0; i < n; i++) a[i * n + j] += 1;
    }
    """
    module = cuda.load(text)
    a = np.zeros((64, 64), np.float32)
    module.columns(64, a)
    assert a.min() == a.max() == 1
    assert module.columns.decisions == ("<text>.cu:3: threads along j and i",)


def test_counters_that_are_declared_at_the_top_make_no_difference() -> None:
    text = """
    void product(int n, double *a, const double *b, const double *c) {
      int i, j, k;
      for (i = 0; i < n; i++)
        for (j = 0; j < n; j++) {
          a[i * n + j] = 0;
          for (k = 0; k < n; ++k) a[i * n + j] += b[i * n + k] * c[k * n + j];
        }
    }
    """
    module = cuda.load(text)
    draw = np.random.default_rng(0)
    a, b, c = np.ones((16, 16)), draw.random((16, 16)), draw.random((16, 16))
    module.product(16, a, b, c)
    np.testing.assert_allclose(a, b @ c)
    assert module.product.decisions == ("<text>.cu:4: threads along j and i",)


def test_a_number_that_goes_from_turn_to_turn_stays_in_one_thread() -> None:
    text = """
    void levels(int n, double *a) {
      double b[64], last = 1;
      for (int i = 1; i < n; i++) {
        for (int j = 0; j < i; j++) b[j] = a[j] * last;
        for (int j = 0; j < i; j++) a[j] += b[i - j - 1];
        last = 1 / (1 + a[i - 1]);
        a[i] = last;
      }
    }
    double summed(int n, const double *a) {
      double sum = 0;
      for (int i = 0; i < n; i++) sum += a[i];
      return sum;
    }
    """
    module = cuda.load(text, choices=EXACT)
    plain = cuda.load(text, choices=Choices(raises=False))
    ours, theirs = (np.linspace(0.1, 1, 40) for _ in range(2))
    module.levels(40, ours)
    plain.levels(40, theirs)
    np.testing.assert_array_equal(ours, theirs)
    assert module.levels.decisions == ("<text>.cu:4: threads along nothing",)
    assert module.summed(40, ours) == plain.summed(40, ours)


def test_arrays_that_overlap_keep_the_order_of_their_loops() -> None:
    text = """
    void copied(int n, const double *a, double *b) { for (int i = 0; i < n; i++) b[i] = a[i] + 1; }
    """
    module = cuda.load(text)
    memory = np.zeros(5001)
    module.copied(5000, memory[:-1], memory[1:])
    np.testing.assert_array_equal(memory, np.arange(5001))
    assert module.copied.decisions == ("<text>.cu:2: threads along nothing",)
    apart = np.zeros(5000)
    module.copied(5000, memory[:-1], apart)
    np.testing.assert_array_equal(apart, np.arange(5000) + 1)
    assert module.copied.decisions == ("<text>.cu:2: threads along i",)


def test_a_loop_that_calls_is_left_to_the_host_and_the_nests_in_it_are_not() -> None:
    text = """
    __global__ void double_it(double *a) { a[blockIdx.x * blockDim.x + threadIdx.x] *= 2; }
    void steps(int n, double *a) {
      for (int t = 0; t < 3; t++) {
        for (int i = 0; i < n; i++) a[i] += 1;
        double_it<<<n / 64, 64>>>(a);
      }
    }
    """
    module = cuda.load(text)
    a = np.zeros(4096)
    module.steps(4096, a)
    np.testing.assert_array_equal(a, 14)
    assert module.steps.decisions == ("<text>.cu:5: threads along i",)


def _random_nest(seed: int) -> str:
    """Loops over two matrices and a vector, with places a little off the counters."""
    draw = random.Random(seed)

    def place(counters: list[str]) -> str:
        def index() -> str:
            counter = draw.choice([*counters, draw.choice(counters)])
            return f"[{counter} + {draw.choice((0, 0, 1, 2))}]"

        if draw.random() < 0.2:
            return f"v{index()}"
        return f"{draw.choice('ab')}{index()}{index()}"

    def statement(counters: list[str]) -> str:
        factor = draw.choice(("0.5", "0.25", "1.5"))
        operator = draw.choice(("=", "=", "+="))
        first, second, third = (place(counters) for _ in range(3))
        return f"{first} {operator} {second} * {factor} + {third} * 0.125;"

    def loop(counters: list[str], depth: int) -> str:
        name = "ijk"[len(counters)]
        low = draw.choice(("0", "1", *counters))
        head = f"for (int {name} = {low}; {name} < 9; {name}++)"
        if draw.random() < 0.15:
            head = f"for (int {name} = 8; {name} >= {low}; {name}--)"
        inner = [*counters, name]
        parts = []
        for _ in range(draw.choice((1, 1, 2, 3))):
            if depth > 1 and draw.random() < 0.75:
                parts.append(loop(inner, depth - 1))
            else:
                parts.append(statement(inner))
        return f"{head} {{ {' '.join(parts)} }}"

    nests = " ".join(loop([], 3) for _ in range(draw.choice((1, 2))))
    return f"void nest(double a[11][11], double b[11][11], double v[11]) {{\n{nests}\n}}\n"


@pytest.mark.parametrize("seed", range(40))
def test_generated_nests_give_the_bits_of_the_loops(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(affine, "_FEWEST_ITERATIONS", 2)
    monkeypatch.setattr(affine, "_FEWEST_PER_LAUNCH", 10)
    text = _random_nest(seed)
    results = []
    for choices in (EXACT, Choices(raises=False)):
        draw = np.random.default_rng(seed)
        arrays = [draw.random((11, 11)), draw.random((11, 11)), draw.random(11)]
        module = cuda.load(text, choices=choices)
        module.nest(*arrays)
        assert bool(module.nest.decisions) == choices.raises
        results.append(arrays)
    for first, second in zip(*results, strict=True):
        np.testing.assert_array_equal(first, second)


GRAM_SCHMIDT = """
    void orthogonal(int m, int n, double *a, double *r, double *q) {
      for (int k = 0; k < n; k++) {
        double norm = 0;
        for (int i = 0; i < m; i++) norm += a[i * n + k] * a[i * n + k];
        r[k * n + k] = sqrt(norm);
        for (int i = 0; i < m; i++) q[i * n + k] = a[i * n + k] / r[k * n + k];
        for (int j = k + 1; j < n; j++) {
          r[k * n + j] = 0;
          for (int i = 0; i < m; i++) r[k * n + j] += q[i * n + k] * a[i * n + j];
          for (int i = 0; i < m; i++) a[i * n + j] -= q[i * n + k] * r[k * n + j];
        }
      }
    }
"""
BOTH_IN_A_PASS = """
    void both(int n, double *a, double *s, double *q, double *p) {
      for (int i = 0; i < n; i++) {
        q[i] = 0;
        for (int j = 0; j < n; j++) {
          s[j] = s[j] + p[i] * a[i * n + j];
          q[i] = q[i] + a[i * n + j] * p[j];
        }
      }
    }
"""
DOWNWARDS = """
    void downwards(int n, double *a, double *b) {
      for (int i = n - 2; i >= 0; i--) {
        for (int j = 0; j < n; j++) b[i * n + j] = a[(i + 1) * n + j] * 2;
        for (int j = 0; j < n; j++) a[i * n + j] = b[i * n + j] + 1;
      }
    }
"""
OF_UNKNOWN_LENGTH = """
    void rows(int n, double *a, const int *ends) {
      for (int i = 0; i < n; i++)
        for (int j = 0; j < ends[i]; j++) a[i * 4 + j] = a[i * 4 + j] * 0.5 + i;
    }
"""


def _both_ways(text: str, name: str, *arguments: Any) -> tuple[str, ...]:
    """Compares a function with the interpreter's bits, and gives what became of its nests."""
    results = []
    for choices in (EXACT, Choices(contract=False, merges=False), Choices(raises=False)):
        host = cuda.load(text, choices=choices).host(name)
        copies = [item.copy() if isinstance(item, np.ndarray) else item for item in arguments]
        host(*copies)
        results.append((copies, host.decisions))
    for copies, _ in results[:2]:
        for first, second in zip(copies, results[2][0], strict=True):
            np.testing.assert_array_equal(first, second)
    return tuple(item.partition(": ")[2] for item in results[0][1])


def test_columns_of_a_triangle_are_independent_though_it_is_written_mirrored() -> None:
    assert _decided("covariance").endswith("threads along j and i")


def test_what_stands_between_launches_is_a_kernel_of_one_thread() -> None:
    draw = np.random.default_rng(0)
    arguments = (40, 40, draw.random((40, 40)), np.zeros((40, 40)), np.zeros((40, 40)))
    decisions = _both_ways(GRAM_SCHMIDT, "orthogonal", *arguments)
    assert decisions.count("threads along nothing") == 1
    assert "threads along j and i" in decisions
    assert decisions[-1] == "iterations depend on earlier ones: launches"


def test_a_nest_that_stores_to_two_arrays_is_two_where_one_order_suits_neither() -> None:
    draw = np.random.default_rng(0)
    arguments = [draw.random((30, 30)), *(draw.random(30) for _ in range(3))]
    decisions = _both_ways(BOTH_IN_A_PASS, "both", 30, *arguments)
    assert sorted(decisions) == ["threads along i", "threads along j"]


def test_a_loop_downwards_is_not_distributed_where_a_later_turn_reads_what_one_wrote() -> None:
    draw = np.random.default_rng(0)
    _both_ways(DOWNWARDS, "downwards", 16, draw.random((16, 16)), draw.random((16, 16)))


def test_rows_whose_ends_come_from_memory_may_reach_into_the_next() -> None:
    ends = np.array([3, 9, 2, 7] * 6, np.int32)
    _both_ways(OF_UNKNOWN_LENGTH, "rows", 24, np.ones(200), ends)


def test_launches_in_loops_run_as_one_region_like_one_by_one() -> None:
    text = """
    __constant__ float weight;
    __global__ void smooth(int n, float scale, bool up, const float *a, float *b) {
      int i = blockIdx.x * blockDim.x + threadIdx.x;
      if (i > 0 && i < n - 1) b[i] = (a[i - 1] + a[i + 1]) * scale + (up ? weight : 0);
    }
    void steps(int n, int count, float *a, float *b, float w) {
      cudaMemcpyToSymbol(weight, &w, sizeof(float));
      for (int t = 0; t < count; t++) {
        float scale = 0.25f + t * 0.01f;
        smooth<<<(n + 63) / 64, 64>>>(n, scale, t % 2 == 0, a, b);
        for (int s = t; s < t + 2; s++) smooth<<<(n + 63) / 64, 64>>>(n, scale, false, b, a);
      }
    }
    """
    a, b = np.linspace(0, 1, 1000, dtype=np.float32), np.zeros(1000, np.float32)
    results = []
    for merges in (True, False):
        copies = a.copy(), b.copy()
        cuda.load(text, choices=Choices(merges=merges)).steps(1000, 5, *copies, 0.125)
        results.append(copies)
    np.testing.assert_array_equal(results[0], results[1])
    assert not np.array_equal(results[0][0], a)


def test_a_failed_assertion_in_a_region_names_its_line() -> None:
    text = """
    __global__ void below(int limit, int *a) { assert(a[threadIdx.x] < limit); }
    void checked(int *a) { for (int t = 9; t > 1; t = t - 1) { below<<<1, 8>>>(t, a); } }
    void counted(int *a) { for (int t = 0; t < 6; t++) below<<<1, 8>>>(9 - t, a); }
    """
    with pytest.raises(cuda.CudaError, match=r"cu:2: an assertion fails"):
        cuda.load(text).counted(np.full(8, 5, np.int32))
    cuda.load(text).counted(np.full(8, 3, np.int32))


def test_a_grid_that_is_none_in_some_turn_is_refused_as_by_a_launch() -> None:
    text = """
    __global__ void ones(int *a) { a[blockIdx.x] = 1; }
    void fewer(int *a) { for (int t = 2; t >= 0; t--) ones<<<t, 1>>>(a); }
    void again(int *a) { for (int t = 0; t < 3; t++) ones<<<2 - t, 1>>>(a); }
    """
    for name in ("fewer", "again"):
        with pytest.raises(cuda.CudaError, match="the grid has to be positive"):
            cuda.load(text).host(name)(np.zeros(4, np.int32))


FACTORS = """
    void factors(int n, double *a) {
      for (int i = 0; i < n; i++) {
        for (int j = 0; j < i; j++) {
          for (int k = 0; k < j; k++) a[i * n + j] -= a[i * n + k] * a[k * n + j];
          a[i * n + j] /= a[j * n + j];
        }
        for (int j = i; j < n; j++)
          for (int k = 0; k < i; k++) a[i * n + j] -= a[i * n + k] * a[k * n + j];
      }
    }
    void roots(int n, double *a) {
      for (int i = 0; i < n; i++) {
        for (int j = 0; j < i; j++) {
          for (int k = 0; k < j; k++) a[i * n + j] -= a[i * n + k] * a[j * n + k];
          a[i * n + j] /= a[j * n + j];
        }
        for (int k = 0; k < i; k++) a[i * n + i] -= a[i * n + k] * a[i * n + k];
        a[i * n + i] = sqrt(a[i * n + i]);
      }
    }
    void sums(int n, double *a) {
      for (int i = 0; i < n; i++) {
        for (int j = 0; j < i; j++) {
          double w = a[i * n + j];
          for (int k = 0; k < j; k++) w -= a[i * n + k] * a[k * n + j];
          a[i * n + j] = w / a[j * n + j];
        }
        for (int j = i; j < n; j++) {
          double w = a[i * n + j];
          for (int k = 0; k < i; k++) w -= a[i * n + k] * a[k * n + j];
          a[i * n + j] = w;
        }
      }
    }
    void late(int n, double *a) {
      for (int i = 0; i < n; i++)
        for (int j = 0; j < i; j++) {
          double w = a[i * n + j];
          for (int k = 0; k < i; k++) w -= a[i * n + k] * a[k * n + j];
          a[i * n + j] = w;
        }
    }
"""


@pytest.mark.parametrize("name", ["factors", "roots", "sums"])
def test_a_solver_whose_rows_wait_for_each_other_goes_by_steps_that_do_not(name: str) -> None:
    draw = np.random.default_rng(0)
    square = draw.random((24, 24))
    decisions = _both_ways(FACTORS, name, 24, square @ square.T + 24 * np.eye(24))
    assert decisions[-1] == "iterations depend on earlier ones: launches"
    assert any(item.startswith("threads along j and i") or item == "threads along i"
               for item in decisions)  # fmt: skip


def test_a_sum_that_reads_where_it_will_go_is_no_sum_in_memory() -> None:
    square = np.random.default_rng(0).random((24, 24)) / 24
    assert _both_ways(FACTORS, "late", 24, square) == ("threads along nothing",)


def test_without_the_affine_part_each_nest_is_one_thread() -> None:
    host = cuda.load(LOOPS, defines=[f"N={SIZE}"], choices=Choices(affine=False)).host("product")
    host(*_arguments(host.function))
    assert all(item.endswith("threads along nothing") for item in host.decisions)


ACROSS_A_ROW = """
    void across(int n, const double *a, double *x) {
      for (int i = 1; i < n; i++)
        for (int j = 0; j < END; j++) x[i] -= a[i * n + j] * x[j];
    }
    void upwards(int n, const double *a, double *x) {
      for (int i = n - 2; i >= 0; i--)
        for (int j = n - 1; j > i; j--) x[i] -= a[i * n + j] * x[j];
    }
    void twice(int n, const double *a, double *x, double *y) {
      for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++) {
          x[i] += a[i * n + j] * 0.25;
          y[i] = a[j * n + i] + y[i] * 0.5;
        }
    }
"""


@pytest.mark.parametrize(
    ("name", "end", "carried"),
    [("across", "i", 1), ("across", "i + 1", 0), ("upwards", "i", 1), ("twice", "i", 2)],
)
def test_a_place_that_a_loop_comes_back_to_and_nothing_else_touches_is_carried(
    name: str, end: str, carried: int
) -> None:
    draw = np.random.default_rng(0)
    arrays = [draw.random((24, 24)) / 24, draw.random(24), draw.random(24)]
    text = ACROSS_A_ROW.replace("END", end)
    _both_ways(text, name, 24, *arrays[: 3 if name == "twice" else 2])
    function = cuda.load(text, choices=EXACT).host(name)
    pieces = {item.value: place for place, item in enumerate(function.function.parameters)}
    numbers = {function.function.parameters[0].value: ConstantOperand(24, ScalarType.I32)}
    kernels = affine.raised(function.function, numbers, pieces, "nest").kernels.values()
    loops = [item for kernel in kernels for item in walk(kernel.body) if isinstance(item, For)]
    assert max(len(item.carried) for item in loops) == carried


def test_a_loop_is_three_where_only_what_a_loop_around_it_is_at_needs_an_order() -> None:
    decisions = _decided("shortest_paths").split("; ")
    assert decisions == [
        *["threads along j and i"] * 9,
        "iterations depend on earlier ones: launches",
    ]
    # A turn that the loop may not have cannot be one of its parts.
    text = """
    void within(int n, double *a) {
      for (int k = 0; k < n; k++)
        for (int i = 1; i < n; i++)
          for (int j = 0; j < n; j++) a[i * n + j] += a[i * n + k] * a[k * n + j];
    }
    """
    draw = np.random.default_rng(0)
    assert _both_ways(text, "within", 16, draw.random((16, 16)) / 16) == ("threads along nothing",)
