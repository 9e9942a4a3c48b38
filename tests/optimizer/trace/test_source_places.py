"""Where in the user's code equations come from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp

from aiosearch.optimizer.outcomes.function_parts import OUTSIDE, SourcePlace, function_parts
from aiosearch.optimizer.trace.source_places import source_places
from aiosearch.optimizer.trace.traced import cut

X = jnp.ones((8, 8))
MODEL = """\
import jax, jax.numpy as jnp

def block(x, w):
    h = jnp.tanh(x @ w)
    return jax.nn.softmax(h) * 2

def model(x, w):
    for _ in range(3):
        x = block(x, w)
    x = jax.lax.reduce_precision(x, 8, 23)
    return jnp.exp(x) @ w

def looped(x, w):
    return jax.lax.scan(lambda c, _: (block(c, w), None), x, None, length=5)[0]
"""


def functions(folder: Path) -> dict[str, Any]:
    path = folder / "model.py"
    path.write_text(MODEL)
    scope: dict[str, Any] = {}
    exec(compile(MODEL, str(path), "exec"), scope)
    return scope


def test_equations_have_the_lines_of_the_function_that_wrote_them(tmp_path: Path) -> None:
    """Also where a library's function stands between: a softmax has the line that calls it."""
    blocks, head, outside = function_parts(cut(functions(tmp_path)["model"], X, X))
    file = str(tmp_path / "model.py")
    assert (blocks.name, blocks.occurrences) == ("model", 3)
    assert blocks.places == (SourcePlace(file, "block", 4, 5),)
    assert str(head.places[0]) == "model.py:11 (model)"
    assert (outside.name, outside.operations) == (OUTSIDE, ("reduce_precision",))


def test_a_part_in_a_loop_runs_as_often_as_the_loop_does(tmp_path: Path) -> None:
    step, *_ = function_parts(cut(functions(tmp_path)["looped"], X, X))
    assert step.occurrences == 5
    assert step.places[0].function == "block"


def test_what_jax_knows_no_line_of_has_no_place() -> None:
    assert source_places([]) == ()
    scope: dict[str, Any] = {"jnp": jnp}
    exec("def f(x): return jnp.exp(x) @ x", scope)
    part, *_ = function_parts(cut(scope["f"], X))
    assert all(isinstance(place, SourcePlace) for place in part.places)
    assert jax.numpy is jnp
