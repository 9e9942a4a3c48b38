"""C++ keeps its meaning on the way to the IR: conversions, jumps, references, short circuits."""

from __future__ import annotations

import numpy as np
import pytest

from aiosearch.cuda.errors import UnsupportedConstruct
from aiosearch.cuda.modules import load

PROGRAMS = {
    "a product with a double is computed in doubles": (
        "float x = 0.1f; a[t] = (x * 3.0 == 0.3f) ? 1 : (int)(x * 3.0 * 1e9 - 3e8);",
        lambda t: int(float(np.float32(0.1)) * 3.0 * 1e9 - 3e8),
    ),
    "unsigned numbers wrap": (
        "unsigned x = t; x -= 5; a[t] = (int)(x >> 1);",
        lambda t: ((t - 5) % 2**32) >> 1,
    ),
    "a comparison of a signed and an unsigned number is unsigned": (
        "a[t] = (int)t - 3 < 2u;",
        lambda t: int((t - 3) % 2**32 < 2),
    ),
    "characters are signed and promoted": (
        "signed char c = t * 100; a[t] = c + 1;",
        lambda t: ((t * 100 + 128) % 256 - 128) + 1,
    ),
    "division goes towards zero": ("a[t] = (t - 4) / 3 * 10 + (t - 4) % 3;", None),
    "an increment behind gives the value before": (
        "int x = t; int y = x++ + ++x; a[t] = x * 100 + y;",
        lambda t: (t + 2) * 100 + 2 * t + 2,
    ),
    "the right of && is not done where the left is false": (
        "int x = 0; if (t > 3 && ++x) x += 10; a[t] = x;",
        lambda t: 11 if t > 3 else 0,
    ),
    "continue and break": (
        "int x = 0; for (int i = 0; i < 10; i++) { if (i == t) continue; if (i > 6) break;"
        " x += i; }"
        " a[t] = x;",
        lambda t: sum(i for i in range(7) if i != t),
    ),
    "a do loop runs once at least": (
        "int x = 0, i = 5; do { x += i; i++; } while (i < t); a[t] = x;",
        lambda t: sum(range(5, max(t, 6))),
    ),
    "a switch falls through": (
        "int x = 0; switch (t) { case 1: x += 1; case 2: x += 2; break; default: x = 9;"
        " case 5: x += 5; } a[t] = x;",
        lambda t: {1: 3, 2: 2, 5: 5}.get(t, 14),
    ),
    "a reference is the variable": (
        "int x = t; int &r = x; r += 5; bump(x); a[t] = x * r;",
        lambda t: (t + 15) ** 2,
    ),
    "a pointer to a variable changes it": (
        "int x = t; int *p = &x; *p *= 3; a[t] = x;",
        lambda t: 3 * t,
    ),
    "a function returns from its middle": ("a[t] = middle(t);", lambda t: -1 if t < 3 else t * 2),
    "a method changes its object": (
        "Counter c(t); c.add(4); c.add(1); a[t] = c.total * 10 + c.calls;",
        lambda t: (t + 5) * 10 + 2,
    ),
    "an array in a struct": (
        "Table q; for (int i = 0; i < 4; i++) q.cells[i] = i * t; Table r = q; r.cells[1] = 7;"
        " a[t] = q.cells[t & 3] * 100 + r.cells[t & 3];",
        lambda t: (t & 3) * t * 100 + (7 if (t & 3) == 1 else (t & 3) * t),
    ),
    "bits are reinterpreted": ("a[t] = __float_as_int(1.0f) >> 23;", lambda t: 127),
    "bits are counted": (
        "a[t] = __popc(t) * 1000 + __clz(t) * 10 + __ffs(t);",
        lambda t: t.bit_count() * 1000 + (32 - t.bit_length()) * 10 + ((t & -t).bit_length()),
    ),
    "a float that is too large becomes the largest number": ("a[t] = (int)(t * 1e10f);", None),
    "a half is rounded": (
        "__half h = (__half)(t + 0.1f); a[t] = (int)((float)h * 10000);",
        lambda t: int(np.float32(np.float16(np.float32(t) + np.float32(0.1))) * np.float32(10000)),
    ),
    "a loop downwards": (
        "int x = 0; for (int i = t; i >= 0; i -= 2) x = x * 3 + i; a[t] = x;",
        None,
    ),
    "a variable that a loop counts with holds what ended it": (
        "int i, j = 7, s = 0; for (i = 1; i < t; i += 3) s += i; for (j = i; j > 0; --j) s += 10;"
        " unsigned u; for (u = 9; u <= 2u; u++) s++; a[t] = s * 100 + i * 10 + j + (int)u;",
        lambda t: _counted(t),
    ),
    "a variable that counts in an inner loop is there behind the outer one": (
        "int i, j = -1; for (i = 0; i < t - 2; i++) for (j = i; j < 5; j += 2) a[t] = j;"
        " a[t] = i * 100 + j;",
        lambda t: max(t - 2, 0) * 100 + (-1 if t < 3 else 5 + t % 2),
    ),
}


def _counted(t: int) -> int:
    values = range(1, t, 3)
    i = values[-1] + 3 if values else 1
    return (sum(values) + 10 * i) * 100 + i * 10 + 0 + 9


DEVICE = """
struct Counter {
  int total, calls;
  __device__ Counter(int start) : total(start), calls(0) {}
  __device__ void add(int n) { total += n; calls++; }
};
struct Table { int cells[4]; };
__device__ void bump(int &x) { x += 10; }
__device__ int middle(int t) { if (t < 3) return -1; return t * 2; }
"""


@pytest.mark.parametrize("name", PROGRAMS)
def test_cpp_keeps_its_meaning(name: str) -> None:
    body, expected = PROGRAMS[name]
    module = load(f"{DEVICE}__global__ void k(int *a) {{ int t = threadIdx.x; {body} }}\n")
    ours, theirs = np.full(8, -7, np.int32), np.full(8, -7, np.int32)
    module.k[1, 8](ours)
    module.k[1, 8].interpret(theirs)
    np.testing.assert_array_equal(ours, theirs)
    if expected is not None:
        assert ours.tolist() == [expected(t) for t in range(8)]


def test_an_array_as_a_parameter_is_a_pointer_to_its_first_row() -> None:
    text = """
    __device__ double at(const double row[4], int j) { return row[j]; }
    __global__ void k(double a[3][4], const double b[][4], double c[]) {
      a[threadIdx.x][1] = at(b[threadIdx.x], 2) + c[0];
    }
    void hosted(double a[3][4], double b[][4], double *c) {
      for (int i = 0; i < 3; i++) a[i][3] = b[i][i];
      k<<<1, 3>>>(a, b, c);
    }
    void variable(int n, double a[n][n]) { a[0][0] = 1; }
    """
    module = load(text)
    a, b = np.zeros((3, 4)), np.arange(12.0).reshape(3, 4)
    module.hosted(a, b, np.ones(1))
    np.testing.assert_array_equal(a, [[0, 3, 0, 0], [0, 7, 0, 5], [0, 11, 0, 10]])
    with pytest.raises(UnsupportedConstruct, match="rows of a variable length"):
        module.variable(2, a)


def test_infinities_and_nan_are_numbers() -> None:
    text = """
    __global__ void k(float *a, double *b) {
      a[0] = -INFINITY; a[1] = NAN; a[2] = fmaxf(-INFINITY, 2.0f); b[0] = CUDART_INF;
    }"""
    for run in ("__call__", "interpret"):
        a, b = np.zeros(3, np.float32), np.zeros(1)
        getattr(load(text).k[1, 1], run)(a, b)
        np.testing.assert_array_equal(a, [-np.inf, np.nan, 2])
        np.testing.assert_array_equal(b, np.inf)
