"""What candidates are called."""

from __future__ import annotations

import pytest

from aiosearch.codegen.lower.lowering import lower
from aiosearch.codegen.passes.kernel_fusion import fuse_kernels
from aiosearch.optimizer import algebra
from aiosearch.optimizer.algebra.rules.registry import RULES
from aiosearch.optimizer.candidates.candidate_names import (
    PHRASES,
    DistinctNames,
    composed_name,
    kernels_name,
    rewrite_name,
    spelling_name,
)
from aiosearch.optimizer.candidates.spellings import ProductSpelling, Spelling
from aiosearch.tensor import Program, apply, tensor

X, W = tensor("x", "bf16", (8, 64)), tensor("w", "bf16", (64, 64))
NORM = apply("rms_norm", X)


def test_every_rule_has_words() -> None:
    assert algebra.improve
    assert {rule.name for rules in RULES.values() for rule in rules} == set(PHRASES)


@pytest.mark.parametrize(
    ("trail", "name"),
    [
        ((), "simplified"),
        (("scale_out_of_product",), "scale after the product"),
        (
            ("distributed", "common_factor", "common_factor"),
            "common factor taken out, factor distributed",
        ),
        (
            ("turned", "sum_of_product", "scale_out_of_product", "over_root"),
            "sum before the product, scale after the product, 2 more steps",
        ),
        (("sum", "mul"), "recomputed by sum and mul"),
    ],
)
def test_a_derivation_is_named_by_what_its_rules_do(trail: tuple[str, ...], name: str) -> None:
    assert rewrite_name(trail) == name


def test_a_spelling_names_the_products_that_it_is_about() -> None:
    program = Program("two", (X, W), ((X @ W) @ W,))
    both = frozenset((number, ProductSpelling.ACCUMULATE) for number in (0, 1))
    assert spelling_name(Spelling(both), program) == "f32 accumulation"
    second = Spelling(frozenset({(1, ProductSpelling.ACCUMULATE)}))
    assert spelling_name(second, program) == "f32 accumulation in product 2"
    assert spelling_name(Spelling(), program) == ""


def test_kernels_are_counted_and_say_what_they_read_packed() -> None:
    module = fuse_kernels(lower(Program("norm", (X, W), (NORM @ W,))))
    name = kernels_name(module.kernels, ["w"])
    assert name.endswith("fused kernels, w packed") or name == "one fused kernel, w packed"
    plain = lower(Program("product", (X, W), (X @ W,)))
    assert kernels_name(plain.kernels, kind="Pallas") == "one Pallas kernel"


def test_a_program_without_a_derivation_is_named_by_what_differs() -> None:
    scale = tensor("s", "bf16", (8, 1))
    before = Program("before", (X, W, scale), ((X * scale) @ W,))
    after = Program("after", (X, W, scale), ((X @ W) * scale,))
    assert composed_name(before, after) == "scale after the product"
    assert composed_name(after, before) == "scale before the product"
    spelled = Program("spelled", (X, W), (apply("relu", apply("relu", X)) @ W,))
    fewer = Program("fewer", (X, W), (apply("relu", X) @ W,))
    assert composed_name(spelled, fewer) == "1 fewer operation"


def test_equal_words_for_other_sources_are_numbered() -> None:
    names = DistinctNames()
    assert names.name("one kernel", "a") == "one kernel"
    assert names.name("one kernel", "b") == "one kernel (2)"
    assert names.name("one kernel", "a") == "one kernel"
