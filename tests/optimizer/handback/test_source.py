"""Code that stands alone: the whole function, or its parts and where they belong.

Trees as Python says them.
"""

from __future__ import annotations

import re
from collections import OrderedDict, namedtuple
from collections.abc import Iterable
from dataclasses import replace
from enum import Enum
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from answers import answer
from testkit.programs.opaque import unread

from aiosearch.devices import device
from aiosearch.optimizer.candidates.gpu_kernels import gpu_kernel_sources
from aiosearch.optimizer.candidates.jax_source import emit, names
from aiosearch.optimizer.errors import OptimizeError
from aiosearch.optimizer.handback.source import Source, path_expression, source, spelled
from aiosearch.optimizer.outcomes.answer import Answer, Packing
from aiosearch.optimizer.trace import Subject, cut
from aiosearch.tensor import Program

A = jnp.linspace(-1.0, 2.0, 36).reshape(6, 6)
B = jnp.cos(A)
W = jnp.sin(A)


def kept(subjects: Iterable[Subject]) -> dict[Subject, Answer]:
    """Answers that were found for other functions, which were all called h."""
    found = {}
    for one in subjects:
        own, _ = names(one.program)
        text = emit(one.program).replace(f"def {own}(", "def h(")
        found[one] = answer(name="h", function="h", source=text)
    return found


def run(text: str) -> dict[str, Any]:
    module: dict[str, Any] = {}
    exec(text, module)
    return module


def traced(a: Any, b: Any) -> Any:
    return jnp.trace(jnp.exp(b) @ a)


def parted(a: Any, b: Any) -> Any:
    first = unread(jnp.diagonal(jnp.exp(b) @ a))
    return jnp.tanh(unread(first @ W * first)) @ b


def test_of_one_piece_it_takes_the_functions_place() -> None:
    """Its name and the order of its arguments are the function's."""
    made = cut(traced, A, B)
    text = source(made, kept(made.subjects)).text
    assert "def traced(a, b):" in text
    assert text.startswith("# traced(")
    np.testing.assert_allclose(run(text)["traced"](A, B), traced(A, B), rtol=1e-5)


def test_results_come_in_the_functions_order() -> None:
    def f(x: Any, y: Any) -> Any:
        early = jnp.tanh(y @ x)
        return jnp.sum(early * y, axis=0), early

    made = cut(f, A, B)
    module = run(source(made, kept(made.subjects)).text)
    for found, wanted in zip(module["f"](A, B), f(A, B), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-5)


def test_where_nothing_is_kept_there_is_none() -> None:
    assert source(cut(traced, A, B), {}) == Source()


def test_parts_have_names_of_their_own_and_say_where_they_belong() -> None:
    made = cut(parted, A, B)
    text = source(made, kept(made.subjects)).text
    module, head = run(text), text.split("\n\n")[0].splitlines()
    assert [one for one in module if "parted" in one] == ["parted_1", "parted_2", "parted_3"]
    assert head[0] == "# Parts of parted(a, b), whose rest stays as it is written:"
    assert head[1].startswith("#   parted_1(a, b) at ")
    assert "test_source.py" in head[1]
    assert [line.partition(" at ")[0] for line in head[2:4]] == [
        "#   parted_2(_, *)", "#   parted_3(b, _)",
    ]  # fmt: skip
    assert text.count("import jax.numpy as jnp") == 1
    found = unread(module["parted_1"](A, B))
    found = unread(module["parted_2"](found, W))
    np.testing.assert_allclose(module["parted_3"](B, found), parted(A, B), rtol=1e-5)


def test_one_program_with_other_constants_is_a_part_of_its_own() -> None:
    def f(x: Any, w: Any) -> Any:
        return jnp.tanh(unread(jnp.tanh(x @ w)) @ W)

    made = cut(f, A, B)
    module = run(source(made, kept(made.subjects)).text)
    assert [one for one in module if one.startswith("f")] == ["f_1", "f_2"]


def test_only_what_is_kept_is_in_it() -> None:
    made = cut(parted, A, B)
    text = source(made, kept(made.subjects[1:2])).text
    assert "parted_2(_, *)" in text
    assert not {"parted_1", "parted_3"} & run(text).keys()


def test_a_function_with_an_array_that_is_closed_over_is_told_to_take_it() -> None:
    made = cut(lambda x: x @ W, A)
    text = source(made, kept(made.subjects)).text
    assert "lambda_(x, *) at " in text
    np.testing.assert_allclose(run(text)["lambda_"](A, W), A @ W, rtol=1e-5)


def test_functions_that_make_something_beforehand_are_renamed_with_it() -> None:
    text = """import jax.numpy as jnp


def h_pack(w):
    return (w.T,)


def h_packed(x, w_packed):
    return x @ w_packed.T


def h(x, w):
    return x @ w
"""
    made = cut(lambda x, w: x @ w, A, W, constant_argnums=1)
    packed = answer(
        name="h", function="h", source=text, packing=Packing((1,), "h_pack", "h_packed"),
        evidence={"packed_bytes": 144},
    )  # fmt: skip
    found = source(made, {made.subjects[0]: packed}).text
    name, _ = names(made.subjects[0].program)
    assert f"packed = {name}_pack(w)" in found
    module = run(found)
    (packed_w,) = module[f"{name}_pack"](W)
    for way in (module[name](A, W), module[f"{name}_packed"](A, packed_w)):
        np.testing.assert_allclose(way, A @ W, rtol=1e-5)


def of_kernels(program: Program) -> Answer:
    """As it is found for a program of another name, whose kernels have that name too."""
    found = gpu_kernel_sources(replace(program, name="h"), device("H200"), 2)
    one = min(found, key=lambda one: one.source.count("pl.pallas_call"))
    assert one.function == "h"
    return answer(name="h", function="h", source=one.source)


def test_it_is_called_by_the_functions_own_names() -> None:
    """Whatever the function had that the answer was found for, and what Python has."""

    def second(input: Any, a: Any) -> Any:
        return jnp.trace(jnp.exp(a) @ input)

    before, made = cut(traced, A, B), cut(second, A, B)
    assert before.subjects[0] != made.subjects[0]
    text = source(made, dict(zip(made.subjects, kept(before.subjects).values(), strict=True))).text
    assert "def second(input, a):" in text
    np.testing.assert_allclose(run(text)["second"](a=B, input=A), traced(A, B), rtol=1e-5)


def test_what_is_made_beforehand_has_the_functions_own_names_too() -> None:
    text = """
def h(x, w):
    return x @ w


def h_pack(w):
    return (w.T,)


def h_packed(x, w_packed):
    return x @ w_packed.T
"""
    packing = Packing((1,), "h_pack", "h_packed")

    def product(b: Any, x: Any) -> Any:
        return b @ x

    made = cut(product, A, B)
    one = answer(name="h", function="h", source=text, packing=packing, evidence={"packed_bytes": 1})
    found = source(made, dict.fromkeys(made.subjects, one)).text
    assert "packed = product_pack(x), which" in found
    assert "then product_packed(b, *packed) is the fastest, and product(b, x) otherwise" in found
    module = run(found)
    packed = module["product_pack"](x=B)
    np.testing.assert_allclose(module["product_packed"](A, *packed), A @ B, rtol=1e-5)


def test_kernels_of_one_name_do_not_hide_each_other() -> None:
    """Two answers of Pallas kernels, whose kernels are called the same, in one file."""

    def f(x: Any, y: Any) -> Any:
        first = unread(jnp.tanh(x) @ y)
        return {"y": jnp.cos(first) @ y / jnp.sum(first, axis=1, keepdims=True)}

    x, y = (jnp.tile(one, (3, 3))[:16, :16] for one in (A, B))
    made = cut(f, x, y)
    assert len(made.subjects) > 1
    text = source(made, {one: of_kernels(one.program) for one in made.subjects}).text
    module = run(text)
    kernels = [name for name in module if re.fullmatch(r"_f_\d+_(\d+|kernel)", name)]
    assert len(kernels) == text.count("pl.pallas_call(")
    assert sorted(f'"{name[1:]}"' for name in kernels) == sorted(re.findall(r'name=(".*")', text))
    for number, subject in enumerate(made.subjects, 1):
        inputs = [x if at == 0 else y for at in range(len(subject.program.inputs))]
        wanted = run(emit(subject.program))[names(subject.program)[0]](*inputs)
        found = module[f"f_{number}"](*inputs, interpret=True)
        np.testing.assert_allclose(found, wanted, rtol=2e-3, atol=1e-3)


Point = namedtuple("Point", ["x", "y"])


class Side(Enum):
    """A key that its own text does not give back."""

    LEFT = 1


def said(tree: Any) -> list[str]:
    found, structure = jax.tree.flatten(tree)
    return spelled(structure, [f"v{one}" for one in found])


@pytest.mark.parametrize(
    ("tree", "text"),
    [
        (1, "v1"),
        (None, "None"),
        ((), "()"),
        ((1,), "(v1,)"),
        ([1, (2, {})], "[v1, (v2, {})]"),
        ({"a (b, c": 1, "d": [None]}, "{'a (b, c': v1, 'd': [None]}"),
        ({(1, "x"): 2}, "{(1, 'x'): v2}"),
    ],
)
def test_a_tree_is_told_as_it_is_written(tree: Any, text: str) -> None:
    assert said(tree) == [text]


def test_a_large_tree_takes_several_lines() -> None:
    tree = {f"key {number:03}": list(range(number)) for number in range(20)}
    lines = said(tree)
    assert len(lines) > 1
    assert max(map(len, lines)) < 90
    numbers = {f"v{one}": one for one in range(20)}
    assert eval("\n".join(lines), numbers) == tree


@pytest.mark.parametrize(
    ("tree", "why"),
    [
        ([Point(1, 2)], "of the type Point"),
        (OrderedDict(a=1), "of the type OrderedDict"),
        ({Side.LEFT: 1}, "<Side.LEFT: 1> is a key of a dict"),
    ],
)
def test_what_is_no_text_is_named(tree: Any, why: str) -> None:
    with pytest.raises(OptimizeError, match=why):
        said(tree)


def test_the_way_to_a_leaf_takes_it_from_its_tree() -> None:
    tree = {"a": [1, Point(2, (3, {"b": 4}))], 5: 6}
    for path, leaf in jax.tree_util.tree_flatten_with_path(tree["a"])[0]:
        assert eval(f"tree{path_expression(path)}", {"tree": tree["a"]}) == leaf
