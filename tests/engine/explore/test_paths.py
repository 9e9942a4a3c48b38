from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from aiosearch.engine.explore.paths import ELIDED, shared_prefix, step, steps

paths = st.lists(st.integers(0, 10**6), max_size=12).map(tuple)


def coded(path: tuple[int, ...]) -> bytes:
    return b"".join(map(step, path))


@given(paths)
def test_a_path_is_read_back(path: tuple[int, ...]) -> None:
    """Coding and decoding a path changes nothing."""
    assert steps(coded(path)) == path


@given(paths, paths)
def test_bytes_sort_as_paths_do(one: tuple[int, ...], other: tuple[int, ...]) -> None:
    """Codes compare in depth-first order."""
    assert (coded(one) < coded(other)) == (one < other)


@given(st.binary(max_size=40), st.binary(max_size=40), st.binary(max_size=40))
def test_the_shared_prefix(start: bytes, one: bytes, other: bytes) -> None:
    """It is the longest one."""
    a, b = start + one, start + other
    length = shared_prefix(a, b)
    assert a[:length] == b[:length]
    assert length == min(len(a), len(b)) or a[length] != b[length]


def test_an_elided_path_says_so() -> None:
    """What was left out shows as a step of -1."""
    assert steps(step(3) + ELIDED + step(7)) == (3, -1)
