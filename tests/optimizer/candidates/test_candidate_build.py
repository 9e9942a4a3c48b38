"""What contenders are timed on that make something of drawn inputs beforehand."""

from __future__ import annotations

import numpy as np

from aiosearch.measure import ArrayType, Failure, JaxExecutor, Way
from aiosearch.measure.random_inputs import draw
from aiosearch.optimizer.candidates.candidate_build import PrepackedInputs
from aiosearch.optimizer.candidates.generation import CandidateSource, Prepacking
from aiosearch.optimizer.jax_settings import current_settings
from aiosearch.tensor import DType, Program, tensor

X, W = tensor("X", DType.F32, (2, 3)), tensor("W", DType.F32, (3, 4))
PROGRAM = Program("own", (X, W), (X @ W,))


def contender(made: str, dtype: str, how: str = "") -> CandidateSource:
    source = f"""
import jax.numpy as jnp

def own_pack(W):
    return ({made},)

def own_packed(X, packed):
    return X @ packed.astype(X.dtype)
"""
    before = Prepacking((1,), "own_pack", (ArrayType(dtype, (3, 4)),))
    return CandidateSource(how, 0, b"", source, "own_packed", (), before)


async def test_what_cannot_be_drawn_is_made_of_what_is_drawn() -> None:
    """Once for all that make it so; what is of the inputs' types may be drawn like these."""
    async with JaxExecutor(ways=(Way.HOT,), compilers=1) as executor:
        makings = PrepackedInputs(executor, PROGRAM, current_settings(), seed=3)
        made = await makings.of(contender("jnp.round(W * 100).astype(jnp.int32)", "int32"), {})
        assert not isinstance(made, Failure)
        drawn = draw(ArrayType("float32", (3, 4)), 3, 1)
        assert list(made) == [1]
        assert np.array_equal(made[1], np.round(drawn * 100).astype(np.int32))
        same = contender("jnp.round(W * 100).astype(jnp.int32)", "int32", "another")
        again = await makings.of(same, {})
        assert not isinstance(again, Failure)
        assert again[1] is made[1]
        assert await makings.of(contender("W * 2", "float32"), {}) == {}
        failed = await makings.of(contender("W.nothing", "int32"), {})
        assert isinstance(failed, Failure)
        assert "nothing" in str(failed)
