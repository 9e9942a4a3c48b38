"""The settings of jax that a function is made for, and a thread that has another one's."""

from __future__ import annotations

import jax

from aiosearch.optimizer.jax_settings import current_settings, use_settings

OTHERS = {
    "default_device": jax.devices("cpu")[0],
    "default_matmul_precision": "highest",
    "disable_jit": True,
    "enable_x64": True,
    "numpy_dtype_promotion": "strict",
    "numpy_rank_promotion": "raise",
    "default_prng_impl": "rbg",
    "threefry_partitionable": False,
}


def test_a_thread_can_have_all_that_one_can_have_for_itself() -> None:
    """Random numbers' offset is one that all threads have."""
    usual = current_settings()
    assert OTHERS.keys() == {*usual._fields} - {"random_seed_offset"}
    wanted = usual._replace(**OTHERS)
    with use_settings(wanted):
        assert current_settings() == wanted
    assert current_settings() == usual
