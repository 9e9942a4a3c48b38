from __future__ import annotations

import random
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given as drawn
from hypothesis import settings
from hypothesis import strategies as st
from testkit.superoptimizer.labelled_expressions import (
    LABELS,
    SIZES,
    Array,
    Expr,
    draw,
    form,
    given,
    number,
    plain,
    rewrites,
    worth,
)

from aiosearch.superoptimizer.algebra.normal_form import BITS, GRID, LOOP, REST, WHOLE, NormalForms

ROW, COLUMN = LABELS[:2]
X, Y, Z, W = given("X", ROW), given("Y", COLUMN), given("Z", ROW | COLUMN), given("W", 0)
GIVEN = (X, Y, Z, W)


def _larger(inner: st.SearchStrategy[Expr]) -> st.SearchStrategy[Expr]:
    return st.one_of(
        st.tuples(st.sampled_from(("add", "mul", "mul", "div")), inner, inner),
        st.tuples(st.sampled_from(("exp", "sqrt", "silu")), inner),
        st.tuples(st.just("sum"), st.sampled_from((ROW, COLUMN)), inner),
    )


EXPRESSIONS = st.recursive(st.sampled_from(GIVEN), _larger, max_leaves=7)


@settings(max_examples=150)
@drawn(st.data(), EXPRESSIONS.filter(plain))
def test_what_the_axioms_make_of_an_expression_has_its_form(
    data: st.DataObject, expr: Expr
) -> None:
    """Commuted, distributed, pulled out of sums that are pulled apart: it is one number."""
    forms = NormalForms(SIZES)
    first = form(forms, expr)
    for _ in range(5):
        ways = [new for new in rewrites(expr) if plain(new)]
        if ways:
            expr = data.draw(st.sampled_from(ways))
            assert form(forms, expr) == first


def _pairs(one: Expr, two: Expr) -> Iterator[Expr]:
    return ((name, one, two) for name in ("add", "sub", "mul", "div"))


def _grown(expr: Expr) -> Iterator[Expr]:
    yield from ((name, expr) for name in ("exp", "sqrt", "silu"))
    for mask in (ROW, COLUMN, GRID, LOOP | REST):
        yield from ((name, mask, expr) for name in ("sum", "largest"))


def _crowd(seed: int) -> list[Expr]:
    """All small expressions, and many larger ones."""
    source = random.Random(seed)
    leaves = [*GIVEN, number(2)]
    small = [
        *leaves,
        *(new for one in leaves for new in _grown(one)),
        *(new for one in leaves for two in leaves for new in _pairs(one, two)),
    ]
    middle = [new for one in small for new in _grown(one)]
    for _ in range(500):
        middle += _pairs(source.choice(small), source.choice(small))
    large = [new for one in source.sample(middle, 100) for new in _grown(one)]
    for _ in range(500):
        large += _pairs(source.choice(middle), source.choice(middle))
    return [*small, *middle, *large]


def _alike(one: Array, two: Array) -> bool:
    one, two = np.broadcast_arrays(one, two)
    finite = np.isfinite(one) & np.isfinite(two)
    return np.allclose(one[finite], two[finite], rtol=1e-9, atol=1e-9)


def test_equal_forms_are_equal_values() -> None:
    """Of thousands of expressions, none has the form of one that is worth something else."""
    generator = np.random.default_rng(0)
    inputs = {one[1]: draw(one, generator, low=-1) for one in GIVEN}
    forms = NormalForms(SIZES)
    first: dict[int, Array] = {}
    crowd = _crowd(seed=1)
    for expr in crowd:
        found = worth(expr, inputs)
        assert _alike(first.setdefault(form(forms, expr), found), found)
    assert len(crowd) - len(first) > 500


@pytest.mark.parametrize(
    ("one", "two"),
    [
        (("mul", X, Y), ("add", X, Y)),
        (("sum", ROW, Z), ("sum", COLUMN, Z)),
        (("sum", GRID, Z), ("sum", ROW, Z)),
        (("sum", ROW, Z), ("largest", ROW, Z)),
        (("mul", ("sum", ROW, X), ("sum", ROW, Z)), ("sum", ROW, ("mul", X, Z))),
        (("sqrt", ("mul", X, X)), X),
        (("sqrt", ("mul", ("silu", X), ("silu", X))), ("silu", X)),
        (("div", ("mul", X, Y), Y), X),
        (("exp", ("sum", ROW, X)), ("sum", ROW, ("exp", X))),
    ],
)
def test_what_is_not_the_same_has_another_form(one: Expr, two: Expr) -> None:
    """Sums over other indices, the sign under a root, what might be cancelled."""
    forms = NormalForms(SIZES)
    assert form(forms, one) != form(forms, two)


def test_a_sum_of_what_does_not_depend_on_its_index_is_a_multiple() -> None:
    """A whole label is a number; a part of one is not, and parts make a whole."""
    forms = NormalForms(SIZES)
    assert form(forms, ("sum", ROW, Y)) == form(forms, ("mul", number(SIZES[0]), Y))
    parts = form(forms, ("sum", GRID, ("sum", LOOP | REST, Y)))
    assert parts == form(forms, ("sum", ROW, Y))
    assert form(forms, ("sum", GRID, Y)) != form(forms, ("sum", LOOP, Y))


def test_a_form_knows_its_indices() -> None:
    """Those it depends on, and those it sums over anywhere."""
    forms = NormalForms(SIZES)
    one = form(forms, ("silu", ("div", Y, ("sum", ROW, Z))))
    assert forms.free(one) == COLUMN
    assert forms.bound(one) == ROW
    assert ROW.bit_count() == BITS


def test_a_form_knows_the_tensors_that_it_is_made_of() -> None:
    """However deep they are in it, and not those that went away."""
    forms = NormalForms([4])
    x, y, p, q, r = (forms.tensor(name, WHOLE) for name in "xypqr")
    inner = forms.divide(forms.sum(forms.multiply(x, y), WHOLE), forms.add(p, forms.call("f", q)))
    assert forms.inputs(forms.largest(forms.exp(inner), WHOLE)) == {*"xypq"}
    assert forms.inputs(forms.add(inner, forms.subtract(r, r))) == {*"xypq"}
    assert forms.inputs(forms.one) == frozenset()


def test_a_root_that_both_factors_share_is_multiplied_out() -> None:
    """The square of a root of a sum is that sum, in however long a product."""
    forms = NormalForms([4])
    x, y, p, q, r = (forms.tensor(name, WHOLE) for name in "xypqr")
    root = forms.sqrt(forms.add(x, y))
    three = forms.add(forms.add(p, q), r)
    long = forms.multiply(root, three)
    square = forms.multiply(three, three)
    assert forms.multiply(long, long) == forms.multiply(forms.add(x, y), square)
