from __future__ import annotations

from aiosearch.optimizer.candidates.jax_source import emit
from aiosearch.optimizer.candidates.spellings import ProductSpelling, Spelling, spellings
from aiosearch.tensor import Program, tensor
from aiosearch.tensor.programs import builtin


def test_a_half_type_row_has_its_best_spelling_first() -> None:
    """Two rows, added up in 32 bits, come before what XLA makes of the plain product."""
    first, *others = spellings(builtin("rms_norm", "bf16", row=1))
    assert first == Spelling(
        frozenset({(0, ProductSpelling.ACCUMULATE), (0, ProductSpelling.TWO_ROWS)})
    )
    assert Spelling() in others
    source = emit(builtin("rms_norm", "bf16", row=1), first)
    assert "jnp.pad(" in source
    assert "preferred_element_type=jnp.float32" in source


def test_single_precision_has_nothing_to_choose() -> None:
    """Rows of 32 bits are written as they are."""
    assert list(spellings(builtin("rms_norm", "f32", row=1))) == [Spelling()]


def test_products_are_chosen_for_together_and_alone() -> None:
    """Each of two products may be the only one that is accumulated."""
    found = list(spellings(builtin("gated_mlp", "bf16", row=8)))
    assert [len(one.choices) for one in found] == [2, 0, 1, 1]
    assert len(set(found)) == len(found)


def test_a_transposed_factor_may_be_turned() -> None:
    """The product of the transposes, transposed, has the other factor in its order."""
    a, b = tensor("a", "f32", (8, 8)), tensor("b", "f32", (8, 8))
    turned = Program("f", (a, b), (a @ b,))
    assert list(spellings(turned)) == [Spelling()]
    one = Spelling(frozenset({(0, ProductSpelling.TRANSPOSED)}))
    assert emit(turned, one) == "def f(a, b):\n    return (b.mT @ a.mT).mT\n"
    assert str(one) == "turned 0"
    assert str(Spelling()) == "as it is"
