"""Barriers go where their neighbours order all they order; values are stored where they must be."""

from __future__ import annotations

import pytest

from aiosearch.cuda.compiled.lowering import Choices
from aiosearch.cuda.ir.operations import IrValue
from aiosearch.cuda.ir.text import parsed, printed
from aiosearch.cuda.ir.types import ScalarType
from aiosearch.cuda.ir.verifier import verify
from aiosearch.cuda.modules import load
from aiosearch.cuda.passes.barriers import barriers, without_needless
from aiosearch.cuda.passes.minimum_cut import Policy, minimum_cut
from aiosearch.cuda.passes.simplification import specialized

HEAD = "__global__ void k(int *a) {\n  __shared__ int s[64];\n  int t = threadIdx.x;\n"


def _remaining(body: str) -> int:
    function = load(f"{HEAD}{body}\n}}\n").k.function
    return barriers(without_needless(specialized(function, (64, 1, 1)), (64, 1, 1))[0])


KEPT = {
    "own element": ("s[t] = a[t]; __syncthreads(); a[t] = s[t];", 0),
    "another's element": ("s[t] = a[t]; __syncthreads(); a[t] = s[63 - t];", 1),
    "a read before a write": (
        "s[t] = a[t]; __syncthreads(); int x = s[63 - t]; __syncthreads(); s[t] = x;",
        2,
    ),
    "two in a row": ("s[t] = a[t]; __syncthreads(); __syncthreads(); a[t] = s[63 - t];", 1),
    "the last of a kernel": ("a[t] = 1; __syncthreads();", 0),
    "all that order nothing": (
        "s[t] = a[t]; __syncthreads(); s[t] += 1; __syncthreads(); a[t] = s[63 - t];",
        1,
    ),
    "a store of one thread": (
        "if (t == 0) s[0] = a[0]; __syncthreads(); a[t] = s[0];",
        1,
    ),
    "both of a loop": (
        "for (int i = 0; i < 3; i++) { s[t] = i; __syncthreads(); a[t] += s[63 - t];"
        " __syncthreads(); }",
        2,
    ),
}


@pytest.mark.parametrize(("body", "count"), KEPT.values(), ids=KEPT.keys())
def test_a_barrier_goes_only_where_it_orders_nothing(body: str, count: int) -> None:
    assert _remaining(body) == count


def test_a_minimum_cut_stores_the_value_that_the_others_come_from() -> None:
    loaded, first, second = (IrValue(number, ScalarType.F32) for number in range(3))
    graph: dict[IrValue, list[IrValue]] = {loaded: [], first: [loaded], second: [loaded]}
    assert minimum_cut(graph, {loaded}, {first, second}) == {loaded}


def test_a_minimum_cut_counts_bytes() -> None:
    wide, narrow = IrValue(0, ScalarType.F64), IrValue(1, ScalarType.F32)
    assert minimum_cut({wide: [], narrow: [wide]}, {wide}, {narrow}) == {narrow}


def test_what_follows_from_indices_is_computed_again_instead_of_stored() -> None:
    body = "int i = t * 3 + 1; s[t] = a[t]; __syncthreads(); a[i % 64] = s[63 - t] + i;"
    text = f"{HEAD}{body}}}\n"
    stored = {
        policy: load(text, choices=Choices(policy=policy)).k[1, 64].lower().stored
        for policy in Policy
    }
    assert len(stored[Policy.CUT]) == 0
    assert len(stored[Policy.STORE]) > 0


LOOP = f"""{HEAD}
  float x = 0; int own[4] = {{t}};
  for (int i = 0; i < a[0]; i++) {{
    if (i > 3) break;
    s[t] = i; __syncthreads(); x += s[63 - t] * 0.5f; own[i] = x; __syncthreads();
  }}
  while (x > 1) {{ x /= 2; if (x < 0.1f) continue; atomicAdd(&a[t], own[t & 3]); }}
  printf("%d \\"%g\\"\\n", t, x);
}}
"""


def test_the_text_form_reads_back_to_what_was_printed() -> None:
    launch = load(LOOP).k[1, 64]
    for function in (load(LOOP).k.function, launch.lower().after):
        text = printed(function)
        assert printed(parsed(text)) == text


def test_every_stage_of_the_lowering_defines_what_it_uses() -> None:
    low = load(LOOP).k[1, 64].lower()
    for function in (low.before, low.after):
        verify(function)
