from __future__ import annotations

import numpy as np
import pytest

from aiosearch.codegen.ir import LoopIndex, affine, index
from aiosearch.codegen.ir.affine_maps import ZERO
from aiosearch.codegen.ir.index_maps import Reshape, Transpose, Windows, broadcast_places
from aiosearch.codegen.ir.interpreter import interpret
from aiosearch.codegen.lower.lowering import lower
from aiosearch.tensor import Program, apply, tensor

GIVEN = np.arange(72.0).reshape(6, 12)
X = tensor("X", "f32", (6, 12))
MOVED = [
    (apply("reshape", X, shape=(2, 3, 4, 3)), GIVEN.reshape(2, 3, 4, 3)),
    (apply("reshape", X, shape=(8, 9)), GIVEN.reshape(8, 9)),
    (apply("reshape", X, shape=(1, 6, 1, 12, 1)), GIVEN.reshape(1, 6, 1, 12, 1)),
    (apply("transpose", X, axes=(1, 0)), GIVEN.T),
    (apply("slice", X, axis=1, start=2, stop=11, step=3), GIVEN[:, 2:11:3]),
    (apply("diagonal", apply("slice", X, axis=1, start=3, stop=9)), np.diagonal(GIVEN[:, 3:9])),
    (
        apply("broadcast", apply("slice", X, axis=0, start=3, stop=4), shape=(5, 12)),
        np.broadcast_to(GIVEN[3:4], (5, 12)),
    ),
]
I4, I3, I2 = LoopIndex("a", 4), LoopIndex("b", 3), LoopIndex("c", 2)


@pytest.mark.parametrize("number", range(len(MOVED)))
def test_elements_come_from_where_they_lie(number: int) -> None:
    """Each is another number, so that places are told apart."""
    term, wanted = MOVED[number]
    (found,) = interpret(lower(Program("p", (X,), (term,))), [GIVEN])
    assert np.array_equal(found, wanted)


def test_axes_that_a_reshape_leaves_stay_as_they_are() -> None:
    """The two in front are one, the last is read along its own index."""
    reshape = Reshape((12, 2), (4, 3, 2))
    at = (index(I4), index(I3), index(I2))
    assert reshape.places(at) == (affine({I4: 3, I3: 1}), index(I2))


def test_a_transpose_says_where_its_operand_is_read() -> None:
    at = (index(I4), index(I3), index(I2))
    assert Transpose((2, 0, 1)).places(at) == (index(I3), index(I2), index(I4))


def test_windows_are_read_by_their_place_and_what_is_in_them() -> None:
    assert Windows(0, 2, 3).places((index(I4), index(I2))) == (affine({I4: 2, I2: 3}),)


def test_operands_meet_in_axes_of_size_one() -> None:
    """A scalar meets everything."""
    at = (index(I4), index(I3))
    assert broadcast_places((4, 1), at) == (index(I4), ZERO)
    assert broadcast_places((), at) == ()
