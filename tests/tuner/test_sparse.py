"""Sparse products: whatever schedules them, they are those of the dense matrix."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from aiosearch.tuner import TunerError, tune
from aiosearch.tuner.kernels import KernelCall
from aiosearch.tuner.schedules.sparse import (
    COMPRESSED,
    STANDARD,
    blocked_rows,
    tunable_sddmm,
    tunable_spmm,
)

MODULES = [module.__name__ for module in STANDARD]


def csr(rows: int, columns: int, seed: int = 0) -> tuple[Any, Any, Any, Any]:
    """A matrix, dense and as CSR: rows of unlike length, some empty."""
    random = np.random.default_rng(seed)
    dense = random.normal(size=(rows, columns)) * (random.random((rows, columns)) < 0.2)
    dense[rows // 2] = 0
    offsets = np.cumsum([0, *(np.count_nonzero(row) for row in dense)])
    return dense.astype(np.float32), offsets, np.nonzero(dense)[1], dense[np.nonzero(dense)]


def dense_of(columns: Any, values: Any, shape: tuple[int, int]) -> Any:
    """The matrix whose rows of blocks these are."""
    height, width = values.shape[2:]
    dense = np.zeros((values.shape[0] * height, shape[1] + width), values.dtype)
    for (row, slot), column in np.ndenumerate(columns):
        if column >= 0:
            top, left = row * height, column * width
            dense[top : top + height, left : left + width] += values[row, slot]
    return dense[: shape[0], : shape[1]]


@pytest.mark.parametrize("block", [(1, 1), (2, 4), (3, 5), (16, 1)])
def test_a_csr_matrix_becomes_rows_of_blocks(block: tuple[int, int]) -> None:
    dense, *parts = csr(10, 13)
    columns, values = blocked_rows(*parts, block=block)
    assert values.shape[2:] == block
    assert columns.shape == values.shape[:2]
    assert dense_of(columns, values, dense.shape) == pytest.approx(dense)


def test_values_at_one_place_are_added_up() -> None:
    columns, values = blocked_rows(np.array([0, 3]), np.array([1, 0, 1]), np.array([5.0, 6.0, 7.0]))
    assert (columns.tolist(), values.ravel().tolist()) == ([[0, 1]], [6.0, 12.0])


@pytest.mark.parametrize(
    ("offsets", "columns", "words"),
    [([0, 3], [1, 0], "do not cut 2 columns"), ([0, 2], [1, -1], "no columns below 0")],
)
def test_what_is_no_csr_is_refused(offsets: list[int], columns: list[int], words: str) -> None:
    with pytest.raises(TunerError, match=words):
        blocked_rows(np.array(offsets), np.array(columns), np.ones(len(columns)))


def spmm_arguments(block: tuple[int, int] = (2, 4)) -> tuple[Any, Any, Any]:
    columns, values = blocked_rows(*csr(12, 16)[1:], block=block)
    random = np.random.default_rng(1)
    dense = random.normal(size=(16 // block[1], block[1], 8))
    return jnp.asarray(columns), jnp.asarray(values, jnp.float32), jnp.asarray(dense, jnp.float32)


def sddmm_arguments(block: tuple[int, int] = (2, 4)) -> tuple[Any, Any, Any]:
    columns, _ = blocked_rows(*csr(12, 16)[1:], block=block)
    random = np.random.default_rng(2)
    left = jnp.asarray(random.normal(size=(len(columns), block[0], 8)), jnp.float32)
    right = jnp.asarray(random.normal(size=(16 // block[1], block[1], 8)), jnp.float32)
    return jnp.asarray(columns), left, right


@pytest.mark.parametrize("block", [(1, 1), (2, 4)])
def test_every_schedule_of_spmm_multiplies_the_dense_matrix(block: tuple[int, int]) -> None:
    matrix, *_ = csr(12, 16)
    columns, values, dense = spmm_arguments(block)
    wanted = (matrix @ np.asarray(dense).reshape(16, 8)).reshape(-1, block[0], 8)
    branches = _compute(tunable_spmm(), (columns, values, dense), wanted)
    assert {"XLA", "XLA in chunks", COMPRESSED, "SRSR", "before the kernel"} <= branches


@pytest.mark.parametrize("block", [(1, 1), (2, 4)])
def test_every_schedule_of_sddmm_gives_the_products_at_the_places(block: tuple[int, int]) -> None:
    columns, left, right = sddmm_arguments(block)
    whole = np.asarray(left).reshape(12, 8) @ np.asarray(right).reshape(16, 8).T
    blocks = whole.reshape(-1, block[0], 16 // block[1], block[1])
    wanted = np.stack(
        [
            [blocks[row, :, at] if at >= 0 else np.zeros(block) for at in places]
            for row, places in enumerate(np.asarray(columns))
        ]
    )
    branches = _compute(tunable_sddmm(), (columns, left, right), wanted)
    assert {"XLA in chunks", "XLA, all products", "SRSR", "before the kernel"} <= branches


def _compute(kernel: Any, arguments: tuple[Any, ...], wanted: Any) -> set[str]:
    """Checks points of a space; gives the branches that they took."""
    space, random, branches = kernel.search_space(KernelCall(arguments)), Random(0), set[str]()
    assert np.asarray(kernel.reference(*arguments)) == pytest.approx(wanted, abs=1e-4)
    for _ in range(24):
        decisions = space.sample(random).decisions
        values = kernel.original(*arguments, **decisions)
        assert np.asarray(values) == pytest.approx(wanted, abs=1e-4), decisions
        branches |= {value for value in decisions.values() if isinstance(value, str)}
    return branches


@pytest.mark.parametrize(
    "branch", ["XLA", "XLA in chunks", "XLA, all products", COMPRESSED, "as it is"]
)
def test_what_lies_where_there_is_no_block_counts_as_nothing(branch: str) -> None:
    """Neither an infinity of a row, nor one that stands where values were filled up."""
    columns, left, right = sddmm_arguments()
    absent = np.asarray(columns) < 0
    assert absent.any()
    decisions: dict[str, Any] = dict.fromkeys(MODULES, "as it is") | {"library_call": branch}
    decisions["chunk"] = 1
    if branch != COMPRESSED:  # which has no products at places
        values = tunable_sddmm().original(columns, left.at[:].set(jnp.inf), right, **decisions)
        assert not np.asarray(values)[absent].any()
    if branch == "XLA, all products":
        return
    columns, values, dense = spmm_arguments()
    filled = jnp.where(jnp.asarray(absent)[..., None, None], jnp.nan, values)
    product = tunable_spmm().original(columns, filled, dense, **decisions)
    expected = tunable_spmm().original(columns, values, dense, **decisions)
    assert np.asarray(product) == pytest.approx(np.asarray(expected))
    infinite = dense.at[0].set(jnp.inf)  # a row that a place which is none must not meet
    blocks = np.asarray(columns) == 0
    untouched = ~blocks.any(axis=1)
    assert untouched.any()
    values = np.asarray(tunable_spmm().original(columns, filled, infinite, **decisions))
    assert np.isfinite(values[untouched]).all()


def test_untuned_a_sparse_product_runs_as_the_library_of_its_types() -> None:
    def untuned(kernel: Any, arguments: tuple[Any, ...]) -> str:
        decisions = kernel.default(KernelCall(arguments)).decisions
        return str(decisions["library_call"])

    columns, values, dense = spmm_arguments((1, 1))
    assert untuned(tunable_spmm(), (columns, values, dense)) == COMPRESSED
    assert untuned(tunable_spmm(), spmm_arguments((2, 4))) == "XLA"
    halves = (values.astype(jnp.bfloat16), dense.astype(jnp.bfloat16))
    assert untuned(tunable_spmm(), (columns, *halves)) == "XLA"
    assert untuned(tunable_sddmm(), sddmm_arguments((1, 1))) == "XLA"


@pytest.mark.timeout(400)
async def test_a_sparse_product_is_tuned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    kernel = tunable_spmm(epilogue="relu", table=str(tmp_path / "table.json"))
    columns, values, dense = spmm_arguments()
    report = await tune(kernel, columns, values, dense, trials=5)
    assert report.rejected == {}
    product = jax.jit(kernel)(columns, values, dense)
    expected = kernel.reference(columns, values, dense)
    assert np.asarray(product) == pytest.approx(np.asarray(expected), abs=1e-4)


def test_columns_have_to_be_whole_numbers_of_two_axes() -> None:
    columns, values, dense = spmm_arguments()
    with pytest.raises(TunerError, match=r"spmm takes the columns of blocks first"):
        tunable_spmm().reference(values, columns, dense)
