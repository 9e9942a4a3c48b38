"""What regions are given where a function is called with its user's arguments."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from testkit.programs.opaque import unread

from aiosearch.optimizer.trace import cut
from aiosearch.optimizer.trace.region_arguments import RegionArguments

X = jnp.asarray(np.random.default_rng(0).standard_normal((6, 6)), jnp.float32)


def arguments(function: Any, *args: Any) -> dict[str, tuple[Any, ...] | None]:
    """By the first operator of each region: what it is given."""
    made = cut(function, *args)
    given = RegionArguments(made, jax.tree_util.tree_leaves(args))
    return {
        next(term.operator.name for term in subject.program.terms() if term.arguments): given.of(
            subject
        )
        for subject in made.subjects
    }


def test_a_region_is_given_the_arguments_or_what_the_steps_before_it_make_of_them() -> None:
    def f(x: Any, y: Any) -> Any:
        return jnp.cos(unread(jnp.exp(x) @ y)) @ y

    given = arguments(f, X, X + 1)
    assert given["exp"] is not None
    assert given["cos"] is not None
    between = unread(jnp.exp(X) @ (X + 1))
    for wanted, inputs in ((X, given["exp"]), (between, given["cos"]), (X + 1, given["cos"])):
        assert any(np.allclose(value, wanted, rtol=1e-5) for value in inputs)


def test_types_alone_are_no_arguments() -> None:
    assert arguments(lambda x: jnp.exp(x) @ x, jax.ShapeDtypeStruct((6, 6), "float32")) == {
        "exp": None
    }


def test_a_function_with_effects_is_not_run_for_it() -> None:
    def f(x: Any) -> Any:
        jax.debug.print("{}", x.sum())
        return jnp.exp(x) @ x

    assert set(arguments(f, X).values()) == {None}


def test_half_types_are_given_in_their_working_type() -> None:
    (inputs,) = arguments(lambda x: jnp.exp(x) @ x, X.astype(jnp.bfloat16)).values()
    assert inputs is not None
    assert inputs[0].dtype == np.float32
    assert np.array_equal(inputs[0], X.astype(jnp.bfloat16).astype(jnp.float32))
