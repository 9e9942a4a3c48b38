"""A function as one text: whatever it takes and gives, the text does so too."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from answers import answer
from testkit.programs.opaque import unread

from aiosearch.optimizer.candidates.jax_source import emit, names
from aiosearch.optimizer.handback.source import Source, source
from aiosearch.optimizer.trace import cut

A = jnp.linspace(-1.0, 2.0, 36).reshape(6, 6)
B = jnp.cos(A)
W = jnp.sin(A)
SMALL = np.array([1.5, -np.inf, 0.1, np.nan], np.float16)
Point = namedtuple("Point", ["x", "y"])


def written(function: Callable[..., Any], *args: Any, **options: Any) -> Source:
    """With an answer for everything that can be searched, each of them called h."""
    made = cut(function, *args, **options)
    kept = {}
    for one in made.subjects:
        own, _ = names(one.program)
        text = emit(one.program).replace(f"def {own}(", "def h(")
        kept[one] = answer(name="h", function="h", source=text)
    return source(made, kept)


def defined(text: str) -> dict[str, Any]:
    module: dict[str, Any] = {}
    exec(text, module)
    return module


def norm(x: Any) -> Any:
    return x / jnp.sqrt(jnp.mean(x * x, axis=-1, keepdims=True))


def as_dict(x: Any, y: Any) -> Any:
    return {"product": norm(x) @ y, "both (x, y)": [norm(y), None], "z": ((norm(x),), {})}


def as_list(x: Any, y: Any) -> Any:
    return [norm(x) @ y, jnp.sum(y)]


def as_one_of_a_tuple(x: Any, y: Any) -> Any:
    return (norm(x) @ y,)


def with_an_input(x: Any, y: Any) -> Any:
    return norm(x) @ y, x


def with_constants(x: Any, y: Any) -> Any:
    given = {
        "one": 1,
        "half": 0.5,
        "endless": float("inf"),
        "yes": True,
        "small": SMALL,
        "zeros": jnp.zeros((2, 3)),
    }
    return norm(x) @ y, given, jnp.arange(4, dtype=jnp.int32), jnp.asarray(2, jnp.bfloat16)


def twice_the_same(x: Any, y: Any) -> Any:
    found = norm(x) @ y
    return found, {"again": found}


def with_whole_numbers(x: Any, y: Any) -> Any:
    return {"scores": norm(x) @ y, "above": x > y, "whole": (x * 10).astype(jnp.int32)}


@pytest.mark.parametrize(
    "function",
    [
        as_dict,
        as_list,
        as_one_of_a_tuple,
        with_an_input,
        with_constants,
        twice_the_same,
        with_whole_numbers,
    ],
)
def test_results_have_the_structure_of_the_functions(function: Callable[..., Any]) -> None:
    """And the values, in the same types, whatever they are made of."""
    found = written(function, A, B)
    assert found.lacks == ""
    same(defined(found.text)[function.__name__](A, B), function(A, B))


def same(found: Any, wanted: Any) -> None:
    assert jax.tree.structure(found) == jax.tree.structure(wanted)
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
        assert jax.typeof(one) == jax.typeof(jnp.asarray(other))
        np.testing.assert_allclose(one, other, rtol=1e-5)


def test_arguments_are_taken_in_the_trees_in_which_they_come() -> None:
    def f(params: Any, x: Any, *, scales: Any) -> Any:
        first, (second, _) = params["layers"]
        return {"y": norm(x @ first["w"]) @ second + params["a b"] * scales[0]}

    args = {"layers": [{"w": A}, (B, None)], "a b": W}, A
    found = written(f, *args, kwargs={"scales": [B]})
    assert found.lacks == ""
    assert "def f(params, x, *, scales):" in found.text
    same(defined(found.text)["f"](*args, scales=[B]), f(*args, scales=[B]))


def test_what_a_program_has_itself_is_not_written_again() -> None:
    """A trace picks its elements by places that are known beforehand."""
    found = written(lambda x: {"trace": jnp.trace(x @ x)}, A)
    assert found.text.count("\ndef ") == 2
    assert found.lacks == ""


def test_static_arguments_are_no_parameters() -> None:
    def f(x: Any, how: str, y: Any) -> Any:
        return {how: norm(x) @ y}

    found = written(f, A, "product", B, static_argnums=1)
    assert "def f(x, y):" in found.text
    same(defined(found.text)["f"](A, B), f(A, "product", B))


def test_what_is_left_as_it_was_stands_between_the_parts() -> None:
    """Only the first of two programs is replaced; the other one says that it is not."""

    def f(x: Any, y: Any) -> Any:
        first = norm(x) @ y
        return norm(first) @ y, y

    made = cut(f, A, B, largest=6)
    assert len(made.subjects) > 1
    own, _ = names(made.subjects[0].program)
    text = emit(made.subjects[0].program).replace(f"def {own}(", "def h(")
    found = source(made, {made.subjects[0]: answer(name="h", function="h", source=text)})
    assert found.lacks == ""
    assert found.text.count(" as it was written\n") == len(made.subjects) - 1
    same(defined(found.text)["f"](A, B), f(A, B))


def test_long_lines_are_folded() -> None:
    names = [f"a_rather_long_name_of_an_array_{number}" for number in range(6)]

    def f(**given: Any) -> Any:
        w = given.pop("w")
        return {name: norm(one) @ w for name, one in given.items()}

    found = written(f, kwargs=dict.fromkeys(names, B) | {"w": A})
    assert found.lacks == ""
    assert max(map(len, found.text.splitlines())) <= 100


@pytest.mark.parametrize(
    ("function", "why"),
    [
        (
            lambda x: Point(norm(x) @ x, x),
            "a part of its result is of the type Point, and no dict, list or tuple",
        ),
        (lambda x: (norm(x) @ W, x), "it closes over an array, float32[6,6]"),
        (lambda x: unread(norm(x) @ x), "reduce_precision at "),
        (
            lambda x: (norm(x) @ x, jax.lax.fori_loop(0, 3, lambda _, y: y @ y, x)),
            "a part of it stands in a scan",
        ),
        (
            lambda x: {Fraction(1, 2): norm(x) @ x},
            "Fraction(1, 2) is a key of a dict, and no text says it",
        ),
    ],
)
def test_what_has_no_text_is_named_and_the_parts_are_there(
    function: Callable[..., Any], why: str
) -> None:
    found = written(function, A)
    assert found.lacks.startswith(why)
    assert f"# It is not here as a whole: {found.lacks}.\n" in found.text
    assert "whose rest stays as it is written" in found.text
    assert defined(found.text)


def test_a_function_without_results_has_no_parts() -> None:
    assert written(lambda x: None, A) == Source()
